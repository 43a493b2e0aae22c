package eval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	_ "github.com/essmc/essmc/ops/std"
)

// local resolves the operators of this test, and the registered ones.
type local map[string]*ir.Op

func (l local) Resolve(domain, name string, version int) *ir.Op {
	if op := l[name]; op != nil {
		return op
	}
	return ops.Default.Resolve(domain, name, version)
}

var testOps = func() local {
	l := local{}
	sig := ops.Sig("x:T")
	same := func(n *ir.Node) ([]ir.Type, error) { return []ir.Type{n.Inputs[0].Type}, nil }
	// Twice is x + x, by its body; Nested is Twice, by its body; Deep is itself.
	l["Twice"] = &ir.Op{Name: "Twice", In: sig, Out: sig, Infer: same,
		Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
			return []*ir.Value{b.Op("", "Add", []*ir.Value{in[0], in[0]})}
		}}
	l["Nested"] = &ir.Op{Name: "Nested", In: sig, Out: sig, Infer: same,
		Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
			return b.Apply(l["Twice"], 1, in, nil)
		}}
	l["Deep"] = &ir.Op{Name: "Deep", In: sig, Out: sig, Infer: same,
		Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			return b.Apply(n.Op, 1, in, nil)
		}}
	l["Panic"] = &ir.Op{Name: "Panic", In: sig, Out: sig, Infer: same,
		Eval: func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error) { panic("boom") }}
	l["Fail"] = &ir.Op{Name: "Fail", In: sig, Out: sig, Infer: same,
		Eval: func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error) {
			return nil, errors.New("it fails")
		}}
	l["Short"] = &ir.Op{Name: "Short", In: sig, Out: sig, Infer: same,
		Eval: func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error) { return nil, nil }}
	return l
}()

func builder() *ir.Builder { return ir.NewBuilder("g", testOps, ops.Opsets()) }

func vector(v ...float32) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func show(d tensor.Datum) string {
	t, ok := d.(*tensor.Tensor)
	if !ok {
		return fmt.Sprint(d)
	}
	x, err := t.Float64s()
	return fmt.Sprintf("%s%v %v", t, x, err)
}

func TestNode(t *testing.T) {
	for _, c := range []struct {
		op   string
		wide bool
		want string
	}{
		{"Neg", false, "float32[2][-1 -2] <nil>"},
		{"Neg", true, "float64[2][-1 -2] <nil>"},
		{"Nested", false, "float32[2][2 4] <nil>"},
		{"Nested", true, "float64[2][2 4] <nil>"},
		{"Panic", false, "internal error: boom"},
		{"Fail", false, "it fails"},
		{"Short", false, "operator returned 0 results, but output 0 (Short) is needed"},
		{"Deep", false, "the bodies of operators are nested deeper than 32"},
	} {
		for _, constant := range []bool{false, true} { // a body sees the difference
			b := builder()
			var x *ir.Value
			if constant {
				x = b.Const("x", vector(1, 2))
			} else {
				x = b.Input("x", ir.Tensor(tensor.Float32, 2))
			}
			n := b.Op("", c.op, []*ir.Value{x}).Def
			in := []tensor.Datum{vector(1, 2)}
			if c.wide {
				in[0] = eval.Widen(in[0])
			}
			out, err := eval.Options{Wide: c.wide, Resolver: testOps}.Node(context.Background(), n, in, nil)
			got := ""
			if err == nil {
				got = show(out[0])
			} else {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, wide %v: got %s, want %s", c.op, c.wide, got, c.want)
			}
		}
	}
}

