package onnxgo

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	onnx "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"google.golang.org/protobuf/encoding/protowire"
	gorgonia "gorgonia.org/tensor"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// The messages of onnx.proto that the models below need.

func message(fields ...[]byte) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}

func bytesField(n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), v)
}

func stringField(n protowire.Number, v string) []byte { return bytesField(n, []byte(v)) }

func intField(n protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), uint64(v))
}

// value returns a ValueInfoProto of float32. Dimensions below 0 are symbolic.
func value(name string, dims ...int64) []byte {
	var shape []byte
	for _, d := range dims {
		dim := intField(1, d)
		if d < 0 {
			dim = stringField(2, "batch")
		}
		shape = append(shape, bytesField(1, dim)...)
	}
	return message(stringField(1, name), bytesField(2, bytesField(1, message(intField(1, 1), bytesField(2, shape)))))
}

// constant returns a TensorProto of float32.
func constant(name string, v []float32, dims ...int64) []byte {
	var out []byte
	for _, d := range dims {
		out = append(out, intField(1, d)...)
	}
	out = append(out, intField(2, 1)...)
	for _, x := range v {
		out = protowire.AppendFixed32(protowire.AppendTag(out, 4, protowire.Fixed32Type), math.Float32bits(x))
	}
	return append(out, stringField(8, name)...)
}

func operator(op string, in, out []string, attrs ...[]byte) []byte {
	var b []byte
	for _, s := range in {
		b = append(b, stringField(1, s)...)
	}
	for _, s := range out {
		b = append(b, stringField(2, s)...)
	}
	b = append(b, stringField(4, op)...)
	for _, a := range attrs {
		b = append(b, bytesField(5, a)...)
	}
	return b
}

func intAttr(name string, v int64) []byte {
	return message(stringField(1, name), intField(3, v), intField(20, 2))
}

type graphParts struct{ nodes, constants, inputs, outputs [][]byte }

func (g graphParts) model() []byte {
	var b []byte
	for _, m := range g.nodes {
		b = append(b, bytesField(1, m)...)
	}
	b = append(b, stringField(2, "test")...)
	for _, m := range g.constants {
		b = append(b, bytesField(5, m)...)
	}
	for _, m := range g.inputs {
		b = append(b, bytesField(11, m)...)
	}
	for _, m := range g.outputs {
		b = append(b, bytesField(12, m)...)
	}
	return message(intField(1, 6), bytesField(7, b), bytesField(8, intField(2, 11)))
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// network returns tanh(relu(x W + b)²) V, in which an operator reads a value twice.
func network() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	return graphParts{
		inputs:  [][]byte{value("x", 3, 4)},
		outputs: [][]byte{value("y", 3, 2)},
		constants: [][]byte{constant("w", normal(r, 20), 4, 5), constant("b", normal(r, 15), 3, 5),
			constant("v", normal(r, 10), 5, 2)},
		nodes: [][]byte{
			operator("MatMul", []string{"x", "w"}, []string{"h"}),
			operator("Add", []string{"h", "b"}, []string{"a"}),
			operator("Relu", []string{"a"}, []string{"p"}),
			operator("Mul", []string{"p", "p"}, []string{"q"}),
			operator("Tanh", []string{"q"}, []string{"t"}),
			operator("MatMul", []string{"t", "v"}, []string{"y"}),
		},
	}.model()
}

// simpleNetwork returns network without the square, because gorgonnx loses one of two equal inputs.
func simpleNetwork() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	return graphParts{
		inputs:  [][]byte{value("x", 3, 4)},
		outputs: [][]byte{value("y", 3, 2)},
		constants: [][]byte{constant("w", normal(r, 20), 4, 5), constant("b", normal(r, 15), 3, 5),
			constant("v", normal(r, 10), 5, 2)},
		nodes: [][]byte{
			operator("MatMul", []string{"x", "w"}, []string{"h"}),
			operator("Add", []string{"h", "b"}, []string{"a"}),
			operator("Relu", []string{"a"}, []string{"p"}),
			operator("Tanh", []string{"p"}, []string{"t"}),
			operator("MatMul", []string{"t", "v"}, []string{"y"}),
		},
	}.model()
}

