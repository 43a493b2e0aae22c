package open_test

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// net builds graphs as exporters write them, with weights that depend on their names.
type net struct{ *ir.Builder }

func newNet(name string) net { return net{ir.NewBuilder(name, ops.Default, ops.Opsets())} }

func (n net) weight(name string, shape ...int) *ir.Value {
	h := fnv.New64()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	t := tensor.New(tensor.Float32, shape...)
	for i := range t.Len() {
		tensor.Data[float32](t)[i] = float32(r.NormFloat64() / math.Sqrt(float64(shape[len(shape)-1])))
	}
	return n.Const(name, t)
}

// positive returns weights from 0.5 to 1.5.
func (n net) positive(name string, size int) *ir.Value {
	v := n.weight(name, size)
	for i, x := range tensor.Data[float32](v.Const) {
		tensor.Data[float32](v.Const)[i] = 1 + float32(math.Tanh(float64(x)))/2
	}
	return v
}

func (n net) do(op string, in ...*ir.Value) *ir.Value { return n.Op("", op, in) }

func (n net) number(x float32) *ir.Value { return n.Const("number", tensor.Scalar(x)) }

func (n net) dense(x *ir.Value, name string, in, out int) *ir.Value {
	return n.do("Add", n.do("MatMul", x, n.weight(name+".weight", in, out)), n.weight(name+".bias", out))
}

func (n net) layerNorm(x *ir.Value, name string, size int) *ir.Value {
	centred := n.do("Sub", x, n.do("ReduceMean", x, n.Ints(-1)))
	variance := n.do("ReduceMean", n.do("Pow", centred, n.number(2)), n.Ints(-1))
	y := n.do("Div", centred, n.do("Sqrt", n.do("Add", variance, n.number(1e-5))))
	return n.do("Add", n.do("Mul", y, n.positive(name+".weight", size)), n.weight(name+".bias", size))
}

func (n net) batchNorm(x *ir.Value, name string, size int) *ir.Value {
	return n.Op("", "BatchNormalization", []*ir.Value{x, n.positive(name+".weight", size), n.weight(name+".bias", size),
		n.weight(name+".running_mean", size), n.positive(name+".running_var", size)})
}

