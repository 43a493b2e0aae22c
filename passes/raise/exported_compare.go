package raise

import (
	"fmt"
	"math"
	"reflect"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// comparison compares a graph with a part of another graph. They are equal if they apply the same operators with the
// same attributes to constants that differ by rounding only. Either graph may compute its constants in its own way.
type comparison struct {
	of           map[*ir.Value]*ir.Value // from a value of the first graph to its equal in the other
	mine, theirs *eval.Constants
}

// same compares v and w with everything that they are computed from. It returns the first difference, or "" if there is
// none.
func (c *comparison) same(v, w *ir.Value) string {
	if v == nil || w == nil {
		if v != w {
			return "one of them lacks an input that the other has"
		}
		return ""
	}
	if known, ok := c.of[v]; ok {
		if known != w {
			return fmt.Sprintf("%s takes the place of two different values", w.Name)
		}
		return ""
	}
	if t, err := c.mine.Tensor(v); err == nil {
		return c.constant(t, w, v.Elem())
	}
	if v.Def == nil || w.Def == nil {
		return fmt.Sprintf("%s is not computed as expected", w.Name)
	}
	if v.Elem() != w.Elem() {
		return fmt.Sprintf("%s is of type %v, expected %v", w.Name, w.Type, v.Type)
	}
	c.of[v] = w
	return c.node(v.Def, w.Def, v, w)
}

func (c *comparison) node(n, m *ir.Node, v, w *ir.Value) string {
	if n.Op.FullName() != m.Op.FullName() || len(n.Inputs) != len(m.Inputs) || len(n.Attrs) != len(m.Attrs) {
		return fmt.Sprintf("%v: expected %s", m, n.Op.FullName())
	}
	for i, o := range n.Outputs {
		if o == v && m.Out(i) != w {
			return fmt.Sprintf("%v: expected another of its outputs", m)
		}
	}
	for i := range n.Inputs {
		if why := c.same(n.Inputs[i], m.Inputs[i]); why != "" {
			return why
		}
	}
	for i, a := range n.Attrs {
		b := m.Attrs[i]
		if a.Name != b.Name {
			return fmt.Sprintf("%v: unexpected attribute %s", m, b.Name)
		}
		switch x := a.Value.(type) {
		case *ir.Graph:
			y, ok := b.Value.(*ir.Graph)
			if !ok || len(x.Inputs) != len(y.Inputs) || len(x.Outputs) != len(y.Outputs) {
				return fmt.Sprintf("%v: its body has other inputs or outputs than expected", m)
			}
			for j := range x.Inputs {
				c.of[x.Inputs[j]] = y.Inputs[j]
			}
			for j := range x.Outputs {
				if why := c.same(x.Outputs[j], y.Outputs[j]); why != "" {
					return why
				}
			}
		case *tensor.Tensor:
			y, ok := b.Value.(*tensor.Tensor)
			if !ok || !tensor.Equal(x, y) {
				return fmt.Sprintf("%v: attribute %s differs", m, a.Name)
			}
		default:
			if !reflect.DeepEqual(a.Value, b.Value) {
				return fmt.Sprintf("%v: attribute %s is %v, expected %v", m, a.Name, b.Value, a.Value)
			}
		}
	}
	return ""
}

// constant compares numbers: integers exactly, others to the rounding of their type, relative to the largest number
// with the same first index (which is a group of the system).
func (c *comparison) constant(t *tensor.Tensor, w *ir.Value, elem tensor.DType) string {
	u, err := c.theirs.Tensor(w)
	if err != nil {
		return fmt.Sprintf("%s varies: %v", w.Name, err)
	}
	x, err1 := t.Float64s()
	y, err2 := u.Float64s()
	if err1 != nil || err2 != nil || len(x) != len(y) || t.Rank() != u.Rank() {
		return fmt.Sprintf("%s is %s, expected %s", w.Name, u, t)
	}
	for i, d := range t.Shape() {
		if u.Dim(i) != d {
			return fmt.Sprintf("%s is %s, expected %s", w.Name, u, t)
		}
	}
	tol := 0.0
	if elem.IsFloat() {
		tol = 4e-6
		if elem == tensor.Float64 {
			tol = 1e-9
		}
		if elem == tensor.Float16 || elem == tensor.BFloat16 {
			tol = 2e-2
		}
	}
	row := len(x)
	if t.Rank() > 1 && t.Dim(0) > 0 {
		row = len(x) / t.Dim(0)
	}
	for lo := 0; lo < len(x); lo += row {
		scale := 0.0
		for _, v := range x[lo : lo+row] {
			if !math.IsInf(v, 0) {
				scale = max(scale, math.Abs(v))
			}
		}
		for i := lo; i < lo+row; i++ {
			if d := math.Abs(x[i] - y[i]); x[i] != y[i] && !(d <= tol*scale) {
				return fmt.Sprintf("%s[%d] is %.8g, for this operator it would be %.8g", w.Name, i,
					y[i], x[i])
			}
		}
	}
	return ""
}