func run(t *testing.T, backend interface {
	onnx.Backend
	Run() error
}, model []byte, x gorgonia.Tensor) []gorgonia.Tensor {
	t.Helper()
	m := onnx.NewModel(backend)
	if err := m.UnmarshalBinary(model); err != nil {
		t.Fatal(err)
	}
	if err := m.SetInput(0, x); err != nil {
		t.Fatal(err)
	}
	if err := backend.Run(); err != nil {
		t.Fatal(err)
	}
	out, err := m.GetOutputTensors()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newGraph(t *testing.T) *Graph {
	g := New(runtime.Options{Backend: cpu.New()}, 0)
	t.Cleanup(func() { g.Close() })
	return g
}

func input(seed uint64, dims ...int) *gorgonia.Dense {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return gorgonia.New(gorgonia.WithShape(dims...), gorgonia.WithBacking(normal(rand.New(rand.NewPCG(seed, 3)), n)))
}

func close32(t *testing.T, got, want gorgonia.Tensor) {
	t.Helper()
	a, b := got.Data().([]float32), want.Data().([]float32)
	if len(a) != len(b) {
		t.Fatalf("%d elements, expected %d", len(a), len(b))
	}
	for i := range b {
		if !(math.Abs(float64(a[i]-b[i])) <= 1e-5) {
			t.Errorf("element %d: %v, expected %v", i, a[i], b[i])
		}
	}
}

// TestAgainstGorgonnx checks that a decoded model gives the same answer on onnx-go's own backend and on this one.
func TestAgainstGorgonnx(t *testing.T) {
	x := input(7, 3, 4)
	want := run(t, gorgonnx.NewGraph(), simpleNetwork(), x)
	got := run(t, newGraph(t), simpleNetwork(), x)
	close32(t, got[0], want[0])
}

// TestReadTwice compares an operator that reads a value twice with plain Go.
func TestReadTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w, b, v := normal(r, 20), normal(r, 15), normal(r, 10)
	for seed := range uint64(3) {
		x := input(seed, 3, 4)
		got := run(t, newGraph(t), network(), x)[0].Data().([]float32)
		data := x.Data().([]float32)
		for i := range 3 {
			for j := range 2 {
				want := 0.0
				for k := range 5 {
					h := float64(b[i*5+k])
					for l := range 4 {
						h += float64(data[i*4+l]) * float64(w[l*5+k])
					}
					h = max(h, 0)
					want += math.Tanh(h*h) * float64(v[k*2+j])
				}
				if !(math.Abs(want-float64(got[i*2+j])) <= 1e-5) {
					t.Errorf("seed %d [%d,%d]: %v, expected %v", seed, i, j, got[i*2+j], want)
				}
			}
		}
	}
}

// TestSeveral runs one decoded model with several inputs, of varying sizes, and operators with several outputs.
func TestSeveral(t *testing.T) {
	model := graphParts{
		inputs:  [][]byte{value("x", -1, 4)},
		outputs: [][]byte{value("y", -1, 2), value("z", -1, 2)},
		nodes: [][]byte{
			operator("Split", []string{"x"}, []string{"a", "b"}, intAttr("axis", 1)),
			operator("Sub", []string{"a", "b"}, []string{"y"}),
			operator("Neg", []string{"b"}, []string{"z"}),
		},
	}.model()
	g := newGraph(t)
	m := onnx.NewModel(g)
	if err := m.UnmarshalBinary(model); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{1, 5, 5, 2} {
		x := input(uint64(rows), rows, 4)
		if err := m.SetInput(0, x); err != nil {
			t.Fatal(err)
		}
		if err := g.Run(); err != nil {
			t.Fatal(err)
		}
		out, err := m.GetOutputTensors()
		if err != nil {
			t.Fatal(err)
		}
		v, y, z := x.Data().([]float32), out[0].Data().([]float32), out[1].Data().([]float32)
		for i := range rows {
			for j := range 2 {
				if y[i*2+j] != v[i*4+j]-v[i*4+2+j] || z[i*2+j] != -v[i*4+2+j] {
					t.Fatalf("%d rows: wrong answer at [%d,%d]", rows, i, j)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		model graphParts
		want  string
	}{
		{"unknown operator", graphParts{inputs: [][]byte{value("x", 2)}, outputs: [][]byte{value("y", 2)},
			nodes: [][]byte{operator("Frobnicate", []string{"x"}, []string{"y"})}}, "Frobnicate"},
		{"bad attribute", graphParts{inputs: [][]byte{value("x", 2)}, outputs: [][]byte{value("y", 2)},
			nodes: [][]byte{operator("Relu", []string{"x"}, []string{"y"}, intAttr("slope", 1))}}, "slope"},
		{"circle", graphParts{inputs: [][]byte{value("x", 2)}, outputs: [][]byte{value("y", 2)},
			nodes: [][]byte{operator("Add", []string{"x", "z"}, []string{"y"}),
				operator("Add", []string{"x", "y"}, []string{"z"})}}, "waits for"},
	} {
		g := newGraph(t)
		m := onnx.NewModel(g)
		if err := m.UnmarshalBinary(c.model.model()); err != nil {
			t.Fatal(err)
		}
		if err := m.SetInput(0, input(1, 2)); err != nil {
			t.Fatal(err)
		}
		if err := g.Run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected one that says %q", c.name, err, c.want)
		}
	}
}

func TestConvert(t *testing.T) {
	wide, err := FromGorgonia(gorgonia.New(gorgonia.WithShape(2, 2), gorgonia.WithBacking([]int{1, 2, 3, 4})))
	if err != nil || wide.DType() != tensor.Int64 || tensor.Data[int64](wide)[3] != 4 {
		t.Errorf("int: %s, %v", wide, err)
	}
	turned := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	if err := turned.T(); err != nil {
		t.Fatal(err)
	}
	x, err := FromGorgonia(turned)
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.Data[float32](x); x.Dim(0) != 3 || got[1] != 4 || got[2] != 2 {
		t.Errorf("transposed: %s %v", x, got)
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint16, tensor.Int64,
		tensor.Bool, tensor.Complex64, tensor.Float16} {
		y := tensor.New(d, 2, 3)
		g, err := ToGorgonia(y)
		if err != nil {
			t.Errorf("%v: %v", d, err)
			continue
		}
		back, err := FromGorgonia(g)
		if err != nil || back.Len() != 6 {
			t.Errorf("%v and back: %s, %v", d, back, err)
		}
	}
	s, err := ToGorgonia(tensor.Scalar(float32(3)))
	if err != nil || !s.IsScalar() {
		t.Errorf("scalar: %v, %v", s, err)
	}
}
