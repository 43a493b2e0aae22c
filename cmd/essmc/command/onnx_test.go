package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir/tensor"
)

// The messages of ONNX that the tests need.
func pbNum(f protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.VarintType), v)
}

func pbMsg(f protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), bytes.Join(parts, nil))
}

func pbStr(f protowire.Number, s string) []byte { return pbMsg(f, []byte(s)) }

// pbValue returns an input (field 11) or output (12). dims are numbers, names, or nil for unknown dimensions.
func pbValue(f protowire.Number, name string, elem tensor.DType, dims ...any) []byte {
	var shape []byte
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			shape = append(shape, pbMsg(1, pbNum(1, uint64(d)))...)
		case int64:
			shape = append(shape, pbMsg(1, pbNum(1, uint64(d)))...)
		case string:
			shape = append(shape, pbMsg(1, pbStr(2, d))...)
		default:
			shape = append(shape, pbMsg(1)...)
		}
	}
	return pbMsg(f, pbStr(1, name), pbMsg(2, pbMsg(1, pbNum(1, uint64(elem)), pbMsg(2, shape))))
}

func pbNode(op, in, out string, more ...[]byte) []byte {
	n := []byte{}
	for _, name := range strings.Fields(in) {
		n = append(n, pbStr(1, name)...)
	}
	for _, name := range strings.Fields(out) {
		n = append(n, pbStr(2, name)...)
	}
	return pbMsg(1, append([][]byte{n, pbStr(4, op)}, more...)...)
}

func pbFloats(name string, v []float32, dims ...int) []byte {
	var t, raw []byte
	for _, d := range dims {
		t = append(t, pbNum(1, uint64(d))...)
	}
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return pbMsg(5, t, pbNum(2, uint64(tensor.Float32)), pbStr(8, name), pbMsg(9, raw))
}