// branches is cond ? Nested(x+w) : x, with x+w computed outside and captured.
func branches(t *testing.T) *ir.Graph {
	t.Helper()
	b := builder()
	x, cond := b.Input("x", ir.Tensor(tensor.Float32, 2)), b.Input("cond", ir.Tensor(tensor.Bool))
	sum := b.Op("", "Add", []*ir.Value{x, b.Const("w", vector(10, 20))})
	b.Op("", "Neg", []*ir.Value{sum}) // nobody reads it
	branch := func(name string, make func(s *ir.Builder) *ir.Value) *ir.Graph {
		s := b.Sub(name)
		s.Output(name, make(s))
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	then := branch("then", func(s *ir.Builder) *ir.Value { return s.Op("", "Nested", []*ir.Value{sum}) })
	els := branch("else", func(s *ir.Builder) *ir.Value { return s.Op("", "Identity", []*ir.Value{x}) })
	b.Output("y", b.Op("", "If", []*ir.Value{cond}, ir.A("then_branch", then), ir.A("else_branch", els)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// follower writes down where an evaluation goes, and how much is in use there.
type follower struct {
	seen   []string
	budget *ir.Budget
	most   int64
	fail   string // operator before which it ends
}

func (f *follower) After(eval.Place, []tensor.Datum) error { return nil }
func (f *follower) Done(eval.Place) error {
	f.most = max(f.most, f.budget.Used())
	return nil
}

func (f *follower) Before(p eval.Place) error {
	f.seen = append(f.seen, fmt.Sprintf("%s %d %v %v", p.Node.Op.Name, p.Index, p.Inner, p.Body))
	if p.Node.Op.Name == f.fail {
		return errors.New("enough")
	}
	return nil
}

func TestGraph(t *testing.T) {
	g := branches(t)
	p := eval.New(eval.Options{Resolver: testOps})
	if err := p.Add(g); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, c := range []struct {
		cond bool
		want string
		seen []string
	}{
		{true, "float32[2][22 44] <nil>",
			[]string{"Add 0 false false", "Neg 1 false false", "If 2 false false", "Nested 0 true false",
				"Twice 0 false true", "Add 0 false true"}},
		{false, "float32[2][1 2] <nil>",
			[]string{"Add 0 false false", "Neg 1 false false", "If 2 false false", "Identity 0 true false"}},
	} {
		f := &follower{budget: ir.NewBudget(-1, -1)}
		out, err := p.Graph(ctx, g, []tensor.Datum{vector(1, 2), tensor.Scalar(c.cond)}, nil, f.budget, f)
		if err != nil || show(out[0]) != c.want {
			t.Errorf("%v: got %v %v, want %s", c.cond, out, err, c.want)
		}
		if !slices.Equal(f.seen, c.seen) {
			t.Errorf("%v: went %q, want %q", c.cond, f.seen, c.seen)
		}
		one := ops.SizeOf(vector(1, 2))
		if used := f.budget.Used(); used != 0 || f.most < 2*one || f.most > 6*one {
			t.Errorf("%v: %d bytes are left, %d were in use at once", c.cond, used, f.most)
		}
		few := ir.NewBudget(3*one, -1)
		var over *ir.BudgetError
		_, err = p.Graph(ctx, g, []tensor.Datum{vector(1, 2), tensor.Scalar(c.cond)}, nil, few, nil)
		if !errors.As(err, &over) || over.Limit != 3*one {
			t.Errorf("%v: with a budget for three values: %v", c.cond, err)
		}
		if used := few.Used(); used != 0 {
			t.Errorf("%v: %d bytes are left of a run that did not fit", c.cond, used)
		}
	}
	_, err := p.Graph(ctx, g, []tensor.Datum{vector(1, 2), tensor.Scalar(true)}, nil, nil, &follower{fail: "Twice"})
	if err == nil || !strings.Contains(err.Error(), "node Twice") || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got error %v, want one that names the node", err)
	}
	if _, err := p.Graph(ctx, g, nil, nil, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "takes 2 inputs, found 0") {
		t.Errorf("without inputs: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.Graph(done, g, []tensor.Datum{vector(1, 2), tensor.Scalar(true)}, nil, nil, nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}

// TestAlone evaluates a node with subgraphs whose captured values are given.
func TestAlone(t *testing.T) {
	g := branches(t)
	n := g.Nodes[2]
	p := eval.New(eval.Options{Resolver: testOps, Failed: func(n *ir.Node, err error, panicked any) error {
		return fmt.Errorf("%s: %v %v", n.Op.Name, err, panicked)
	}})
	if err := p.AddNode(n); err != nil {
		t.Fatal(err)
	}
	outer := &eval.Frame{Values: map[*ir.Value]tensor.Datum{g.Nodes[0].Outputs[0]: vector(3, 4)}}
	out, err := p.Node(context.Background(), n, []tensor.Datum{tensor.Scalar(true)}, outer, nil)
	if err != nil || show(out[0]) != "float32[2][6 8] <nil>" {
		t.Errorf("got %v %v", out, err)
	}
	if _, err := p.Node(context.Background(), n, []tensor.Datum{tensor.Scalar(false)}, outer, nil); err == nil ||
		!strings.Contains(err.Error(), "Identity: value x has not been computed") {
		t.Errorf("got error %v, want that x is absent", err)
	}
}

func TestUnsupported(t *testing.T) {
	b := builder()
	b.Output("y", b.Op("", "Deep", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 2))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var u *eval.UnsupportedError
	if err := eval.New(eval.Options{Resolver: testOps}).Add(g); !errors.As(err, &u) || u.Node.Op.Name != "Deep" {
		t.Errorf("got %v, want an UnsupportedError", err)
	}
}

func TestConstants(t *testing.T) {
	b := builder()
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 3))
	k := b.Const("k", vector(1, 2))
	shape := b.Op("", "Shape", []*ir.Value{x}, ir.A("end", 2))
	size := b.Op("", "Size", []*ir.Value{x})
	sum := b.Op("", "Add", []*ir.Value{k, b.Op("", "Nested", []*ir.Value{k})})
	ones := b.Op("", "ConstantOfShape", []*ir.Value{shape})
	for _, c := range []struct {
		v    *ir.Value
		with eval.Constants
		want string
	}{
		{k, eval.Constants{}, "float32[2][1 2] <nil>"},
		{k, eval.Constants{Wide: true}, "float64[2][1 2] <nil>"},
		{sum, eval.Constants{}, "float32[2][3 6] <nil>"},
		{sum, eval.Constants{Limit: 1}, "has 2 elements, more than are evaluated (1)"},
		{shape, eval.Constants{Bind: map[string]int64{"B": 4, "L": 5}}, "int64[2][4 5] <nil>"},
		{size, eval.Constants{Bind: map[string]int64{"B": 4, "L": 5}}, "int64[][60] <nil>"},
		{shape, eval.Constants{Bind: map[string]int64{"B": 4}}, "it depends on an input"},
		{ones, eval.Constants{Bind: map[string]int64{"B": 1, "L": 2}}, "float32[1,2][0 0] <nil>"},
		{ones, eval.Constants{Bind: map[string]int64{"B": 10, "L": 2}, Limit: 10}, "has 20 elements"},
		{x, eval.Constants{}, "it depends on an input"},
	} {
		for range 2 { // the second time from memory
			got := ""
			if d, err := c.with.Tensor(c.v); err == nil {
				got = show(d)
			} else {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s with %+v: got %s, want %s", c.v.Name, c.with, got, c.want)
			}
		}
	}
	c := eval.Constants{}
	c.Set(x, vector(7))
	if d, ok := c.Known(x); !ok || show(d) != "float32[1][7] <nil>" {
		t.Errorf("what was set is %s", d)
	}
}
