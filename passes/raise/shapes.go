package raise

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// maxShape is the maximum number of elements of the vectors that Shapes computes.
const maxShape = 64

// Shapes replaces shapes, pads, axes and ranges that are computed from constants and known dimensions by constants, so
// that types that depend on them are known.
var Shapes = &passes.Pass{
	Name: "raise-shapes",
	Doc: "Small integer vectors, and ends of ranges, computed from constants and known dimensions → constants. Types " +
		"are inferred again: a node whose types are known better then is a change too.",
	After: []passes.Reason{
		{Pass: "raise-exported", Why: "it recognizes graphs as package lower writes them"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		changes, types := 0, 0
		e := regions.Constants(c, nil)
		uses := g.Uses()
		for _, n := range slices.Clone(g.Nodes) {
			c.Check()
			for i, v := range n.Inputs {
				n.Step(1)
				ends := n.Op.FullName() == "Range" && v != nil && v.Elem() == tensor.Float32
				if v == nil || v.Const != nil || v.Def == nil || !v.Elem().IsInt() && !ends || len(v.Shape()) > 1 ||
					slices.ContainsFunc(uses[v], func(u ir.Use) bool { return u.Node == nil && u.Graph == g }) {
					continue
				}
				t, err := e.Tensor(v)
				if err != nil {
					t = knownDims(v)
				} else if ends {
					t = single(t)
				}
				if t == nil || t.Len() > maxShape || t.DType() != v.Elem() {
					continue
				}
				k := ir.NewConst(v.Name, t)
				v.Name += ".folded" // removed with its last reader
				n.Inputs[i] = k
				for _, u := range uses[v] {
					if u.Node != nil {
						u.Node.Inputs[u.Index] = k
					} else {
						u.Graph.Outputs[u.Index] = k
					}
				}
				changes++
			}
			if infer(n) {
				types++
			}
		}
		if changes > 0 {
			return changes + types, passes.Finish(g)
		}
		return types, nil
	},
}

// single converts a float64 constant to float32 if that is exact. It returns nil otherwise.
func single(t *tensor.Tensor) *tensor.Tensor {
	x, err := t.Float64s()
	if err != nil || len(x) != 1 || float64(float32(x[0])) != x[0] {
		return nil
	}
	return tensor.FromSlice([]float32{float32(x[0])}, t.Shape()...)
}

// knownDims computes an integer from the known dimensions of a shape that also has open ones. It returns nil if it
// depends on open ones.
func knownDims(v *ir.Value) *tensor.Tensor {
	d, ok := ops.DimsOf(v)
	if !ok || v.Elem() != tensor.Int64 {
		return nil
	}
	x := make([]int64, len(d))
	for i := range d {
		if x[i], ok = d[i].Known(); !ok {
			return nil
		}
	}
	if len(v.Shape()) == 0 && len(x) == 1 {
		return tensor.Scalar(x[0])
	}
	if n, ok := v.Shape().Size().Known(); !ok || len(v.Shape()) != 1 || n != int64(len(x)) {
		return nil
	}
	return tensor.FromSlice(x, len(x))
}

// infer infers the types of a node's outputs again, and keeps those that are more specific and contradict nothing. It
// reports whether a type has changed.
func infer(n *ir.Node) (changed bool) {
	types, err := ir.Infer(n)
	if err != nil {
		return false
	}
	for i, v := range n.Outputs {
		if n.Step(4); v == nil {
			continue
		}
		was, ok := v.Type.(*ir.TensorType)
		now, okNow := types[i].(*ir.TensorType)
		if !ok || !okNow || now.NoRank || !ir.Compatible(was, now) {
			continue
		}
		if was.NoRank {
			v.Type, changed = now, true
			continue
		}
		t := &ir.TensorType{Elem: was.Elem, Shape: slices.Clone(was.Shape)}
		for a, d := range now.Shape {
			_, known := d.Known()
			if t.Shape[a].IsUnknown() || known {
				t.Shape[a] = d
			}
		}
		if !ir.EqualTypes(was, t) {
			v.Type, changed = t, true
		}
	}
	return changed
}
