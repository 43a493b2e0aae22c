package products

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { record.Register(record.Record{Op: "Einsum", Build: einsum}) }

// einsum computes a sum over one or two tensors.
func einsum(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	typ, ok := numberOf(d.DType(s.Out[0]))
	if !ok || len(s.In) > 2 {
		return false
	}
	var shapes [][]int
	var ranks []int
	for i := range s.In {
		if !d.Typed(s, i, d.DType(s.Out[0])) {
			return false
		}
		shapes = append(shapes, d.ShapeOf(s, i))
		ranks = append(ranks, len(shapes[i]))
	}
	in, out, err := std.EinsumTerms(s.Node.Attrs.Str("equation", ""), ranks)
	if err != nil {
		return false
	}
	result := d.Shape(s.Out[0])
	all, order := map[rune]*letter{}, []rune{}
	add := func(term []rune, shape []int, where func(l *letter) *int) bool {
		if len(term) != len(shape) {
			return false
		}
		for i, stride := range ops.Strides(shape) {
			l := all[term[i]]
			if l == nil {
				l = &letter{size: 1, sum: true}
				all[term[i]] = l
				order = append(order, term[i])
			}
			if shape[i] != 1 {
				if l.size != 1 && l.size != shape[i] {
					return false
				}
				l.size = shape[i]
				*where(l) += stride
			}
		}
		return true
	}
	if !add(out, result, func(l *letter) *int { return &l.c }) {
		return false
	}
	for _, l := range all {
		l.sum = false
	}
	for i, term := range in {
		if !add(term, shapes[i], func(l *letter) *int {
			if i == 0 {
				return &l.a
			}
			return &l.b
		}) {
			return false
		}
	}
	c := contraction{typ: typ, x: b.Buffer(s.In[0]), y: b.Buffer(s.Out[0])}
	if len(s.In) == 2 {
		c.w = b.Buffer(s.In[1])
	}
	empty := false
	for _, r := range order {
		c.letters = append(c.letters, *all[r])
		empty = empty || all[r].size == 0
	}
	if n, _ := tensor.Size(result); n == 0 {
		return true
	}
	if empty {
		b.Fill(c.y, 0, b.Bytes(s.Out[0]))
		return true
	}
	c.launch(b)
	return true
}
