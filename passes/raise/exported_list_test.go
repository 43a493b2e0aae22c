package raise_test

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// TestExportedLies changes the list of operators in a file's metadata. The graph must then stay as it is, except for
// operators of the list that are still right, and a note must say why.
func TestExportedLies(t *testing.T) {
	g := lowered(t, 17, layerKinds["causal"])
	list := g.Meta[ir.MetaOperators]
	if strings.Count(list, "essm.SSM") != 2 {
		t.Fatalf("the list is\n%s", list)
	}
	edit := func(change func(l *ir.Graph)) string {
		l, err := irtext.Parse([]byte(list), "list", ops.Default, irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		change(l)
		return irtext.String(l)
	}
	first := func(l *ir.Graph) *ir.Node {
		for _, n := range l.Nodes {
			if n.Op.Name == "SSM" {
				return n
			}
		}
		t.Fatal("no system in the list")
		return nil
	}
	for name, c := range map[string]struct {
		list  string
		right int // operators that may be put back
		note  string
	}{
		"no text":   {"?", 0, "is ignored"},
		"cut off":   {list[:len(list)/2], 0, "is ignored"},
		"no domain": {strings.ReplaceAll(list, "essm.SSM", "essm.Unheard"), 0, "is ignored"},
		"no such input": {edit(func(l *ir.Graph) {
			first(l).Inputs[0].Name = "elsewhere"
		}), 1, "left as it is"},
		"no such output": {edit(func(l *ir.Graph) { first(l).Outputs[0].Name = "elsewhere" }), 1, "no such value"},
		"another eigenvalue": {edit(func(l *ir.Graph) {
			n := first(l)
			x := n.In(1).Const.Clone()
			tensor.Data[float64](x)[0] *= 1.001
			n.Inputs[1] = ir.NewConst(n.In(1).Name, x)
		}), 1, "it would be"},
		"another direction": {edit(func(l *ir.Graph) {
			n := first(l)
			n.Attrs = n.Attrs.With("direction", "backward")
		}), 0, "is ignored"},
		"a window": {edit(func(l *ir.Graph) {
			n := first(l)
			n.Attrs = n.Attrs.With("window", int64(1<<40))
		}), 0, "is ignored"},
	} {
		h := g.Clone()
		h.Meta[ir.MetaOperators] = c.list
		if err := passes.Run(h, []*passes.Pass{raise.Exported}, passtest.Verified(t)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		notes := strings.Join(passtest.Notes(h), "\n")
		if k := count(h, "essm.SSM"); k != c.right || !strings.Contains(notes, c.note) {
			t.Errorf("%s: %d systems, expected %d, and a note with %q; found\n%s", name, k, c.right, c.note, notes)
		}
		if h.Meta[ir.MetaOperators] != "" {
			t.Errorf("%s: the list is still there", name)
		}
		agree(t, g, h, 1e-6, map[string]int64{"B": 2, "L": 70})
	}
}

// TestExportedSize holds that the list takes weights from the file where the file has them.
func TestExportedSize(t *testing.T) {
	const states, features = 32, 48
	l := newLayer()
	u := l.Input("u", ir.Tensor(tensor.Float32, "B", "L", features))
	decays := make([]float64, states)
	for i := range decays {
		decays[i] = -0.1 - float64(i)/100
	}
	double := func(name string, x []float64) *ir.Value { return l.Const(name, tensor.FromSlice(x, 1, 1, states)) }
	for _, window := range []int{0, 9} {
		in := []*ir.Value{u, double("re", decays), double("im", decays), double("b", decays), double("bi", decays),
			l.floats("B", normal(states*features), 1, 1, states, features),
			l.floats("C", normal(features*states), 1, 1, features, states)}
		l.Output("", l.Op("essm", "SSM", in, ir.A("window", window)))
	}
	g := l.graph(t)
	out, _, err := lower.Lower(g, lower.Options{Opset: 17})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.Meta[ir.MetaOperators]); n > 100*states {
		t.Errorf("the list of two systems of %d states and %d features takes %d bytes", states, features, n)
	}
	r := raised(t, out)
	if count(r, "essm.SSM") != 2 || len(r.Nodes) != 2 {
		t.Errorf("nodes %v\n%s", r.Nodes, strings.Join(passtest.Notes(r), "\n"))
	}
	passtest.Same(t, g, r, 0, map[string]int64{"B": 2, "L": 70})
}

// TestExportedInARow has systems whose inputs are outputs of others, and outputs that are the file's.
func TestExportedInARow(t *testing.T) {
	l := newLayer()
	v := l.Input("u", ir.Tensor(tensor.Float32, "B", "L", 6))
	for range 3 {
		v = l.Op("essm", "FourierMix", []*ir.Value{v})
		v = l.Op("", "Attention", []*ir.Value{v, v, v}, ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2))
	}
	l.Output("y", v)
	g := l.graph(t)
	r := expandAndRaise(t, g, 17)
	if count(r, "essm.FourierMix") != 3 || count(r, "Attention") != 3 || len(r.Nodes) != 6 {
		t.Errorf("nodes %v", r.Nodes)
	}
	passtest.Same(t, g, r, 0, map[string]int64{"B": 2, "L": 7})
}
