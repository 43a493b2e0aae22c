package feed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// mapPort returns a port that is a map in the model's file.
func mapPort(elem tensor.DType, keys string, columns ir.Dim) []runtime.Port {
	p := port(elem, ir.Sym("N"), columns)
	p[0].Keys = keys
	return p
}

func TestMaps(t *testing.T) {
	two := ir.Const(2)
	words, numbers := mapPort(tensor.Float32, `["b","a"]`, two), mapPort(tensor.Int64, "[3,-7]", two)
	dense := mapPort(tensor.String, "[]", ir.Unknown)
	for _, c := range []struct {
		spec  string
		ports []runtime.Port
		want  *tensor.Tensor
	}{
		{`x={"a":1.5,"other":"text"}`, words, tensor.FromSlice([]float32{0, 1.5}, 1, 2)},
		{`[{"a":1},{},{"b":-2e3}]`, words, tensor.FromSlice([]float32{0, 1, 0, 0, -2000, 0}, 3, 2)},
		{`{"-7":9007199254740993}`, numbers, tensor.FromSlice([]int64{0, 9007199254740993}, 1, 2)},
		{`{"10":"c","-1":"a","9":"b"}`, dense, tensor.FromStrings([]string{"a", "b", "c"}, 1, 3)},
		{"x=[[1,2]]", words, tensor.FromSlice([]float32{1, 2}, 1, 2)},
	} {
		in, err := Read(t.Context(), []string{c.spec}, c.ports, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
		} else if got := in.Data["x"].(*tensor.Tensor); !tensor.Equal(got, c.want) {
			t.Errorf("%s: found %s, expected %s", c.spec, got, c.want)
		}
	}
	for _, c := range []struct {
		spec  string
		ports []runtime.Port
		want  string
	}{
		{`{"aa":1}`, words, `input "x": map 0: the model knows none of the keys "aa"; it knows "b" "a"`},
		{`[{"a":1},{"b":"1"}]`, words, `map 1: key "b": expected a number, found "1"`},
		{`{"a":null}`, words, `key "a": expected a number, found <nil>`},
		{`[{"a":1},2]`, words, `expected {"key": value, …}, or a list of these: found 2`},
		{`{"a":1`, words, `expected {"key": value, …}, or a list of these: found {"a":1`},
		{`{"3":1.5}`, numbers, "expected integers (int64), found 1.5"},
		{`{"1":2}`, dense, `key "1": expected a text, found 2`},
		{`{"01":"x"}`, dense, "expected a key written as 1"},
		{`{"one":"x"}`, dense, `expected integers as keys, found "one"`},
		{`[{"1":"x"},{"1":"x","2":"y"}]`, dense, "map 1 has 2 values, map 0 has 1"},
		{`{"a":1}`, port(tensor.Float32, two), "expected a number or a list of numbers"},
	} {
		if in, err := Read(t.Context(), []string{c.spec}, c.ports, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, expected %q", c.spec, in, err, c.want)
		}
	}
}

// TestJSONFiles checks files with the value of one input, and with those of several by their names.
func TestJSONFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := append(port(tensor.Float32, ir.Sym("N"), ir.Const(1)), mapPort(tensor.Float32, `["b","a"]`, ir.Const(2))...)
	two[1].Name = "m"
	in, err := Read(t.Context(), []string{file("all.json", "\ufeff"+`{"x": [[1], [2]], "m": [{"a": 3}, {"b": 4}]}`+"\n")}, two, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x, m := in.Data["x"].(*tensor.Tensor), in.Data["m"].(*tensor.Tensor); !tensor.Equal(x,
		tensor.FromSlice([]float32{1, 2}, 2, 1)) || !tensor.Equal(m, tensor.FromSlice([]float32{0, 3, 4, 0}, 2, 2)) {
		t.Errorf("found %s, %s", x, m)
	}
	in, err = Read(t.Context(), []string{"x=7", "m=" + file("m.json", `{"a": 3}`)}, two, Options{})
	if err != nil || !tensor.Equal(in.Data["m"].(*tensor.Tensor), tensor.FromSlice([]float32{0, 3}, 1, 2)) {
		t.Errorf("found %v, %v", in, err)
	}
	for want, specs := range map[string][]string{
		"the model has several inputs (x, m)":  {file("other.json", `{"y": 1}`)},
		`already has a file`:                   {"x=1", file("all.json", `{"x": 1, "m": {"a": 3}}`)},
		`input "m" is missing`:                 {file("x.json", `{"x": 1}`)},
		`cut.json: input "m": expected {"key"`: {"x=1", "m=" + file("cut.json", `{"a"`)},
		"nothing.json":                         {"x=1", "m=nothing.json"},
	} {
		if in, err := Read(t.Context(), specs, two, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, expected %q", specs, in, err, want)
		}
	}
}
