package graphfuzz

import (
	"bytes"
	"slices"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/plan"
)

// parameterized returns a copy of g in which some constants are parameters, and some of these have an update: an output
// with a copy of another parameter of the type, or of their own.
func parameterized(s *Source, g *ir.Graph) *ir.Graph {
	g = g.Clone()
	var closed []*ir.Value // read in the body of a Block, which captures nothing
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if n.Op.FullName() == "essm.Block" {
			closed = append(closed, n.Attrs.Graph("body").Constants()...)
		}
		return nil
	})
	for _, v := range g.Constants() {
		if v.Elem().IsFloat() && !slices.Contains(closed, v) && s.IntN(3) > 0 {
			v.Const, v.Init = nil, v.Const
			g.Parameters = append(g.Parameters, v)
		}
	}
	if len(g.Parameters) == 0 {
		return g
	}
	b := ir.Edit(g, ops.Default, g.Opsets)
	for i, v := range g.Parameters {
		if s.IntN(3) > 0 {
			continue
		}
		from := v
		for _, w := range g.Parameters[i+1:] {
			if ir.EqualTypes(v.Type, w.Type) {
				from = w
			}
		}
		if out := b.Op("", "Identity", []*ir.Value{from}); out != nil {
			b.Output("", out)
			b.Update(v, out)
		}
	}
	return g
}

// TestStoredParameters: copies of a graph with parameters, in all stored forms, have its parameters, its updates and its
// answers, which are those of the graph with constants.
func TestStoredParameters(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 60
	}
	forms := []struct {
		name string
		of   func(g *ir.Graph) (*ir.Graph, error)
	}{
		{"clone", func(g *ir.Graph) (*ir.Graph, error) { return g.Clone(), nil }},
		{"text", func(g *ir.Graph) (*ir.Graph, error) {
			return irtext.Parse([]byte(irtext.String(g)), "text", ops.Default, irtext.Options{})
		}},
		{"plan", func(g *ir.Graph) (*ir.Graph, error) {
			var b bytes.Buffer
			if err := plan.Write(&b, g); err != nil {
				return nil, err
			}
			return plan.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), "plan", ops.Default, plan.Limits{})
		}},
		{"onnx", func(g *ir.Graph) (*ir.Graph, error) {
			var b bytes.Buffer
			if has(g, "ZipMap") || onnx.Write(&b, g, onnx.WriteOptions{}) != nil {
				return nil, nil // ONNX has no form
			}
			back, _, err := onnx.Parse(b.Bytes(), "model.onnx", onnx.Options{})
			if err != nil {
				return nil, err
			}
			for _, key := range []string{ir.MetaBatch, ir.MetaTime} { // the names of dimensions make none a batch here
				if delete(back.Meta, key); g.Meta[key] != "" {
					back.Meta[key] = g.Meta[key]
				}
			}
			return back, nil
		}},
	}
	parameters, updates, compared := 0, 0, map[string]int{}
	for seed := range uint64(seeds) {
		s := FromSeed(seed)
		cs, err := Generate(s)
		if err != nil || len(cs.Runs) == 0 || random(cs.Graph) {
			continue
		}
		g := parameterized(s, cs.Graph)
		if len(g.Parameters) == 0 {
			continue
		}
		if err := ir.Verify(g); err != nil {
			t.Fatalf("seed %d: the test's own graph: %v", seed, err)
		}
		parameters, updates = parameters+len(g.Parameters), updates+len(g.Updates)
		want, err := interpreted(cs.Graph, cs.Runs[0], false)
		if err != nil {
			continue
		}
		for _, form := range forms {
			back, err := form.of(g)
			if err != nil {
				t.Errorf("seed %d: %s: %v\n%s", seed, form.name, err, irtext.ViewString(g))
				continue
			}
			if back == nil {
				continue
			}
			compared[form.name]++
			if a, b := listed(g), listed(back); !slices.Equal(a, b) {
				t.Errorf("seed %d: %s: parameters and updates are %q, expected %q", seed, form.name, b, a)
			}
			got, err := interpreted(back, cs.Runs[0], false)
			if err != nil {
				t.Errorf("seed %d: %s: %v\n%s", seed, form.name, err, irtext.ViewString(back))
				continue
			}
			for name, d := range want {
				if bad := sameData(Data{name: d}, Data{name: got[name]}); bad != "" {
					t.Errorf("seed %d: %s: output %s: %s", seed, form.name, name, describe(d, got[name]))
				}
			}
		}
	}
	t.Logf("figure: %d parameters, %d updates, graphs by form: %v", parameters, updates, compared)
	if parameters < seeds/4 || updates < seeds/20 || compared["onnx"] < seeds/10 {
		t.Errorf("%d seeds give only %d parameters, %d updates, graphs by form: %v", seeds, parameters, updates, compared)
	}
}

func random(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if n.Op.Random {
			return errFound
		}
		return nil
	}) != nil
}

// listed lists the parameters and updates of a graph.
func listed(g *ir.Graph) (list []string) {
	for _, v := range g.Parameters {
		list = append(list, v.Name+" "+v.Type.String())
	}
	for _, u := range g.Updates {
		list = append(list, u.Parameter.Name+" = "+u.Output.Name)
	}
	return list
}
