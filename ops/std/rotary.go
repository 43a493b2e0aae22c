package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// RotaryEmbedding rotates pairs of features by angles that depend on the position.
var RotaryEmbedding = ops.Register(&ir.Op{
	Name: "RotaryEmbedding", Since: 23,
	Doc: "X (B,H,L,E), or (B,L,H*E), with pairs of the first features of each head rotated: (x, y) → (x·cos-y·sin, " +
		"x·sin+y·cos); caches are (P,half) with position_ids (B,L), or (B,L,half) without.",
	In: ops.Sig("X:T", "cos_cache:T", "sin_cache:T", "position_ids:int64[_,_]?"), Out: ops.Sig("Y:T"),
	Attrs: []ir.AttrSpec{intAttr("interleaved", 0, "whether pairs are neighbors, instead of elements of both halves"),
		intAttr("num_heads", nil, "H, if X has three axes"),
		intAttr("rotary_embedding_dim", 0, "number of rotated features; 0: all")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		if _, err := headsOf(n, 0, "num_heads"); err != nil {
			return nil, err
		}
		return in, checkCaches(n, in)
	}),
	Eval: evalRotary, Body: rotaryBody,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		rank := len(n.In(0).Shape())
		// The axes of samples and steps in each input.
		axes := [][2]int{{0, rank - 2}, {0, 1}, {0, 1}, {0, 1}}
		if n.In(3) != nil {
			axes[1], axes[2] = [2]int{-2, -2}, [2]int{-2, -2}
		}
		var joined ir.Fact
		for i, f := range in {
			if f.Constant() {
				continue
			}
			heads := rank == 4 && i == 0 && f.Axis == 1
			switch {
			case f.Global || rank < 3:
				return spread(n, ops.Global(n, in))
			case heads:
			case f.Axis == axes[i][0]:
				f.Axis = 0
			case f.Axis == axes[i][1]:
				f.Axis = rank - 2
			default:
				return spread(n, ops.Global(n, in))
			}
			if joined = ops.Join(n, []ir.Fact{joined, f}, []int{0, 0}, 0); joined.Global {
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, joined)
	},
	Linear: linearRotary,
	Tol:    ir.Rounding,
})

// checkCaches checks the tables of cosines and sines against the rotated features and, without positions, against
// samples and steps, as far as sizes are known.
func checkCaches(n *ir.Node, x ir.Shape) error {
	turned := ir.Const(getInt(n, "rotary_embedding_dim"))
	if k, _ := turned.Known(); k == 0 && len(x) > 2 {
		turned = x[len(x)-1]
		if len(x) == 3 {
			turned = turned.FloorDiv(ir.Const(max(1, getInt(n, "num_heads"))))
		}
	}
	want := ir.Shape{ir.Unknown, turned.FloorDiv(ir.Const(2))}
	if n.In(3) == nil && len(x) > 2 {
		want = ir.Shape{x[0], x[len(x)-2], want[1]}
		if len(x) == 3 {
			want[1] = x[1]
		}
	}
	for i := 1; i < 3; i++ {
		t, ok := n.In(i).Type.(*ir.TensorType)
		if !ok || t.NoRank {
			continue
		}
		if !ir.Compatible(t, &ir.TensorType{Elem: t.Elem, Shape: want}) {
			return fmt.Errorf("%s: expected shape %v, found %v", n.Op.In[i].Name, want, t.Shape)
		}
		if other, ok := n.In(3 - i).Type.(*ir.TensorType); ok && !ir.Compatible(t, other) {
			return fmt.Errorf("%s: found %v, and %v for the other table", n.Op.In[i].Name, t.Shape, other.Shape)
		}
	}
	if ids := n.In(3); ids != nil && ids.Shape() != nil && len(x) > 2 {
		steps := x[len(x)-2]
		want := &ir.TensorType{Elem: ids.Elem(), Shape: ir.Shape{x[0], steps}}
		if t, _ := ir.AsTensor(ids.Type); !ir.Compatible(t, want) {
			return fmt.Errorf("position_ids: expected shape %v, found %v", want.Shape, t.Shape)
		}
	}
	return nil
}

func evalRotary(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	n := c.Node
	x, err := readHeads(c, n, in, 0, "num_heads")
	if err != nil {
		return nil, err
	}
	turned := int(getInt(n, "rotary_embedding_dim"))
	if turned == 0 {
		turned = x.e
	}
	if turned < 0 || turned > x.e || turned%2 != 0 {
		return nil, fmt.Errorf("%d features of %d are to be rotated: expected an even number within them", turned, x.e)
	}
	half := turned / 2
	positions, err := ints(c, in, 3)
	if err != nil {
		return nil, err
	}
	var cache [2][]float64
	rows := 0
	for i := range cache {
		t, err := need(in, i+1, n.Op.In[i+1].Name)
		if err != nil {
			return nil, err
		}
		s := t.Shape()
		switch {
		case positions != nil && len(s) == 2 && s[1] == half && (i == 0 || s[0] == rows):
			rows = s[0]
		case positions == nil && ops.SameShape(s, []int{x.b, x.s, half}) == nil:
		default:
			return nil, fmt.Errorf("%s: found %s, with %d pairs and position_ids %v", n.Op.In[i+1].Name, t, half,
				positions != nil)
		}
		if cache[i], err = ops.Float64s(c, t); err != nil {
			return nil, err
		}
	}
	if positions != nil {
		if err := ops.SameShape(ops.Tensor(in, 3).Shape(), []int{x.b, x.s}); err != nil {
			return nil, fmt.Errorf("position_ids: %w", err)
		}
	}
	together := getInt(n, "interleaved") != 0
	for b := range x.b {
		c.Step(1)
		for s := range x.s {
			c.Step(1)
			at := b*x.s + s
			if positions != nil {
				p, err := ops.Axis(positions[at], rows)
				if err != nil {
					return nil, fmt.Errorf("position_ids: position %d of %d", positions[at], rows)
				}
				at = p
			}
			for h := range x.h {
				c.Step(1)
				row := x.row(b, h, s)
				for i := range ops.Each(c, half) {
					p, q := i, i+half
					if together {
						p, q = 2*i, 2*i+1
					}
					cos, sin := cache[0][at*half+i], cache[1][at*half+i]
					row[p], row[q] = cos*row[p]-sin*row[q], sin*row[p]+cos*row[q]
				}
			}
		}
	}
	t := ops.Tensor(in, 0)
	if t.Rank() == 4 {
		return ops.One(ops.Real(c, t.DType(), x.v, t.Shape()...))
	}
	return ops.One(ops.Real(c, t.DType(), x.joined(c), t.Shape()...))
}

func linearRotary(n *ir.Node) [][]int {
	if getInt(n, "rotary_embedding_dim") != 0 { // the other features stay, whatever the angles
		return [][]int{{0}}
	}
	return [][]int{{0}, {1, 2}}
}
