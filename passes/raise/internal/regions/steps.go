package regions

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
)

// SumsWindows reports whether a sum is over a product of a fixed kernel with the windows of a sequence: steps at a
// table of indices.
func (ix *Index) SumsWindows(n *ir.Node) bool {
	if !IsOp(n.In(0), "Mul") {
		return false
	}
	for i, v := range n.In(0).Def.Inputs {
		if !IsOp(v, "Gather") || !ix.IsFixed(n.In(0).Def.In(1-i)) || v.Def.In(1) == nil || !ix.IsFixed(v.Def.In(1)) {
			continue
		}
		if at := v.Def.In(1).Shape(); len(at) == 2 {
			l, ok := at[1].Known()
			return ok && l >= MinTaps
		}
	}
	return false
}

// matrixOfSteps returns the shape of input i of a product, and its axes of rows and columns, if it is a fixed square
// matrix, or a stack of them. For an Einsum, the rows' letter is also in the result but not in the other input, and
// the columns' letter is also in the other input but not in the result.
func (ix *Index) matrixOfSteps(n *ir.Node, i int) (shape ir.Shape, row, column int) {
	v := n.In(i)
	if v == nil || !ix.IsFixed(v) || len(v.Shape()) < 2 {
		return nil, 0, 0
	}
	shape = v.Shape()
	row, column = len(shape)-2, len(shape)-1
	if n.Op.FullName() == "Einsum" {
		if len(n.Inputs) != 2 {
			return nil, 0, 0
		}
		in, out, err := std.EinsumTerms(n.Attrs.Str("equation", ""), []int{len(n.In(0).Shape()), len(n.In(1).Shape())})
		if err != nil {
			return nil, 0, 0
		}
		row = slices.IndexFunc(in[i], func(r rune) bool {
			return slices.Contains(out, r) && !slices.Contains(in[1-i], r)
		})
		column = slices.IndexFunc(in[i], func(r rune) bool {
			return slices.Contains(in[1-i], r) && !slices.Contains(out, r)
		})
		if row < 0 || column < 0 {
			return nil, 0, 0
		}
	}
	if !shape[row].Equal(shape[column]) {
		return nil, 0, 0
	}
	return shape, row, column
}

// nearlyToeplitz reports whether an input of a product is a square matrix, or a stack of them, with constant diagonals
// except for a few elements (of the first matrix). A convolution along time has that form when it is written as a
// product.
func (ix *Index) nearlyToeplitz(n *ir.Node, input int) bool {
	shape, row, column := ix.matrixOfSteps(n, input)
	if shape == nil {
		return false
	}
	if l, ok := shape[row].Known(); !ok || l < MinTaps {
		return false
	}
	// Most matrices are stored weights, possibly transposed, which keeps diagonals.
	w := n.In(input)
	if w.Def != nil && w.Def.Op.FullName() == "Transpose" {
		w = w.Def.In(0)
	}
	if w != nil && w.Const != nil && w.Const.Rank() == 2 && w.Const.DType() == tensor.Float32 {
		l := w.Const.Dim(0)
		return constantDiagonals(tensor.Data[float32](w.Const), l, l, 1)
	}
	if variedBytes(w) {
		return false
	}
	x, sizes, err := ConstantFloats(ix.Run, n.In(input))
	if err != nil {
		ix.Unread[n] = fmt.Sprintf("its matrix %s cannot be evaluated: %v", n.In(input).Name, err)
		return false
	}
	return constantDiagonals(x, sizes[row], ops.Strides(sizes)[row], ops.Strides(sizes)[column])
}

// variedBytes reports whether v is dequantized from a constant square matrix of bytes whose diagonals already differ
// too often in its first rows for constantDiagonals. Most such matrices are weights, which then need not be read and
// computed completely.
func variedBytes(v *ir.Value) bool {
	if v == nil || v.Def == nil || v.Def.Op.FullName() != "DequantizeLinear" {
		return false
	}
	n := v.Def
	q, scale := n.In(0), n.In(1)
	if q.Const == nil || q.Const.Rank() != 2 || q.Const.Dim(0) != q.Const.Dim(1) || scale == nil ||
		scale.Const == nil || scale.Const.Rank() > 1 || q.Elem() != tensor.Int8 && q.Elem() != tensor.Uint8 {
		return false
	}
	const rows = 8
	l, zeros := q.Const.Dim(0), []float64{0}
	axis := n.Attrs.Int("axis", 1)
	factors, err := scale.Const.Float64s()
	if z := n.In(2); err == nil && z != nil {
		if z.Const == nil || z.Const.Rank() > 1 {
			return false
		}
		zeros, err = z.Const.Float64s()
	}
	if err != nil || l < rows || axis < 0 || axis > 1 || len(factors) != 1 && len(factors) != l ||
		len(zeros) != 1 && len(zeros) != l || n.Attrs.Int("block_size", 0) != 0 {
		return false
	}
	b := make([]byte, rows*l)
	if q.Const.PeekPart(b, 0) != nil {
		return false
	}
	at := func(i, j int) float64 {
		k, c := float64(b[i*l+j]), j
		if q.Elem() == tensor.Int8 {
			k = float64(int8(b[i*l+j]))
		}
		if axis == 0 {
			c = i
		}
		return (k - zeros[c%len(zeros)]) * factors[c%len(factors)]
	}
	most := 0.0
	for _, f := range factors {
		most = max(most, math.Abs(f))
	}
	most *= 1e-6 * (math.MaxUint8 + 1) // at least the differences that constantDiagonals tolerates
	odd := 0
	for i := 1; i < rows; i++ {
		for j := 1; j < l; j++ {
			if math.Abs(at(i, j)-at(i-1, j-1)) > most {
				odd++
			}
		}
	}
	return odd > l
}

// constantDiagonals reports whether a square matrix of size l, with strides rs of rows and cs of columns, has
// constant diagonals except for about l elements, and more than the main one.
func constantDiagonals[T float32 | float64](x []T, l, rs, cs int) bool {
	at := func(i, j int) float64 { return float64(x[i*rs+j*cs]) }
	peak := 0.0
	for i := range l {
		for j := range l {
			peak = max(peak, math.Abs(at(i, j)))
		}
	}
	odd, spread := 0, 0
	for i := 1; i < l; i++ {
		for j := 1; j < l; j++ {
			if d := at(i, j) - at(i-1, j-1); d > 1e-6*peak || d < -1e-6*peak {
				odd++
			}
			if i != j && at(i, j) != 0 {
				spread++
			}
		}
		if odd > l {
			return false
		}
	}
	return spread > 0
}

// MinTaps is the minimum length of a convolution that may be a state-space layer.
const MinTaps = 24
