package stepgraph_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
)

// FuzzStep checks that any graph that verifies has a step graph that verifies, or is refused.
func FuzzStep(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "step", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join("..", "testdata", "*", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, more...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range txtar.Parse(data).Files {
			f.Add(s.Data)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := irtext.Parse(text, "text", ops.Default, irtext.Options{})
		if err != nil {
			t.Skip()
		}
		if g.Meta == nil {
			g.Meta = map[string]string{}
		}
		for key, symbol := range map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B"} {
			if g.Meta[key] == "" {
				g.Meta[key] = symbol
			}
		}
		sg, err := stepgraph.Of(g)
		if err != nil {
			if strings.Contains(err.Error(), "internal error") {
				t.Error(err)
			}
			return
		}
		if err := ir.Verify(sg.Graph); err != nil {
			t.Error(err)
		}
		if n := len(sg.Graph.Outputs) - len(sg.Outputs); n != len(sg.States) {
			t.Errorf("%d outputs beside the source's for %d states", n, len(sg.States))
		}
	})
}

// TestMutants changes attributes, types, constants and connections of graphs at random. A graph that still verifies
// must have a step graph, or be refused.
func TestMutants(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "step", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	made, mutants := 0, 60
	if os.Getenv("ESSMC_LONG") != "" {
		mutants = 3000
	}
	for i, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source, err := irtext.Parse(a.Files[0].Data, file, ops.Default, irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 5))
		for range mutants {
			g := source.Clone()
			for range 1 + r.IntN(3) {
				mutate(g, r)
			}
			infer(g)
			if ir.Verify(g) != nil {
				continue
			}
			text := irtext.String(g)
			sg, err := stepgraph.Of(g)
			var broken *ir.VerifyError
			switch {
			case err == nil:
				made++
				err = ir.Verify(sg.Graph)
			case errors.As(err, &broken):
			case !strings.Contains(err.Error(), "internal error"):
				err = nil
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	if made == 0 {
		t.Error("no mutant has steps")
	}
}

// infer infers the types of computed values again, where it can.
func infer(g *ir.Graph) {
	for _, n := range g.Nodes {
		if ir.InferNode(n) != nil {
			return
		}
	}
}

func mutate(g *ir.Graph, r *rand.Rand) {
	n := g.Nodes[r.IntN(len(g.Nodes))]
	number := func() int64 { return pick(r, int64(0), 1, -1, 2, 3, 5, 1<<40, r.Int64N(7)) }
	switch r.IntN(6) {
	case 0:
		if len(n.Attrs) > 0 {
			a := &n.Attrs[r.IntN(len(n.Attrs))]
			switch v := a.Value.(type) {
			case int64:
				a.Value = number()
			case []int64:
				v = slices.Clone(v)
				if len(v) > 0 {
					v[r.IntN(len(v))] = number()
				}
				a.Value = v
			case string:
				a.Value = pick(r, "forward", "reverse", "backward", "bidirectional", "SAME_UPPER", "VALID", "reflect")
			}
		}
	case 1:
		if len(n.Attrs) > 0 {
			n.Attrs = n.Attrs.Without(n.Attrs[r.IntN(len(n.Attrs))].Name)
		}
	case 2:
		v := g.Inputs[r.IntN(len(g.Inputs))]
		if tt, ok := v.Type.(*ir.TensorType); ok {
			c := &ir.TensorType{Elem: tt.Elem, Shape: slices.Clone(tt.Shape), NoRank: r.IntN(4) == 0}
			if c.NoRank {
				c.Shape = nil
			} else if len(c.Shape) > 0 {
				c.Shape[r.IntN(len(c.Shape))] = pick(r, ir.Unknown, ir.Sym("L"), ir.Sym("B"), ir.Sym("M"), ir.Const(1),
					ir.Const(0))
			}
			v.Type = c
		}
	case 3:
		if i := r.IntN(max(1, len(n.Inputs))); i < len(n.Inputs) && n.Inputs[i] != nil && n.Inputs[i].Const != nil &&
			n.Inputs[i].Elem() == tensor.Int64 {
			c := n.Inputs[i].Const.Clone()
			if c.Len() > 0 {
				tensor.Data[int64](c)[r.IntN(c.Len())] = number()
			}
			n.Inputs[i] = ir.NewConst(n.Inputs[i].Name+"_m", c)
		}
	case 4:
		if i := r.IntN(max(1, len(n.Inputs))); i < len(n.Inputs) {
			n.Inputs[i] = nil
		}
	case 5:
		o := g.Nodes[r.IntN(len(g.Nodes))]
		if len(n.Inputs) > 0 && len(o.Inputs) > 0 {
			n.Inputs[r.IntN(len(n.Inputs))] = o.Inputs[r.IntN(len(o.Inputs))]
		}
	}
}
