package std

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// NonMaxSuppression selects boxes.
var NonMaxSuppression = ops.Same(ops.Register(&ir.Op{
	Name: "NonMaxSuppression", Since: 11,
	Doc: "Per sample and class, the boxes of the highest scores (above score_threshold), none of which overlaps a " +
		"better one by more than iou_threshold of their union, as rows of sample, class, box.",
	In: ops.Sig("boxes:float[B,N,4]", "scores:float[B,C,N]", "max_output_boxes_per_class:int64?",
		"iou_threshold:float?", "score_threshold:float?"),
	Out: ops.Sig("selected_indices:int64[_,3]"),
	Attrs: []ir.AttrSpec{intAttr("center_point_box", 0,
		"whether boxes are x, y of the center, width, height; else y, x of two opposite corners")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		boxes, err := need(in, 0, "boxes")
		if err != nil {
			return nil, err
		}
		scores, err := need(in, 1, "scores")
		if err != nil {
			return nil, err
		}
		if boxes.Rank() != 3 || scores.Rank() != 3 || boxes.Dim(2) != 4 || boxes.Dim(0) != scores.Dim(0) ||
			boxes.Dim(1) != scores.Dim(2) {
			return nil, fmt.Errorf("boxes %s and scores %s do not match", boxes, scores)
		}
		most := int64(0)
		if ops.Tensor(in, 2) != nil {
			if most, err = scalarInt(c, in, 2, "max_output_boxes_per_class"); err != nil {
				return nil, err
			}
		}
		overlap, err := scalarReal(c, in, 3, "iou_threshold", 0)
		if err != nil {
			return nil, err
		}
		least, err := scalarReal(c, in, 4, "score_threshold", 0)
		if err != nil {
			return nil, err
		}
		n, classes := boxes.Dim(1), scores.Dim(1)
		rects, points := cornersOf(c, ops.F64(c, in, 0), getInt(c.Node, "center_point_box") != 0), ops.F64(c, in, 1)
		var out []int64
		for b := range boxes.Dim(0) {
			c.Step(1)
			for k := range classes {
				c.Step(1)
				s := points[(b*classes+k)*n:][:n]
				mark := c.Charged()
				var order []int
				for i, v := range s {
					if c.Step(1); ops.Tensor(in, 4) == nil || v > least {
						order = ops.Append(c, order, i)
					}
				}
				byScore(c, order, s)
				var chosen []int
				for _, i := range order {
					if int64(len(chosen)) >= most {
						break
					}
					if !slices.ContainsFunc(chosen, func(j int) bool {
						c.Step(4)
						return overlapOf(rects[b*n+i], rects[b*n+j]) > overlap
					}) {
						chosen = ops.Append(c, chosen, i)
					}
				}
				c.Discharge(mark)
				for _, i := range ops.All(c, chosen) {
					out = ops.Append(c, out, int64(b), int64(k), int64(i))
				}
			}
		}
		return ops.One(tensor.FromSlice(out, len(out)/3, 3), nil)
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work { // each box is compared with those that are chosen
		boxes := ops.DimAt(n.In(1), 2, bind)
		most := boxes
		if k, ok := ops.ConstInts(n.In(2)); ok && len(k) == 1 {
			most = min(max(k[0], 0), boxes)
		}
		return ops.Stated(n, bind, ops.Product(ops.DimAt(n.In(1), 0, bind), ops.DimAt(n.In(1), 1, bind), boxes,
			32+most))
	},
	Tol: ir.Exact,
}), 10)

// mostPacked is the greatest number of elements that are sorted without a look at whether the evaluation has ended.
const mostPacked = 1 << 13

// byScore sorts indices of scores, which ascend: the largest score first, equal ones in order.
func byScore(c *ir.EvalCtx, order []int, s []float64) {
	packed := !c.Wide && len(order) <= mostPacked
	for _, i := range order {
		c.Step(1)
		packed = packed && s[i] == float64(float32(s[i])) && uint64(i) < 1<<32
	}
	if !packed {
		slices.SortStableFunc(order, func(i, j int) int { c.Step(4); return cmp.Compare(s[j], s[i]) })
		return
	}
	// A score and its index are one number.
	keys := ops.Make[uint64](c, len(order))
	for k, i := range ops.All(c, order) {
		b := math.Float32bits(float32(s[i]) + 0)
		b ^= uint32(int32(b)>>31) | 1<<31
		keys[k] = uint64(^b)<<32 | uint64(i)
	}
	c.Step(len(keys) * bits.Len(uint(len(keys))))
	slices.Sort(keys)
	for k, v := range ops.All(c, keys) {
		order[k] = int(uint32(v))
	}
}

// scalarReal reads an optional number.
func scalarReal(c *ir.EvalCtx, in []tensor.Datum, i int, what string, def float64) (float64, error) {
	t := ops.Tensor(in, i)
	if t == nil {
		return def, nil
	}
	v := ops.F64(c, in, i)
	if len(v) != 1 {
		return 0, fmt.Errorf("%s: expected one number, found %s", what, t)
	}
	return v[0], nil
}

// rect is a box by its smallest and largest coordinates.
type rect struct{ x0, x1, y0, y1 float64 }

func cornersOf(ec *ir.EvalCtx, v []float64, centred bool) []rect {
	out := ops.Make[rect](ec, len(v)/4)
	for i := range ops.Each(ec, len(out)) {
		a, b, c, d := v[4*i], v[4*i+1], v[4*i+2], v[4*i+3]
		if centred {
			out[i] = rect{a - c/2, a + c/2, b - d/2, b + d/2}
		} else {
			out[i] = rect{min(b, d), max(b, d), min(a, c), max(a, c)}
		}
	}
	return out
}

func (r rect) area() float64 { return (r.x1 - r.x0) * (r.y1 - r.y0) }

// overlapOf returns the intersection of two boxes over their union.
func overlapOf(a, b rect) float64 {
	w, h := min(a.x1, b.x1)-max(a.x0, b.x0), min(a.y1, b.y1)-max(a.y0, b.y0)
	if w <= 0 || h <= 0 || a.area() <= 0 || b.area() <= 0 {
		return 0
	}
	return w * h / (a.area() + b.area() - w*h)
}