func (n net) graph(t *testing.T, y *ir.Value) *ir.Graph {
	t.Helper()
	n.Output("y", y)
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// transformer is an embedding and a block as BERT's, with its weights.
func transformer(t *testing.T) *ir.Graph {
	n := newNet("transformer")
	const d, heads, wide = 32, 4, 64
	x := n.do("Gather", n.weight("tokens", 50, d), n.Input("input", ir.Tensor(tensor.Int64, "B", "L")))
	x = n.layerNorm(x, "embedding.norm", d)
	split := func(name string, perm ...int64) *ir.Value {
		y := n.do("Reshape", n.dense(x, name, d, d), n.Ints(0, 0, heads, d/heads))
		return n.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", perm))
	}
	q, k, v := split("query", 0, 2, 1, 3), split("key", 0, 2, 3, 1), split("value", 0, 2, 1, 3)
	score := n.Op("", "Softmax", []*ir.Value{n.do("Div", n.do("MatMul", q, k), n.number(float32(math.Sqrt(d/heads))))}, ir.A("axis", -1))
	y := n.Op("", "Transpose", []*ir.Value{n.do("MatMul", score, v)}, ir.A("perm", []int64{0, 2, 1, 3}))
	y = n.dense(n.do("Reshape", y, n.Ints(0, 0, d)), "out", d, d)
	x = n.layerNorm(n.do("Add", x, y), "norm1", d)
	h := n.dense(x, "up", d, wide)
	gate := n.do("Add", n.do("Erf", n.do("Div", h, n.number(math.Sqrt2))), n.number(1))
	h = n.do("Mul", n.do("Mul", h, gate), n.number(0.5))
	x = n.layerNorm(n.do("Add", x, n.dense(h, "down", wide, d)), "norm2", d)
	first := n.Op("", "Gather", []*ir.Value{x, n.Const("first", tensor.Scalar(int64(0)))}, ir.A("axis", 1))
	pooled := n.do("Tanh", n.Op("", "Gemm", []*ir.Value{first, n.weight("pooler.weight", d, d), n.weight("pooler.bias", d)},
		ir.A("transB", 1)))
	return n.graph(t, n.dense(pooled, "classes", d, 3))
}

// residual is a network of convolutions as ResNet and MobileNet have them, with its weights.
func residual(t *testing.T) *ir.Graph {
	n := newNet("residual")
	conv := func(x *ir.Value, op, name string, shape []int, attrs ...ir.Attr) *ir.Value {
		return n.Op("", op, []*ir.Value{x, n.weight(name+".weight", shape...)}, attrs...)
	}
	pads := ir.A("pads", []int64{1, 1, 1, 1})
	x := n.Input("input", ir.Tensor(tensor.Float32, "B", 3, 16, 16))
	scaled := n.do("Mul", n.do("Sub", x, n.weight("mean", 3, 1, 1)), n.weight("scale", 3, 1, 1))
	x = n.do("Relu", n.batchNorm(conv(scaled, "Conv", "stem", []int{8, 3, 3, 3}), "stem.norm", 8))
	y := n.batchNorm(conv(x, "Conv", "a", []int{8, 1, 3, 3}, pads, ir.A("group", 8)), "a.norm", 8)
	y = n.do("Mul", y, n.Op("", "HardSigmoid", []*ir.Value{y}, ir.A("alpha", float32(1.0/6)), ir.A("beta", 0.5)))
	y = n.Op("", "Conv", []*ir.Value{y, n.weight("b.weight", 8, 4, 3, 3), n.weight("b.bias", 8)}, pads, ir.A("group", 2))
	x = n.do("Relu", n.do("Add", x, n.batchNorm(y, "b.norm", 8)))
	x = n.batchNorm(conv(x, "ConvTranspose", "up", []int{8, 3, 2, 2}, ir.A("strides", []int64{2, 2}), ir.A("group", 2)), "up.norm", 6)
	x = n.do("Flatten", n.do("GlobalAveragePool", n.do("Relu", x)))
	x = n.Op("", "Gemm", []*ir.Value{x, n.weight("classes.weight", 6, 5), n.weight("classes.bias", 5)})
	return n.graph(t, n.do("Mul", x, n.weight("temperature", 5)))
}

// along is linear layers, norms and a gate on (B, C, L), with its weights.
func along(t *testing.T) *ir.Graph {
	n := newNet("along")
	x := n.Input("input", ir.Tensor(tensor.Float32, "B", 6, "L"))
	y := n.Op("", "Conv", []*ir.Value{x, n.weight("a.weight", 8, 6, 1), n.weight("a.bias", 8)})
	y = n.do("Relu", n.batchNorm(y, "norm", 8))
	y = n.do("Add", n.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", []int64{0, 2, 1})), n.weight("shift", 8))
	z := n.dense(y, "gate", 8, 12)
	halves := n.Ops("", "Split", 2, []*ir.Value{z}, ir.A("axis", -1), ir.A("num_outputs", 2))
	z = n.do("Mul", halves[0], n.do("Sigmoid", halves[1]))
	return n.graph(t, n.do("Mul", n.dense(z, "out", 6, 4), n.positive("temperature", 4)))
}

// TestRaiseParameters raises networks as exporters write them, with their weights as parameters: as many operators on
// values that vary are left as with constants, and answers are the same.
func TestRaiseParameters(t *testing.T) {
	for _, build := range []func(*testing.T) *ir.Graph{transformer, residual, along} {
		source := build(t)
		t.Run(source.Name, func(t *testing.T) {
			promoted := source.Clone()
			if passtest.Promote(promoted) < 8 {
				t.Fatalf("%d parameters", len(promoted.Parameters))
			}
			graph := func(g *ir.Graph) *ir.Graph {
				m, err := open.Graph(g, g.Name, open.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if g, err = m.Graph(); err != nil {
					t.Fatal(err)
				}
				return g
			}
			fixed, settled := graph(source), graph(promoted)
			if d := passtest.Differences(passtest.Varying(settled), passtest.Varying(fixed)); d != "" {
				t.Errorf("operators on values that vary: %s", d)
			}
			if len(settled.Parameters) != len(promoted.Parameters) {
				t.Errorf("%d parameters of %d are left", len(settled.Parameters), len(promoted.Parameters))
			}
			passtest.Same(t, source, settled, 1e-6) // weights of ONNX's operators are rounded to float32
			dims := map[string]int64{"B": 2, "L": 9}
			want := passtest.Evaluate(t, source, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, dims)
			for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
				got := passtest.Evaluate(t, settled, runtime.Options{Backend: b}, dims)
				if far := passtest.Distance(got["y"], want["y"]); !(far <= 1e-5) {
					t.Errorf("on %s: %.2g of the largest value off", b.Name(), far)
				}
			}
			replaced(t, settled, build(t), graph, dims)
		})
	}
}

// replaced replaces the parameters of a compiled graph by other numbers. It must then answer as a graph that was compiled
// with these, as parameters bit by bit.
func replaced(t *testing.T, compiled, source *ir.Graph, graph func(*ir.Graph) *ir.Graph, dims map[string]int64) {
	t.Helper()
	content := map[string]tensor.Datum{}
	passtest.Promote(source)
	for _, p := range source.Parameters {
		for i, x := range tensor.Data[float32](p.Init) {
			tensor.Data[float32](p.Init)[i] = x * (1 + 0.1*float32(i%3))
		}
		content[p.Name] = p.Init
	}
	other := graph(source)
	in := map[string]tensor.Datum{}
	for _, v := range compiled.Inputs {
		var shape []int
		for _, d := range v.Shape() {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, int(n))
		}
		x := tensor.New(v.Elem(), shape...)
		for i := range x.Len() {
			if v.Elem() == tensor.Int64 {
				tensor.Data[int64](x)[i] = int64(i % 50)
			} else {
				tensor.Data[float32](x)[i] = float32(math.Sin(float64(i)))
			}
		}
		in[v.Name] = x
	}
	for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
		var answers []tensor.Datum
		for i, g := range []*ir.Graph{compiled, other} {
			m, err := runtime.New(g, runtime.Options{Backend: b})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if i == 0 {
				if err := m.Set().Replace(context.Background(), content); err != nil {
					t.Fatal(err)
				}
			}
			out, err := m.Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, out["y"])
		}
		if !tensor.Equal(answers[0].(*tensor.Tensor), answers[1].(*tensor.Tensor)) {
			t.Errorf("on %s: after Replace other answers than with these parameters from the start", b.Name())
		}
	}
}
