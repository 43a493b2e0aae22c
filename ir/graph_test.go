package ir

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func names(vs []*Value) string {
	var s []string
	for _, v := range vs {
		s = append(s, v.Name)
	}
	return strings.Join(s, " ")
}

func must(t *testing.T) *Graph {
	t.Helper()
	g, err := sample()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSample(t *testing.T) {
	g := must(t)
	if got := names(g.Constants()); got != "w" {
		t.Errorf("constants: %s", got)
	}
	cond := g.Nodes[2]
	then, els := cond.Attrs.Graph("then_branch"), cond.Attrs.Graph("else_branch")
	if got := names(then.Captures()); got != "Identity" {
		t.Errorf("the branch captures %s", got)
	}
	// An output that is an outer value is copied inside, so that the outer one keeps its name.
	if len(els.Nodes) != 1 || names(els.Captures()) != "x" || names(els.Outputs) == "x" {
		t.Errorf("else: %d nodes, captures %s, outputs %s", len(els.Nodes), names(els.Captures()), names(els.Outputs))
	}
	if got := names(g.Captures()); got != "" {
		t.Errorf("the whole graph captures %s", got)
	}
	uses := g.Uses()
	d := g.Nodes[0].Outputs[0]
	if len(uses[d]) != 2 || uses[d][1].Graph != then || uses[d][1].Node != then.Nodes[0] {
		t.Errorf("uses of %s: %v", d.Name, uses[d])
	}
	if u := uses[g.Outputs[0]]; len(u) != 1 || u[0].Node != nil || u[0].Graph != g {
		t.Errorf("uses of the output: %v", u)
	}
	n := 0
	if err := g.Walk(func(*Graph, *Node) error { n++; return nil }); err != nil || n != 5 {
		t.Errorf("Walk visits %d nodes, %v", n, err)
	}
	if g.Input("x") != g.Inputs[0] || g.Input("y") != nil {
		t.Error("Input by name")
	}
}

func TestRemoveDead(t *testing.T) {
	g := must(t)
	if n := g.RemoveDead(); n != 1 || len(g.Nodes) != 2 {
		t.Errorf("%d removed, %d left", n, len(g.Nodes))
	}
	if n := g.RemoveDead(); n != 0 {
		t.Errorf("%d removed again", n)
	}
	if err := Verify(g); err != nil {
		t.Error(err)
	}
	// Without its readers in the branch the captured node goes, the branch's own dead node too.
	then := g.Nodes[1].Attrs.Graph("then_branch")
	then.Outputs[0] = g.Inputs[0]
	if n := g.RemoveDead(); n != 2 || len(then.Nodes) != 0 || len(g.Nodes) != 1 {
		t.Errorf("%d removed, %d and %d left", n, len(then.Nodes), len(g.Nodes))
	}
}

func TestReplaceUses(t *testing.T) {
	g := must(t)
	d, x := g.Nodes[0].Outputs[0], g.Inputs[0]
	g.ReplaceUses(d, x)
	if len(g.Uses()[d]) != 0 || len(g.Uses()[x]) != 4 {
		t.Errorf("uses of %s: %v, of x: %v", d.Name, g.Uses()[d], g.Uses()[x])
	}
	if err := Verify(g); err != nil {
		t.Error(err)
	}
}

func TestClone(t *testing.T) {
	g := must(t)
	g.Meta["k"], g.History = "v", []Event{{Pass: "p"}}
	c := g.Clone()
	if err := Verify(c); err != nil {
		t.Fatal(err)
	}
	mine := map[any]bool{}
	gather := func(g *Graph, see func(any)) {
		g.eachGraph(func(g *Graph) {
			see(g)
			for _, v := range append(slices.Clone(g.Inputs), g.Outputs...) {
				see(v)
			}
			for _, n := range g.Nodes {
				see(n)
				for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
					see(v)
				}
			}
		})
	}
	gather(g, func(x any) { mine[x] = true })
	gather(c, func(x any) {
		if mine[x] {
			t.Errorf("the clone shares %v", x)
		}
	})
	if a, b := g.Constants(), c.Constants(); len(a) != len(b) || a[0].Const != b[0].Const {
		t.Error("the clone does not share the tensors of constants")
	}
	c.Meta["k"], c.History[0].Pass, c.Opsets[""] = "w", "q", 1
	if g.Meta["k"] != "v" || g.History[0].Pass != "p" || g.Opsets[""] != 24 {
		t.Error("changes to the clone reach the graph")
	}
	// A copied subgraph keeps its captures.
	then := g.Nodes[2].Attrs.Graph("then_branch")
	if got := then.Clone().Captures(); len(got) != 1 || got[0] != g.Nodes[0].Outputs[0] {
		t.Errorf("a cloned branch captures %v", got)
	}
}

