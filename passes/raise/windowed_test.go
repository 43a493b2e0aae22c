package raise_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// TestWindowedRaised raises layers with a window, whether their few taps determine the system or not.
func TestWindowedRaised(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(chunkedKinds)) {
		for _, window := range []int{1, 7, 40} {
			t.Run(fmt.Sprint(name, "/", window), func(t *testing.T) {
				g := lowered(t, 17, func(c *essm.Config) {
					chunkedKinds[name](c)
					c.Layer.MaxKernelLength = window
				})
				r := raised(t, g)
				if k := count(r, "essm.SSM"); k != 2 || count(r, "Conv", "Pad", "Cast", "essm.LongConv") > 0 {
					t.Fatalf("%d systems for 2 layers\n%s", k, strings.Join(passtest.Notes(r), "\n"))
				}
				for _, n := range r.Nodes {
					if n.Op.FullName() == "essm.SSM" && ((n.In(9) == nil) != (name == "no-d") ||
						n.Attrs.Int("window", 0) != int64(window)) {
						t.Errorf("%v: D or its window is not the layer's", n)
					}
				}
				if slices.ContainsFunc(g.Inputs, func(v *ir.Value) bool { return v.Name == models.StateIn }) {
					return // the parts depend on each other by the state; package lower tests such layers
				}
				agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 70}, map[string]int64{"B": 1, "L": 3})
			})
		}
	}
}

// TestWindowedLooksAlike changes one number that is not a parameter of the system. The layer must not be raised
// then.
func TestWindowedLooksAlike(t *testing.T) {
	for name, why := range map[string]string{
		"lags":    "it would be", // a step other than its own
		"quarter": "it would be", // no cosine
		"ends":    "it would be", // another state after the last step
	} {
		g := lowered(t, 17, func(c *essm.Config) { c.Layer.MaxKernelLength = 7 })
		i := slices.IndexFunc(g.Constants(), func(v *ir.Value) bool { return strings.HasPrefix(v.Name, name) })
		if i < 0 {
			t.Fatalf("no constant %s", name)
		}
		v := g.Constants()[i]
		x := v.Const.Clone()
		if x.DType() == tensor.Float64 {
			tensor.Data[float64](x)[x.Len()/2] += 0.01
		} else {
			tensor.Data[float32](x)[x.Len()/2] += 0.01
		}
		v.Const = x
		if err := passes.Run(g, []*passes.Pass{raise.Windowed}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(passtest.Notes(g), "\n"); count(g, "essm.SSM") != 1 || !strings.Contains(notes, why) {
			t.Errorf("%s: %d systems, expected the one that was not changed\n%s", name, count(g, "essm.SSM"), notes)
		}
	}
}

// TestWindowedExports tests the options of exports: versions of operators, and a state that is an output but no input.
func TestWindowedExports(t *testing.T) {
	for _, o := range []lower.Options{{Opset: 13}, {Opset: 18}, {Opset: 24}, {Opset: 17, OmitOptional: true},
		{Opset: 17, Functions: true}} {
		g := loweredTo(t, o, func(c *essm.Config) { c.Layer.MaxKernelLength = 7 })
		r := raised(t, g)
		if k := count(r, "essm.SSM"); k != 2 || count(r, "Conv") > 0 {
			t.Errorf("%+v: %d systems for 2 layers\n%s", o, k, strings.Join(passtest.Notes(r), "\n"))
		}
		if o.OmitOptional {
			agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 70}, map[string]int64{"B": 1, "L": 3})
		}
	}
}
