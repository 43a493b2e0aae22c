package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/ref"
)

func num(f protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.VarintType), v)
}

func msg(f protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), bytes.Join(parts, nil))
}

func str(f protowire.Number, s string) []byte { return msg(f, []byte(s)) }

// model returns a model that applies an operator to x of one float.
func model(op string) *fstest.MapFile {
	typ := msg(2, msg(1, num(1, 1), msg(2, msg(1, num(1, 1)))))
	return &fstest.MapFile{Data: bytes.Join([][]byte{num(1, 8), msg(8, num(2, 13)),
		msg(7, msg(1, str(1, "x"), str(2, "y"), str(3, "n"), str(4, op)), msg(11, str(1, "x"), typ),
			msg(12, str(1, "y"), typ))}, nil)}
}

func one(v float32) *fstest.MapFile {
	bits := protowire.AppendFixed32(protowire.AppendTag(nil, 4, protowire.Fixed32Type), math.Float32bits(v))
	return &fstest.MapFile{Data: bytes.Join([][]byte{num(1, 1), num(2, 1), bits}, nil)}
}

func folder() fstest.MapFS {
	return fstest.MapFS{
		"node/test_neg/model.onnx":                  model("Neg"),
		"node/test_neg/test_data_set_0/input_0.pb":  one(1),
		"node/test_neg/test_data_set_0/output_0.pb": one(-1),
		"node/test_neg/test_data_set_1/input_0.pb":  one(2),
		"node/test_neg/test_data_set_1/output_0.pb": one(-2),
		"node/test_abs/model.onnx":                  model("Abs"),
		"node/test_abs/test_data_set_0/input_0.pb":  one(-1),
		"node/test_abs/test_data_set_0/output_0.pb": one(1.5),
		"node/test_foo/model.onnx":                  model("Foo"),
		"node/test_rnd/model.onnx":                  model("Abs"),
		"node/test_bad/model.onnx":                  {Data: []byte("x")},
		"node/test_void/model.onnx":                 model("Abs"),
		"light/light_exp.onnx":                      model("Exp"),
		"light/light_exp_output_0.pb":               one(1),
		"light/light_cos.onnx":                      model("Cos"),
		"light/light_cos_output_0.pb":               one(0.5),
		"light/other.onnx":                          model("Abs"), // without an output
	}
}

