package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// TestSelectiveScan checks selective scans of one feature and of several for a head, with groups, with one rate and one for
// each state, at sizes around those of vectors, tiles and work items, with states of both types.
func TestSelectiveScan(t *testing.T) {
	r := newGen(11)
	for i, c := range []struct{ batch, length, heads, per, groups, n int }{
		{1, 1, 1, 1, 1, 1}, {2, 70, 16, 1, 1, 16}, {1, 7, 17, 1, 1, 5}, {2, 130, 150, 1, 1, 3}, {1, 65, 4, 8, 1, 16},
		{2, 9, 4, 5, 2, 8}, {1, 20, 6, 33, 3, 4}, {3, 5, 8, 1, 2, 130},
	} {
		for _, one := range []bool{false, true} {
			features, columns := c.heads*c.per, c.n
			if one {
				columns = 1
			}
			rates, steps := r.floats(1, c.heads, columns), r.floats(1, c.batch, c.length, c.heads)
			for _, x := range []*tensor.Tensor{rates, steps} {
				sign := float32(1)
				if x == rates {
					sign = -1
				}
				for i, v := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] = sign * max(v, -v)
				}
			}
			in := []operand{given(r.floats(1, c.batch, c.length, features)), given(steps), fixed(rates),
				given(r.floats(1, c.batch, c.length, c.groups*c.n)), given(r.floats(1, c.batch, c.length, c.groups*c.n)), {}, {}}
			outs := 1
			if i%2 == 0 {
				in[5] = fixed(r.floats(1, c.heads))
			}
			if one {
				in[6], outs = given(r.floats(1, c.batch, features*c.n)), 2
			}
			checkNode(t, "essm.SelectiveScan", outs, in, ir.A("groups", c.groups))
		}
	}
}

// TestGatedScan checks recurrences with given factors, at sizes around those of vectors and work items.
func TestGatedScan(t *testing.T) {
	r := newGen(12)
	for i, c := range [][3]int{{1, 1, 1}, {2, 70, 64}, {1, 7, 17}, {2, 2100, 65}, {3, 5, 130}} {
		f := r.floats(1, c[0], c[1], c[2])
		for i, v := range tensor.Data[float32](f) {
			tensor.Data[float32](f)[i] = v / (1 + max(v, -v))
		}
		in := []operand{given(f), given(r.floats(1, c[0], c[1], c[2])), {}}
		outs := 1
		if i%2 == 1 {
			in[2], outs = given(r.floats(1, c[0], c[2])), 2
		}
		checkNode(t, "essm.GatedScan", outs, in)
	}
}
