package recordtest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	_ "github.com/essmc/essmc/ops/microsoft"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	_ "github.com/essmc/essmc/runtime/cuda/internal/plain"
	"github.com/essmc/essmc/runtime/cuda/internal/ptxas"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	_ "github.com/essmc/essmc/runtime/cuda/internal/rows"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
	"github.com/essmc/essmc/runtime/ref"
)

// backend implements steps that have records.
type backend struct{}

func (backend) Name() string { return "rows" }
func (backend) Implement(_ *lowering.Compiler, s *lowering.Step) lowering.Support {
	if record.For(s) != nil {
		return lowering.Implemented
	}
	return lowering.Evaluate
}

// spilling are kernels that keep a register in memory across the slow path of a division, and are rare.
var spilling = []string{"lstm_plain"}

// assembled are the codes that ran.
var assembled = map[string]*kernel.Code{}

// run computes a graph of one step by its record, on an emulated device. It returns nil if it has none, or if that
// does not support the shapes; built reports whether it has one.
func run(t *testing.T, g *ir.Graph, in []tensor.Datum) (out []tensor.Datum, built bool) {
	t.Helper()
	p, err := lowering.Lower(g, runtime.Config{Threads: 1}, backend{})
	if err != nil || len(p.Steps) != 1 || record.For(p.Steps[0]) == nil {
		return nil, false
	}
	b := runtime.Binding{}
	for _, v := range in {
		x, ok := v.(*tensor.Tensor)
		if !ok {
			b.Inputs = append(b.Inputs, nil) // it is absent
			continue
		}
		b.Inputs = append(b.Inputs, lowering.TypeOf(x.DType(), x.Shape()))
	}
	content := make([]*tensor.Tensor, len(in)) // as the backend binds sizes
	for i, v := range in {
		x, ok := v.(*tensor.Tensor)
		sizes := ok && (x.DType() == tensor.Int64 || x.DType() == tensor.Int32 || g.Nodes[0].Op.Name == "Resize")
		if i > 0 && sizes && x.Len() <= 64 && x.Rank() <= 1 && g.Nodes[0].Op.Name != "RoiAlign" {
			content[i] = x
		}
	}
	d := p.Bind(b, content)
	if d.Err() != nil {
		return nil, false
	}
	s := p.Steps[0]
	for _, v := range append(s.In[:len(s.In):len(s.In)], s.Out...) {
		if v != nil && d.Shape(v) == nil && !d.Missing(v) {
			return nil, false
		}
	}
	bench, builder := kerneltest.New(t), record.NewBuilder(d)
	placed := map[kernel.Buffer]kernel.Buffer{}
	var fault kernel.Buffer
	place := func(x kernel.Buffer) kernel.Buffer {
		if x == 0 || placed[x] != 0 {
			return placed[x]
		}
		at := func() kernel.Buffer {
			switch m := builder.Memory(x); {
			case m.Constant != nil:
				return bench.In(m.Constant.Make())
			case m.Scratch > 0:
				return bench.Out(m.Scratch)
			case m.Zeros > 0:
				return bench.In(make([]byte, m.Zeros))
			case m.Fault != "":
				fault = bench.In([]int32{0})
				return fault
			case m.Value.Const != nil:
				return bench.In(m.Value.Const.Bytes())
			default:
				for i, v := range p.Inputs {
					if v == m.Value {
						return bench.In(in[i].(*tensor.Tensor).Bytes())
					}
				}
				return bench.Out(builder.Bytes(m.Value))
			}
		}
		placed[x] = at()
		return placed[x]
	}
	builder.Begin(s.Node)
	if !record.For(s).Build(builder, s) {
		return nil, true
	}
	for _, w := range builder.Keep().Work {
		if w.Kind == device.Fill {
			bench.Set(place(kernel.Buffer(w.Dst)), make([]byte, w.Bytes)) // fills are only with 0
			continue
		}
		call := w.Launch.(*record.Call).Call
		call.Args = append([]kernel.Arg(nil), call.Args...)
		for i := range call.Args {
			call.Args[i].Buffer = place(call.Args[i].Buffer)
		}
		bench.Run(call)
		assembled[call.Code.Text] = call.Code
	}
	if fault != 0 && bench.Int32s(fault)[0] != 0 {
		t.Errorf("%s: a fault that is none", s.Node)
	}
	for _, v := range p.Outputs {
		x := tensor.New(d.DType(v), d.Shape(v)...)
		if at := builder.Uses(v); at != 0 {
			copy(x.Bytes(), bench.Bytes(place(at)))
		}
		out = append(out, x)
	}
	return out, true
}

