package cpu

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

// operand is an input of a node under test: data as an input of the graph, or as a constant; the zero value is absent.
type operand struct {
	data  *tensor.Tensor
	konst bool
}

func given(t *tensor.Tensor) operand { return operand{t, false} }
func fixed(t *tensor.Tensor) operand { return operand{t, true} }

func ints(v ...int64) operand { return fixed(tensor.FromSlice(v, len(v))) }

// nodeGraph returns a graph of one node, and its inputs. Inputs and outputs are named by letters.
func nodeGraph(t *testing.T, op string, outputs int, in []operand,
	attrs ...ir.Attr) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	opsets := ops.Opsets()
	opsets["ai.onnx.ml"], opsets["com.microsoft"] = 5, 1
	b := ir.NewBuilder("node", ops.Default, opsets)
	args, feed := make([]*ir.Value, len(in)), map[string]tensor.Datum{}
	dims := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	for i, o := range in {
		if o.data == nil {
			continue
		}
		name := "in" + dims[i]
		if o.konst {
			args[i] = b.Const(name, o.data)
			continue
		}
		shape := make([]any, o.data.Rank())
		for k := range shape {
			shape[k] = "d" + dims[i] + dims[k]
		}
		args[i] = b.Input(name, ir.Tensor(o.data.DType(), shape...))
		feed[name] = o.data
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

// checkNode compares the kernel of a node with the evaluation by package ops in float64, within the operator's
// tolerance. The graph does not state the shapes of inputs, so that they are known when they are bound. It fails if the
// node is evaluated rather than computed by a kernel, and if answers depend on the number of threads.
func checkNode(t *testing.T, op string, outputs int, in []operand, attrs ...ir.Attr) {
	t.Helper()
	checkForm(t, "", op, outputs, in, attrs...)
}

// checkForm is checkNode for one form of an operator.
func checkForm(t *testing.T, form, op string, outputs int, in []operand, attrs ...ir.Attr) {
	t.Helper()
	g, feed := nodeGraph(t, op, outputs, in, attrs...)
	checkParameters(t, fmt.Sprint(op, " ", in), g, feed, runtime.Options{Kernel: form})
	dims, outs := strings.Split("abcdefghijklmnopqrstuvwxyz", ""), g.Outputs
	data := make([]tensor.Datum, len(in))
	for i, o := range in {
		if o.data != nil {
			data[i] = o.data
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
		m, err := runtime.New(g, runtime.Options{Backend: New(), Kernel: form, Threads: threads, Profile: true})
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
			d := backendtest.Diff(got["out"+dims[i]], want[i], bound(n.Op))
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

// cases is the tolerance of operators with long sums here. The cases are small, so an eighth of Summing is enough.
var cases = ir.Tolerance{Ulps: 32}

// bound returns the operator's tolerance, or cases if that is smaller.
func bound(op *ir.Op) ir.Tolerance { return ir.Tolerance{Ulps: min(op.Tol.Ulps, cases.Ulps)} }

// checkRow is checkNode for an operator that must have a row kernel.
func checkRow(t *testing.T, op string, in []operand, attrs ...ir.Attr) {
	t.Helper()
	checkNode(t, op, 1, in, attrs...)
	g, feed := nodeGraph(t, op, 1, in, attrs...)
	m, err := runtime.New(g, runtime.Options{Backend: New(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	if _, err := s.Run(context.Background(), feed); err != nil {
		t.Fatal(err)
	}
	if p := s.Profile(); len(p) != 1 || p[0].Form != WayRow {
		t.Errorf("%s %v: ran as %v, expected a row kernel", op, in, p)
	}
}

// sameNode compares the kernel of a node with the interpreter, bit by bit. It fails if the node is evaluated rather
// than computed by a kernel, and if answers depend on the number of threads.
func sameNode(t *testing.T, op string, outputs int, in []operand, attrs ...ir.Attr) {
	t.Helper()
	same(t, op, true, outputs, in, attrs...)
}

// sameAnyhow is sameNode for nodes that may be evaluated.
func sameAnyhow(t *testing.T, op string, outputs int, in []operand, attrs ...ir.Attr) {
	t.Helper()
	same(t, op, false, outputs, in, attrs...)
}

// sameNumbers compares bit by bit, except that all NaNs are equal: the sign and payload of the NaN that a sum returns
// depend on the order of operands that the compiler chooses.
func sameNumbers(a, b *tensor.Tensor) bool {
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

func same(t *testing.T, op string, kernel bool, outputs int, in []operand, attrs ...ir.Attr) {
	t.Helper()
	g, feed := nodeGraph(t, op, outputs, in, attrs...)
	checkParameters(t, fmt.Sprint(op, " ", in), g, feed, runtime.Options{})
	want := run(t, g, runtime.Options{Backend: ref.New()}, feed)
	for _, threads := range []int{1, 3} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: threads, Profile: true})
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
			if a.DType() != b.DType() || !slices.Equal(a.Shape(), b.Shape()) || !sameNumbers(a, b) {
				t.Fatalf("%s %v: output %s is %s, expected %s", op, in, name, a, b)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