// Any shuffle is brought into an order that Verify accepts; an order that is right stays.
func TestSort(t *testing.T) {
	for seed := range uint64(50) {
		g := must(t)
		before := slices.Clone(g.Nodes)
		if err := g.Sort(); err != nil || !slices.Equal(before, g.Nodes) {
			t.Fatalf("a sorted graph was sorted: %v", err)
		}
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(g.Nodes), func(i, j int) { g.Nodes[i], g.Nodes[j] = g.Nodes[j], g.Nodes[i] })
		if err := g.Sort(); err != nil {
			t.Fatal(err)
		}
		if err := Verify(g); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestSortCircle(t *testing.T) {
	g := must(t)
	g.Nodes[0].Inputs[0] = g.Nodes[1].Outputs[0]
	if err := g.Sort(); err == nil || !strings.Contains(err.Error(), "depends on itself") {
		t.Errorf("a circle was sorted: %v", err)
	}
	// Through a capture, too.
	g = must(t)
	g.Nodes[0].Inputs[0] = g.Nodes[2].Outputs[0]
	if err := g.Sort(); err == nil {
		t.Error("a circle through a branch was sorted")
	}
}

// A long chain must not exhaust the stack.
func TestSortDeep(t *testing.T) {
	g := &Graph{Name: "g", Inputs: []*Value{{Name: "x", Type: Tensor(tensor.Float32)}}}
	v, op := g.Inputs[0], testOps()["/Identity"]
	for range 100_000 {
		n := &Node{Op: op, Inputs: []*Value{v}}
		v = &Value{Name: "v", Type: v.Type, Def: n}
		n.Outputs = []*Value{v}
		g.Nodes = append(g.Nodes, n)
	}
	first := g.Nodes[0]
	slices.Reverse(g.Nodes)
	if err := g.Sort(); err != nil || g.Nodes[0] != first {
		t.Errorf("%v", err)
	}
}

func TestNodeString(t *testing.T) {
	g := must(t)
	n := g.Nodes[0]
	n.Name, n.Scope = "copy", "layers.0"
	if got := n.String(); got != `Identity "copy" (layers.0) -> Identity` {
		t.Errorf("%s", got)
	}
	n.Op = nil
	if got := n.String(); got != `without operator "copy"` {
		t.Errorf("%s", got)
	}
}

func TestAttrs(t *testing.T) {
	as := NewAttrs(A("b", 2), A("a", true), A("c", float32(0.5)), A("b", 3), A("l", []int{1, 2}), A("s", "x"),
		A("t", tensor.Scalar(1.0)))
	if as.Int("b", 0) != 3 || !as.Bool("a", false) || as.Float("c", 0) != 0.5 || len(as.Ints("l", nil)) != 2 ||
		as.Str("s", "") != "x" || as.Tensor("t") == nil {
		t.Errorf("%v", as)
	}
	if !slices.IsSortedFunc(as, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("not sorted: %v", as)
	}
	if as.Int("none", 7) != 7 || as.Str("b", "kind differs") != "kind differs" || as.Bool("none", true) != true ||
		as.Graph("b") != nil || as.Floats("b", nil) != nil || as.Strs("b", nil) != nil {
		t.Error("defaults")
	}
	w := as.With("b", 9).Without("a")
	if as.Int("b", 0) != 3 || !as.Has("a") || w.Int("b", 0) != 9 || w.Has("a") {
		t.Error("With and Without change what they copy")
	}
	for _, v := range []any{int64(1), 1.0, "", (*tensor.Tensor)(nil), (*Graph)(nil), Tensor(tensor.Int8), []int64{},
		[]float64{}, []string{}, []*tensor.Tensor{}, []*Graph{}, []Type{}} {
		if (Attr{Value: v}).Kind() == "" {
			t.Errorf("%T has no kind", v)
		}
	}
	for _, v := range []any{nil, 1, float32(1), []int{}} {
		if k := (Attr{Value: v}).Kind(); k != "" {
			t.Errorf("%T is of kind %s", v, k)
		}
	}
}

func TestTypes(t *testing.T) {
	f := Tensor(tensor.Float32, "B", "2*L", 3, int64(4), Unknown)
	seq, opt := &SequenceType{f}, &OptionalType{Tensor(tensor.Int64)}
	for typ, want := range map[Type]string{f: "float[B,2*L,3,4,?]", seq: "seq(float[B,2*L,3,4,?])",
		opt: "optional(int64)", &TensorType{Elem: tensor.Bool, NoRank: true}: "bool[]"} {
		if typ.String() != want {
			t.Errorf("%v, expected %s", typ, want)
		}
		if !Compatible(typ, typ) || !EqualTypes(typ, typ) {
			t.Errorf("%v differs from itself", typ)
		}
	}
	for _, c := range []struct {
		a, b Type
		want bool
	}{
		{Tensor(tensor.Float32, "B"), Tensor(tensor.Float32, 3), true},
		{Tensor(tensor.Float32, 2), Tensor(tensor.Float32, 3), false},
		{Tensor(tensor.Float32, 2), Tensor(tensor.Float32), false},
		{Tensor(tensor.Float32, 2), Tensor(tensor.Float64, 2), false},
		{Tensor(tensor.Float32, 2), &TensorType{Elem: tensor.Float32, NoRank: true}, true},
		{seq, f, false}, {opt, seq, false}, {&OptionalType{f}, &OptionalType{f}, true}, {f, nil, false},
		{nil, nil, true}, {nil, f, false},
	} {
		if got := Compatible(c.a, c.b); got != c.want {
			t.Errorf("Compatible(%v, %v) = %v", c.a, c.b, got)
		}
		if got := Compatible(c.b, c.a); got != c.want {
			t.Errorf("Compatible(%v, %v) = %v", c.b, c.a, got)
		}
	}
	if s := f.Shape.Size().String(); s != "?" {
		t.Errorf("size %s", s)
	}
	if s := Tensor(tensor.Float32, "B", 3, "L").Shape; s.Size().String() != "3*B*L" || s.Equal(s[:2]) || !s.Equal(s) {
		t.Errorf("size %v", s.Size())
	}
	if _, ok := f.Shape.Known(); ok {
		t.Error("a symbolic shape is known")
	}
}