func TestRun(t *testing.T) {
	skip := map[string]string{"test_rnd": "chance"}
	done := 0
	results, err := Run(context.Background(), folder(),
		Options{Backend: ref.New(), Skip: skip, Jobs: 3, Done: func(Result) { done++ }})
	if err != nil || done != 8 {
		t.Fatalf("%v, %d results seen", err, done)
	}
	want := []struct {
		name, status, reason string
		ops                  []string
	}{
		{"light_cos", "failed", "output y: element 0 of float32[1]: expected 0.5, found 1", []string{"Cos"}},
		{"light_exp", "passed", "", []string{"Exp"}},
		{"test_abs", "failed", "output y: element 0 of float32[1]: expected 1.5, found 1", []string{"Abs"}},
		{"test_bad", "failed", "model.onnx: ", nil},
		{"test_foo", "failed", "1 operator is not supported: Foo (domain ai.onnx, version 13) at node \"n\"",
			[]string{"Foo"}},
		{"test_neg", "passed", "", []string{"Neg"}},
		{"test_rnd", "skipped", "chance", nil},
		{"test_void", "failed", "no test_data_set folder", []string{"Abs"}},
	}
	for i, r := range results {
		if w := want[i]; r.Name != w.name || string(r.Status) != w.status || !strings.Contains(r.Reason, w.reason) ||
			!slices.Equal(r.Ops, w.ops) {
			t.Errorf("%+v, expected %+v", r, w)
		}
		if (r.Err != nil) != (r.Status == Failed) || r.Err != nil && r.Err.Error() != r.Reason {
			t.Errorf("%s: error %v, reason %s", r.Name, r.Err, r.Reason)
		}
	}
	if got := Count(results).String(); got != "2 passed, 5 failed, 1 skipped" {
		t.Error(got)
	}
	if m := Missing(results); len(m) != 1 || m[0].Op != "Foo" || m[0].Failed != 1 {
		t.Errorf("missing %v", m)
	}
	if by := ByOp(results); len(by) != 5 || by[0].Op != "Abs" || by[0].Failed != 2 || by[4].Passed != 1 {
		t.Errorf("by operator %v", by)
	}
	var b bytes.Buffer
	if err := WriteReport(&b, results, time.Date(2026, 11, 21, 4, 5, 6, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Date                    string
		Passed, Failed, Skipped []string
	}
	if err := json.Unmarshal(b.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if report.Date != "11/21/2026 04:05:06" || len(report.Failed) != 5 || !slices.Equal(report.Passed,
		[]string{"OnnxBackendNodeModelTest::light_exp_cpu", "OnnxBackendNodeModelTest::test_neg_cpu"}) ||
		!slices.Equal(report.Skipped, []string{"OnnxBackendNodeModelTest::test_rnd_cpu"}) {
		t.Errorf("report %s", b.String())
	}

	results, err = Run(context.Background(), folder(),
		Options{Backend: ref.New(), Match: regexp.MustCompile("neg|abs")})
	if err != nil || len(results) != 2 {
		t.Errorf("%v, %v", results, err)
	}
	if _, err := Run(context.Background(), folder(),
		Options{Backend: ref.New(), Skip: map[string]string{"test_none": "x"}}); err == nil ||
		!strings.Contains(err.Error(), "test_none") {
		t.Errorf("a reason for a test that is not there: %v", err)
	}
	if _, err := Run(context.Background(), fstest.MapFS{}, Options{Backend: ref.New()}); err == nil {
		t.Error("an empty folder has no tests, and no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, folder(), Options{Backend: ref.New()}); err == nil {
		t.Error("cancelled, and no error")
	}
}

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f := func(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }
	seq := func(d ...tensor.Datum) tensor.Datum { return &tensor.Sequence{Items: d} }
	for _, c := range []struct {
		got, want tensor.Datum
		ok        bool
	}{
		{f(1, nan, inf), f(1, nan, inf), true},
		{f(1.0009), f(1), true},
		{f(1.0011), f(1), false},
		{f(0.9e-7), f(0), true},
		{f(1.1e-7), f(0), false},
		{f(1), f(nan), false},
		{f(nan), f(1), false},
		{f(1e30), f(inf), false},
		{f(-inf), f(inf), false},
		{f(1, 2), f(1), false},
		{tensor.Scalar(float32(1)), f(1), false},
		{tensor.Scalar(float64(1)), tensor.Scalar(float32(1)), false},
		{tensor.Scalar(int64(1000)), tensor.Scalar(int64(1001)), false},
		{tensor.Scalar(true), tensor.Scalar(true), true},
		{tensor.Scalar(complex64(1 + 1i)), tensor.Scalar(complex64(1 + 1.0005i)), true},
		{tensor.Scalar(complex64(1 + 1i)), tensor.Scalar(complex64(1 + 1.1i)), false},
		{tensor.FromStrings([]string{"a"}, 1), tensor.FromStrings([]string{"a"}, 1), true},
		{tensor.FromStrings([]string{"a"}, 1), tensor.FromStrings([]string{"b"}, 1), false},
		{seq(f(1), f(2)), seq(f(1), f(2)), true},
		{seq(f(1)), seq(f(1), f(2)), false},
		{seq(f(1), f(3)), seq(f(1), f(2)), false},
		{f(1), seq(f(1)), false},
		{&tensor.Optional{Value: f(1)}, f(1), true},
		{f(1), &tensor.Optional{Value: f(1)}, true},
		{nil, &tensor.Optional{}, true},
		{f(1), &tensor.Optional{}, false},
		{nil, f(1), false},
		{(*tensor.Tensor)(nil), f(1), false},
	} {
		if err := Compare(c.got, c.want); (err == nil) != c.ok {
			t.Errorf("%v against %v: %v", describe(c.got), describe(c.want), err)
		}
	}
}

func TestSkips(t *testing.T) {
	got, err := ParseSkips(strings.NewReader("# why\n\ntest_a \t it is random\n  test_b x\n"), "f")
	if err != nil || !maps.Equal(got, map[string]string{"test_a": "it is random", "test_b": "x"}) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{"test_a": "f:1: test_a is skipped without a reason",
		"test_a x\ntest_a y": "f:2: test_a is listed twice"} {
		if _, err := ParseSkips(strings.NewReader(text), "f"); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Skips(); err != nil {
		t.Error(err)
	}
}
