package ops

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// MaxElems is the maximum number of elements of one tensor that an evaluation makes, so that sizes computed from
// data cannot demand absurd amounts of memory. On 32-bit machines it is the largest int.
const MaxElems = min(1<<31, math.MaxInt)

// MaxFolded is the maximum number of elements of a value that a backend computes before the run, because it follows
// from constants and parameters.
const MaxFolded = 1 << 25

// Elems returns the number of elements of a shape, or an error if a dimension is negative or the number above MaxElems.
func Elems(shape []int) (int, error) {
	n, err := tensor.Size(shape)
	if err == nil && n > MaxElems {
		err = fmt.Errorf("shape %v has %d elements, more than %d", shape, n, MaxElems)
	}
	return n, err
}

// Broadcast returns the shape to which all shapes broadcast under ONNX's multidirectional rule: aligned at their ends,
// dimensions are equal or 1.
func Broadcast(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &out[rank-len(s)+i]
			switch {
			case *o == 1:
				*o = d
			case d != 1 && d != *o:
				return nil, fmt.Errorf("shapes %v do not broadcast", shapes)
			}
		}
	}
	_, err := Elems(out)
	return out, err
}

// BroadcastShape is Broadcast for symbolic dimensions. Where one of two dimensions must be 1, it takes the other. Where
// that does not follow, the dimension is unknown.
func BroadcastShape(shapes ...ir.Shape) (ir.Shape, error) { return broadcastShape(nil, shapes) }

// broadcastShape is BroadcastShape for the inputs of n, whose steps it counts.
func broadcastShape(n *ir.Node, shapes []ir.Shape) (ir.Shape, error) {
	rank := 0
	for _, s := range shapes {
		n.Step(1)
		rank = max(rank, len(s))
	}
	out := make(ir.Shape, rank)
	for i := range out {
		out[i] = ir.Const(1)
	}
	var last ir.Shape
	for _, s := range shapes {
		if len(s) > 0 && len(s) == len(last) && &s[0] == &last[0] {
			continue // the same again
		}
		last = s
		n.Step(1 + len(s)/2)
		for i, d := range s {
			o := &out[rank-len(s)+i]
			m, known := o.Known()
			k, knownD := d.Known()
			switch {
			case known && knownD && m != k && m != 1 && k != 1:
				return nil, fmt.Errorf("shapes %v do not broadcast: %v and %v", shapes[:min(len(shapes), 8)], *o, d)
			case known && m == 1:
				*o = d
			case knownD && k == 1, known, o.Equal(d):
			case knownD:
				*o = d
			default:
				*o = ir.Unknown
			}
		}
	}
	return out, nil
}

// Strides returns the row-major strides of a shape, in elements.
func Strides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// BroadcastStrides returns the strides by which a tensor of the given shape is read as one of shape out: 0 along axes
// that repeat. The shape must broadcast to out.
func BroadcastStrides(shape, out []int) []int {
	s := make([]int, len(out))
	for i, st := range Strides(shape) {
		if shape[i] != 1 {
			s[len(out)-len(shape)+i] = st
		}
	}
	return s
}

// Walk calls visit for the elements of a shape in row-major order, with the offset that follows from the strides. It
// checks the context of the evaluation in between.
func Walk(c *ir.EvalCtx, shape, strides []int, offset int, visit func(offset int)) {
	for _, d := range shape {
		if d == 0 {
			return
		}
	}
	rank := len(shape)
	if rank == 0 {
		visit(offset)
		return
	}
	index := make([]int, rank)
	n, step := shape[rank-1], strides[rank-1]
	for {
		o := offset
		for range Each(c, n) {
			visit(o)
			o += step
		}
		i := rank - 2
		for ; i >= 0; i-- {
			index[i]++
			offset += strides[i]
			if index[i] < shape[i] {
				break
			}
			offset -= strides[i] * shape[i]
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// BroadcastTo returns the elements v of a shape, repeated to the shape out, or v itself if nothing repeats. The
// shape must broadcast to out, and out must have passed Elems.
func BroadcastTo[T any](c *ir.EvalCtx, v []T, shape, out []int) []T {
	n, _ := tensor.Size(out)
	if len(v) == n {
		return v
	}
	w := Make[T](c, n)[:0]
	Walk(c, out, BroadcastStrides(shape, out), 0, func(o int) { w = append(w, v[o]) })
	return w
}
