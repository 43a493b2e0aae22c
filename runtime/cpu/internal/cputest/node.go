package cputest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/ref"
)

// Operand is an input of a node under test: data as an input of the graph, or as a constant; the zero value is absent.
type Operand struct {
	Data  *tensor.Tensor
	Const bool
}

// Given returns an operand that is an input of the graph.
func Given(t *tensor.Tensor) Operand { return Operand{t, false} }

// Fixed returns an operand that is a constant.
func Fixed(t *tensor.Tensor) Operand { return Operand{t, true} }

// Ints returns a constant vector of int64.
func Ints(v ...int64) Operand { return Fixed(tensor.FromSlice(v, len(v))) }

// NodeGraph returns a graph of one node, and its inputs. Inputs and outputs are named by letters.
func NodeGraph(t *testing.T, op string, outputs int, in []Operand,
	attrs ...ir.Attr) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	opsets := ops.Opsets()
	opsets["ai.onnx.ml"], opsets["com.microsoft"] = 5, 1
	b := ir.NewBuilder("node", ops.Default, opsets)
	args, feed := make([]*ir.Value, len(in)), map[string]tensor.Datum{}
	dims := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	for i, o := range in {
		if o.Data == nil {
			continue
		}
		name := "in" + dims[i]
		if o.Const {
			args[i] = b.Const(name, o.Data)
			continue
		}
		shape := make([]any, o.Data.Rank())
		for k := range shape {
			shape[k] = "d" + dims[i] + dims[k]
		}
		args[i] = b.Input(name, ir.Tensor(o.Data.DType(), shape...))
		feed[name] = o.Data
	}
	domain, name := "", op
	if i := strings.LastIndexByte(op, '.'); i >= 0 {
		domain, name = op[:i], op[i+1:]
	}
	for i, v := range b.Ops(domain, name, outputs, args, attrs...) {
		b.Output("out"+dims[i], v)
	}
	g, err := b.Build()
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return g, feed
}

// Node compares the kernel of a node with the evaluation by package ops in float64, within the operator's
// tolerance. The graph does not state the shapes of inputs, so that they are known when they are bound. It fails if the
// node is evaluated rather than computed by a kernel, and if answers depend on the number of threads.
func (on On) Node(t *testing.T, op string, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	on.Form(t, "", op, outputs, in, attrs...)
}

// Form is Node for one form of an operator.
func (on On) Form(t *testing.T, form, op string, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	g, feed := NodeGraph(t, op, outputs, in, attrs...)
	on.Parameters(t, fmt.Sprint(op, " ", in), g, feed, runtime.Options{Kernel: form})
	dims, outs := strings.Split("abcdefghijklmnopqrstuvwxyz", ""), g.Outputs
	data := make([]tensor.Datum, len(in))
	for i, o := range in {
		if o.Data != nil {
			data[i] = o.Data
		}
	}
	n := g.Nodes[0]
	wide := make([]tensor.Datum, len(data))
	for i, d := range data {
		wide[i] = d
		if x, ok := d.(*tensor.Tensor); ok && x.DType() == tensor.Float32 {
			v, _ := x.Float64s()
			wide[i] = tensor.FromSlice(v, x.Shape()...)
		}
	}
	want, err := n.Op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background(), Wide: true}, wide)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	var first map[string]tensor.Datum
	for _, threads := range []int{1, 3} {
		m, err := runtime.New(g, runtime.Options{Backend: on(), Kernel: form, Threads: threads, Profile: true})
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		s := m.NewSession()
		got, err := s.Run(context.Background(), feed)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		for _, p := range s.Profile() {
			if p.Form == "eval" || form != "" && p.Form != form {
				t.Fatalf("%s %v: %s, expected a kernel, of the form %q if that is not empty", op, in, p.Form, form)
			}
		}
		for i, v := range outs {
			d := backendtest.Diff(got["out"+dims[i]], want[i], Bound(n.Op))
			if _, elementwise := ops.Element(n); elementwise {
				d = backendtest.DiffNode(n, data, i, got["out"+dims[i]], want[i])
			}
			if d != "" {
				t.Fatalf("%s %v: output %d: %s", op, in, i, d)
			}
			if first != nil && !slices.Equal(got["out"+dims[i]].(*tensor.Tensor).Bytes(),
				first["out"+dims[i]].(*tensor.Tensor).Bytes()) {
				t.Fatalf("%s: %s differs between 1 and %d threads", op, v.Name, threads)
			}
		}
		first = got
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Cases is the tolerance of operators with long sums here. The cases are small, so an eighth of Summing is enough.
var Cases = ir.Tolerance{Ulps: 32}

// Bound returns the operator's tolerance, or Cases if that is smaller.
func Bound(op *ir.Op) ir.Tolerance { return ir.Tolerance{Ulps: min(op.Tol.Ulps, Cases.Ulps)} }

// Row is Node for an operator that must have a row kernel.
func (on On) Row(t *testing.T, op string, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	on.Node(t, op, 1, in, attrs...)
	g, feed := NodeGraph(t, op, 1, in, attrs...)
	m, err := runtime.New(g, runtime.Options{Backend: on(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	if _, err := s.Run(context.Background(), feed); err != nil {
		t.Fatal(err)
	}
	if p := s.Profile(); len(p) != 1 || p[0].Form != "row" {
		t.Errorf("%s %v: ran as %v, expected a row kernel", op, in, p)
	}
}

// Same compares the kernel of a node with the interpreter, bit by bit. It fails if the node is evaluated rather
// than computed by a kernel, and if answers depend on the number of threads.
func (on On) Same(t *testing.T, op string, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	on.same(t, op, true, outputs, in, attrs...)
}

// SameAnyhow is Same for nodes that may be evaluated.
func (on On) SameAnyhow(t *testing.T, op string, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	on.same(t, op, false, outputs, in, attrs...)
}

// SameNumbers compares bit by bit, except that all NaNs are equal: the sign and payload of the NaN that a sum returns
// depend on the order of operands that the compiler chooses.
func SameNumbers(a, b *tensor.Tensor) bool {
	switch a.DType() {
	case tensor.String:
		return slices.Equal(a.Strings(), b.Strings())
	case tensor.Float64:
		return slices.EqualFunc(tensor.Data[float64](a), tensor.Data[float64](b), func(x, y float64) bool {
			return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
		})
	case tensor.Float32:
	default:
		return slices.Equal(a.Bytes(), b.Bytes())
	}
	return slices.EqualFunc(tensor.Data[float32](a), tensor.Data[float32](b), func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

func (on On) same(t *testing.T, op string, kernel bool, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	g, feed := NodeGraph(t, op, outputs, in, attrs...)
	on.Parameters(t, fmt.Sprint(op, " ", in), g, feed, runtime.Options{})
	want := Run(t, g, runtime.Options{Backend: ref.New()}, feed)
	for _, threads := range []int{1, 3} {
		m, err := runtime.New(g, runtime.Options{Backend: on(), Threads: threads, Profile: true})
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		s := m.NewSession()
		got, err := s.Run(context.Background(), feed)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		for _, p := range s.Profile() {
			if kernel && p.Form == "eval" {
				t.Fatalf("%s %v: evaluated, expected a kernel", op, in)
			}
		}
		for name, w := range want {
			a, b := got[name].(*tensor.Tensor), w.(*tensor.Tensor)
			if a.DType() != b.DType() || !slices.Equal(a.Shape(), b.Shape()) || !SameNumbers(a, b) {
				t.Fatalf("%s %v: output %s is %s, expected %s", op, in, name, a, b)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