func pbModel(parts ...[]byte) []byte {
	return slicesConcat(pbNum(1, 8), pbStr(2, "hand"), pbStr(3, "1.0"), pbMsg(8, pbNum(2, 17)),
		pbMsg(7, append([][]byte{pbStr(2, "g")}, parts...)...), pbMsg(14, pbStr(1, "made"), pbStr(2, "for a test")))
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// onnxFixtures makes a new directory with linear.onnx (B samples of any number of steps, a shift of one number, two
// outputs), other.onnx (the same with another weight) and fixed.onnx, and inputs for them.
func onnxFixtures(t *testing.T) {
	t.Helper()
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("ESSMC_TEST_HOME", home)
	linear := func(w float32, dims ...any) []byte {
		return pbModel(pbNode("MatMul", "x w", "m"), pbNode("Add", "m shift", "s"), pbNode("Tanh", "s", "y"),
			pbNode("ReduceMean", "y", "mean"),
			pbFloats("w", []float32{1, 2, w, 4, 5, -6}, 3, 2), pbValue(11, "x", tensor.Float32, dims...),
			pbValue(11, "shift", tensor.Float32),
			pbValue(12, "y", tensor.Float32, dims[0], dims[1], 2), pbValue(12, "mean", tensor.Float32, 1, 1, 1))
	}
	writeBytes(t, "linear.onnx", linear(3, "B", nil, 3))
	writeBytes(t, "other.onnx", linear(3.5, "B", nil, 3))
	writeBytes(t, "fixed.onnx", linear(3, 2, 5, 3))
	writeBytes(t, "unnamed", linear(3, 2, 5, 3)) // known by its content
	write(t, "x.npy", tensor.FromSlice(ramp(2*5*3), 2, 5, 3))
	write(t, "shift.npy", tensor.Scalar[float32](0.25))
}

func writeBytes(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestONNX(t *testing.T) {
	onnxFixtures(t)
	x := tensor.Data[float32](read(t, "x.npy"))
	want := make([]float32, 2*5*2)
	for i := range 10 {
		for k, w := range [][3]float64{{1, 3, 5}, {2, 4, -6}} {
			want[2*i+k] = float32(math.Tanh(0.25 + w[0]*float64(x[3*i]) + w[1]*float64(x[3*i+1]) +
				w[2]*float64(x[3*i+2])))
		}
	}
	write(t, "want.npy", tensor.FromSlice(want, 2, 5, 2))
	in := []string{"-i", "x=x.npy", "-i", "shift=shift.npy"}
	with := func(args ...string) []string { return append(args, in...) }
	must(t, "compile", "linear.onnx", "-o", "linear.essm")
	must(t, "compile", "linear.onnx", "-o", "bound.essm", "--shape", "x=2,L,_")
	must(t, "import", "linear.onnx", "-o", "linear.txt")
	for _, model := range []string{"linear.onnx", "fixed.onnx", "unnamed", "linear.essm", "bound.essm", "linear.txt"} {
		for _, device := range []string{"cpu", "ref"} {
			must(t, with("run", model, "-o", "y=y.npy", "-o", "mean=mean.npy", "--device", device)...)
			if e := largest(t, read(t, "y.npy"), read(t, "want.npy")); !(e <= 1e-6) {
				t.Errorf("%s on %s: error %.3g", model, device, e)
			}
		}
		must(t, with("verify", model, "-e", "y=want.npy")...)
	}
	must(t, with("run", "linear.onnx", "--shape", "B=2", "--shape", "x=_,5,3")...)
	must(t, "run", "linear.onnx", "-i", "x=x.npy", "-i", "shift=0.25", "-o", "y=z.npy", "-o", "mean=mean.npy")
	if e := largest(t, read(t, "z.npy"), read(t, "want.npy")); !(e <= 1e-6) {
		t.Errorf("with a number for shift: error %.3g", e)
	}
	must(t, "compare", "linear.onnx", "linear.essm", "-i", "x=[[[1,2,3],[4,5,6]]]", "-i", "shift=-1e-3")
	must(t, "bench", "linear.onnx", "--shape", "x=2,5,3", "--input", "shift=1", "--repeat", "1")
	refused(t, 1, []string{"run", "linear.onnx", "-i", "x=x.npy", "-i", "shift=[1,2]"}, `input "shift"`,
		"expected float,", "found float32[2]")
	must(t, with("run", "linear.onnx", "--dump", "values")...)
	if !tensor.Equal(read(t, "values/y.npy"), read(t, "y.npy")) {
		t.Error("the dump is not the answer of the interpreter")
	}
	if text := must(t, "inspect", "bound.essm"); !strings.Contains(text, "float[2,L,3]") {
		t.Errorf("the plan's dimensions are not bound: %s", text)
	}
	for _, args := range [][]string{{"linear.onnx", "--shape", "x=4,7,3"},
		{"linear.onnx", "--shape", "x=_,7,3", "--shape", "B=2"}, {"fixed.onnx"},
		{"bound.essm", "--shape", "L=9"}, {"linear.onnx", "--shape", "x=2,5,3", "-i", "x=x.npy"}} {
		var b benchmark
		out := must(t, append([]string{"bench", "--json", "--repeat", "2"}, args...)...)
		if err := json.Unmarshal([]byte(out), &b); err != nil || b.Runs != 2 {
			t.Errorf("bench %v: %v, %s", args, err, out)
		}
	}
	if text := must(t, "explain", "linear.onnx", "--why"); !strings.Contains(text, "raise-conv") ||
		!strings.Contains(text, "Near misses\n  none") {
		t.Errorf("found %s", text)
	}
	inspected := must(t, "inspect", "linear.onnx", "--shape", "x=8,100,3")
	imported := must(t, "import", "linear.onnx")
	t.Chdir(os.Getenv("ESSMC_TEST_HOME"))
	golden(t, "tables/onnx.txt", working.ReplaceAllString(inspected, "working …"))
	golden(t, "tables/import.txt", working.ReplaceAllString(imported, "working …"))
}

// TestNearMiss checks that explain says why a layer is not a state-space layer.
func TestNearMiss(t *testing.T) {
	onnxFixtures(t)
	kernel := make([]float32, 2*2*32) // it mixes channels
	for i := range kernel {
		kernel[i] = float32(i%5) / 5
	}
	writeBytes(t, "mixes.onnx", pbModel(pbNode("Conv", "u k", "y"), pbFloats("k", kernel, 2, 2, 32),
		pbValue(11, "u", tensor.Float32, "B", 2, "L"), pbValue(12, "y", tensor.Float32, "B", 2, nil)))
	if text := must(t, "explain", "mixes.onnx", "--why"); !strings.Contains(text, "left as it is: it mixes channels") {
		t.Errorf("found %s", text)
	}
	if text := must(t, "explain", "mixes.onnx"); strings.Contains(text, "left as it is") ||
		!strings.Contains(text, "1 near miss; --why") {
		t.Errorf("found %s", text)
	}
}

func TestBadONNX(t *testing.T) {
	onnxFixtures(t)
	linear, err := os.ReadFile("linear.onnx")
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "truncated.onnx", linear[:len(linear)/2])
	writeBytes(t, "empty.onnx", nil)
	writeBytes(t, "noise.onnx", []byte("\x00\xff\x00\xffnot a model"))
	writeBytes(t, "text.onnx", []byte("this is no model\n"))
	y := pbValue(12, "y", tensor.Float32, "B")
	in := pbValue(11, "x", tensor.Float32, "B")
	writeBytes(t, "unknown.onnx", pbModel(pbNode("Foo", "x", "a", pbStr(3, "first")),
		pbNode("Bar", "a", "y", pbStr(7, "acme")), in, y))
	external := func(location string) []byte {
		entry := func(k, v string) []byte { return pbMsg(13, pbStr(1, k), pbStr(2, v)) }
		return pbModel(pbNode("Add", "x w", "y"), in, y,
			pbMsg(5, pbNum(1, 4), pbNum(2, 1), pbStr(8, "w"), pbNum(14, 1), entry("location", location)))
	}
	writeBytes(t, "secret.bin", make([]byte, 16))
	writeBytes(t, "inside/up.onnx", external("../secret.bin"))
	writeBytes(t, "inside/absolute.onnx", external("/etc/passwd"))
	writeBytes(t, "inside/absent.onnx", external("nothing.bin"))
	if err := os.Symlink(filepath.Join("..", "secret.bin"), filepath.Join("inside", "link.bin")); err == nil {
		writeBytes(t, "inside/link.onnx", external("link.bin"))
		refused(t, 1, []string{"run", "inside/link.onnx", "-i", "x.npy"}, "link.bin", "symbolic link")
	}
	for _, c := range []struct {
		model string
		want  []string
	}{
		{"truncated.onnx", []string{"truncated.onnx"}},
		{"empty.onnx", []string{"empty.onnx", "empty"}},
		{"noise.onnx", []string{"noise.onnx"}},
		{"text.onnx", []string{"text.onnx"}},
		{"unknown.onnx", []string{"unknown.onnx", "2 operators", "Foo", `"first"`, "acme", "Bar"}},
		{"inside/up.onnx", []string{"up.onnx", "secret.bin", "is outside"}},
		{"inside/absolute.onnx", []string{"absolute.onnx", "is outside"}},
		{"inside/absent.onnx", []string{"absent.onnx", "nothing.bin"}},
		{"nowhere.onnx", []string{"nowhere.onnx"}},
	} {
		t.Run(c.model, func(t *testing.T) {
			for _, args := range [][]string{{"run", c.model, "-i", "x.npy"}, {"compile", c.model, "-o", "new.essm"},
				{"inspect", c.model}, {"explain", c.model},
				{"verify", c.model, "-i", "x.npy", "-e", "x.npy"}, {"bench", c.model, "--shape", "1x2"},
				{"compare", c.model, "linear.onnx", "-i", "x.npy"}} {
				refused(t, 1, args, c.want...)
			}
		})
	}
	// Import still describes the file.
	code, stdout, stderr := essmc("import", "unknown.onnx")
	if code != 1 || !strings.Contains(stdout, "acme.Bar") || !strings.Contains(stdout, "first") ||
		!strings.Contains(stderr, "Foo") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	refused(t, 1, []string{"import", "linear.onnx", "-o", "nowhere/ir.txt"}, "nowhere")
	refused(t, 1, []string{"import", "x.npy"}, "is an array")
}

func TestBadShapes(t *testing.T) {
	onnxFixtures(t)
	must(t, "compile", "linear.onnx", "-o", "linear.essm")
	data := []string{"-i", "x=x.npy", "-i", "shift=shift.npy"}
	for _, c := range []struct {
		shape string
		code  int
		want  []string
	}{
		{"B", 2, []string{"expected NAME=DIM"}},
		{"=3", 2, []string{"expected NAME=DIM"}},
		{"B=", 2, []string{"expected NAME=DIM"}},
		{"B=-1", 2, []string{"expected a number from 0"}},
		{"B=99999999999999999999", 2, []string{"expected a number from 0"}},
		{"B=L+1", 2, []string{"expected a number from 0", "L+1"}},
		{"x=1,,3", 2, []string{"dimension 1"}},
		{"B=2,3", 1, []string{"linear.onnx", "B is one dimension"}},
		{"B=N", 1, []string{"linear.onnx", "expected a number"}},
		{"T=4", 1, []string{"linear.onnx", "neither an input nor a dimension T", "inputs: x, shift", "dimensions: B"}},
		{"x=1,2", 1, []string{"linear.onnx", "has 3 dimensions", "found 2"}},
		{"x=1,2,4", 1, []string{"linear.onnx", "dimension 2 of input x is 3, found 4"}},
		{"B=3", 1, []string{"x.npy", "expected 3, found 2"}},
		{"x=2,6,3", 1, []string{"x.npy", "expected 6, found 5"}},
	} {
		t.Run(c.shape, func(t *testing.T) {
			refused(t, c.code, append([]string{"run", "linear.onnx", "--shape", c.shape}, data...), c.want...)
		})
	}
	refused(t, 1, []string{"bench", "linear.onnx", "--shape", "B=1", "--shape", "x=2,3,3"}, "B is")
	refused(t, 1, []string{"bench", "linear.onnx", "--shape", "B=2"}, "dimension 1", "--shape")
	refused(t, 1, []string{"bench", "fixed.onnx", "--shape", "2x5"}, "fixed")
	refused(t, 1, []string{"bench", "linear.onnx", "--shape", "x=1099511627776,1099511627776,3"}, "x", "memory")
	refused(t, 1, []string{"bench", "linear.onnx"}, "unknown size: dimension 1 of float[B,?,3]; give it by --shape x=_,1,3")
	refused(t, 2, append([]string{"run", "linear.essm", "--shape", "B=2"}, data...), "the dimensions of a plan")
}

func TestCompareCommand(t *testing.T) {
	onnxFixtures(t)
	must(t, "compile", "linear.onnx", "-o", "linear.essm")
	in := []string{"-i", "x=x.npy", "-i", "shift=shift.npy"}
	with := func(args ...string) []string { return append(append([]string{"compare"}, args...), in...) }
	for _, args := range [][]string{with("linear.onnx", "linear.essm"), with("linear.onnx", "--device-a", "ref"),
		with("linear.onnx", "other.onnx", "--tol", "2"),
		{"compare", "linear.onnx", "fixed.onnx", "--shape", "x=2,5,3"},
		with("linear.onnx", "--device-b", "ref", "--values")} {
		if out := must(t, args...); !strings.Contains(out, "output y: ") || !strings.Contains(out, "output mean: ") {
			t.Errorf("%v: %s", args, out)
		}
	}
	code, stdout, stderr := essmc(with("linear.onnx", "other.onnx")...)
	if code != 1 || !strings.Contains(stderr, `output "y" is the first that differs`) ||
		!strings.Contains(stdout, "output mean: error") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = essmc(with("linear.onnx", "other.onnx", "--values", "--device-a", "ref", "--device-b",
		"ref")...)
	if code != 1 || !strings.Contains(stderr, `value "m" is the first that differs`) ||
		!strings.Contains(stdout, "2 intermediate values compared; 4 of") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	refused(t, 2, with("linear.onnx"), "both runs are the same")
	refused(t, 2, []string{"compare", "linear.onnx", "other.onnx"}, "--input FILE is missing")
	refused(t, 1, with("linear.onnx", "nowhere"), "nowhere")
	refused(t, 1, []string{"compare", "linear.onnx", "other.onnx", "-i", "x=x.npy"}, `input "shift"`)
}