// least is the number of random cases that each operator computes at least.
var least = map[string]int{
	"LayerNormalization": 3, "RMSNormalization": 3, "essm.ScalarNorm": 2, "essm.InstanceNorm": 2, "Softmax": 3,
	"LogSoftmax": 3, "ReduceSum": 3, "ReduceMean": 3, "ReduceSumSquare": 3, "ReduceL1": 3, "ReduceL2": 3, "ReduceLogSum": 3,
	"ReduceLogSumExp": 3, "ReduceMax": 3, "ReduceMin": 3, "ReduceProd": 3, "GlobalAveragePool": 1, "GlobalMaxPool": 1,
	"GlobalLpPool": 1, "MaxPool": 2, "AveragePool": 2, "LpPool": 1, "essm.Pick": 2, "essm.PickStep": 2, "essm.Pair": 1,
	"DFT": 3, "essm.FourierMix": 2, "ArgMax": 2, "ArgMin": 2, "Hardmax": 2, "essm.StepMask": 3,
	"essm.SubsetProducts": 2, "Resize": 1,
	"QuantizeLinear": 3, "DequantizeLinear": 3, "CumProd": 1, "LpNormalization": 2, "LRN": 1, "TopK": 2, "Det": 1,
	"GridSample": 2, "RoiAlign": 1, "CausalConvWithState": 1, "LinearAttention": 1, "Col2Im": 1, "BatchNormalization": 1, "Div": 1, "Mod": 1, "Pow": 1, "EyeLike": 1, "ReverseSequence": 1,
	"DeformConv": 1, "STFT": 1, "TensorScatter": 1, "AffineGrid": 1, "RNN": 1, "GRU": 1, "LSTM": 1,
}

// dataOf lists the data of a node's inputs, which are inputs of its graph, constants or absent.
func dataOf(n *ir.Node, in map[string]tensor.Datum) []tensor.Datum {
	list := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			list[i] = in[v.Name]
		}
	}
	return list
}

// Random applications of operators, and the samples of others, have the answers of the interpreter.
func TestRecords(t *testing.T) {
	computed, refused := map[string]int{}, map[string]int{}
	check := func(name string, g *ir.Graph, in map[string]tensor.Datum) {
		op := g.Nodes[0].Op
		truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
		if err != nil {
			t.Fatal(err)
		}
		want, err := truth.NewSession().Run(context.Background(), in)
		if err != nil {
			return
		}
		list := make([]tensor.Datum, len(g.Inputs))
		for i, v := range g.Inputs {
			list[i] = in[v.Name]
		}
		got, built := run(t, g, list)
		if got == nil {
			if built {
				refused[op.FullName()]++
			}
			return
		}
		computed[op.FullName()]++
		for i, v := range g.Outputs {
			n := g.Nodes[0]
			if d := backendtest.DiffNode(n, dataOf(n, in), slices.Index(n.Outputs, v), got[i], want[v.Name]); d != "" {
				t.Errorf("%s: %s: %s", name, g.Nodes[0], d)
			}
		}
	}
	backendtest.Seeded(t, 12, func(c backendtest.Case) bool {
		if c.Suite != "ops" || len(c.Graph.Nodes) != 1 || least[c.Graph.Nodes[0].Op.FullName()] == 0 ||
			!ops.Newest(c.Graph.Nodes[0].Op) {
			return false
		}
		for _, in := range c.In {
			check(c.Name, c.Graph, in)
		}
		return true
	})
	for _, op := range ops.Default.All() {
		if least[op.FullName()] == 0 || !ops.Newest(op) {
			continue
		}
		for i, s := range samples.Of(op) {
			g, in := graph(t, op, s)
			check(fmt.Sprintf("sample %d", i), g, in)
		}
	}
	for op, n := range least {
		if computed[op] < n {
			t.Errorf("%s: %d cases are computed, and %d refused", op, computed[op], refused[op])
		}
	}
	t.Log("computed", computed, "refused", refused)
	if os.Getenv(ptxas.Variable) == "" {
		return
	}
	var texts []string
	for text := range assembled {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	a, err := ptxas.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		name := assembled[text].Name
		for _, arch := range ptxas.Archs {
			reports, err := a.Assemble(text, arch)
			if err != nil {
				t.Fatalf("kernel %s: %v", name, err)
			}
			for _, r := range reports {
				if r.Spills() && !slices.Contains(spilling, name) {
					t.Errorf("%v: it spills registers", r)
				}
			}
		}
	}
}

// graph is a graph of one node.
func graph(t *testing.T, op *ir.Op, s opstest.Sample) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	opsets := ops.Opsets()
	opsets[op.Domain] = max(opsets[op.Domain], op.Since)
	b, in := ir.NewBuilder("sample", ops.Default, opsets), map[string]tensor.Datum{}
	var vals []*ir.Value
	for i, d := range s.In {
		x, ok := d.(*tensor.Tensor)
		name := fmt.Sprintf("in%d", i)
		switch {
		case d == nil:
			vals = append(vals, nil)
		case ok && slices.Contains(s.Consts, i):
			vals = append(vals, b.Const(name, x))
		default:
			vals = append(vals, b.Input(name, opstest.TypeOf(d, func(_, size int) ir.Dim { return ir.Const(int64(size)) })))
			in[name] = d
		}
	}
	for i, v := range b.Apply(op, s.Outs, vals, ir.NewAttrs(s.Attrs...)) {
		if v != nil && !slices.Contains(s.Absent, i) {
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, in
}
