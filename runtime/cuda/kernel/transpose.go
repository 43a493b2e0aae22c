package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

const (
	tile     = 32 // elements along both axes of a tile
	tileRows = 8  // rows of a tile that the threads copy at once
)

// transposed returns a launch that copies list[1] to list[0] in square tiles through shared memory, so that both are
// accessed along contiguous axes. ok is false if this does not pay: if the same axis is contiguous in both, or too
// short.
func transposed(dims []int, list []Operand) (c Call, ok bool) {
	last, row := len(dims)-1, -1
	for d, s := range list[1].Strides {
		if s == 1 && d != last {
			row = d
		}
	}
	if list[0].Strides[last] != 1 || list[1].Strides[last] == 1 || row < 0 || dims[row] < tile/4 || dims[last] < tile/4 {
		return Call{}, false
	}
	// Axes: those outside the tiles in order, then tiles along the row axis, then tiles along the last one.
	size := list[0].Type.Bits() / 8
	var outer []int
	for d := range dims {
		if d != row && d != last {
			outer = append(outer, d)
		}
	}
	items := []int{(dims[row] + tile - 1) / tile, (dims[last] + tile - 1) / tile}
	blocks := items[0] * items[1]
	operands := make([]Operand, 2)
	for i, o := range list {
		operands[i] = Operand{Strides: []int{}}
		for _, d := range append(outer, row, last) {
			operands[i].Strides = append(operands[i].Strides, o.Strides[d])
		}
	}
	p := newPlaces(operands, 1)
	args := []Arg{U32(dims[row]), U32(dims[last])}
	args = append(args, axisArgs(items[0])...)
	args = append(args, axisArgs(items[1])...)
	for _, d := range outer {
		blocks *= dims[d]
		args = append(args, axisArgs(dims[d])...)
	}
	args = append(args, p.args()...)
	for _, o := range list {
		args = append(args, PtrAt(o.Buffer, o.Offset*size))
	}
	code := cachedCode(fmt.Sprint("transpose ", size, len(outer), p.key()), func() *Code {
		return New("transpose", tile*tileRows, func(k *ptx.Kernel) { transposeCode(k, size, len(outer), p) })
	})
	return NewCall(code, driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, args...), true
}

func transposeCode(k *ptx.Kernel, size, outer int, p *places) {
	rows, columns := k.U32Param("rows"), k.U32Param("columns")
	axes := []axis{axisParam(k, 0), axisParam(k, 1)}
	for d := range outer {
		axes = append(axes, axisParam(k, d+2))
	}
	at := p.params(k)
	out, in := k.PtrParam("p0"), k.PtrParam("p1")
	word := max(4, size)                            // bytes of an element in shared memory
	shared := k.SharedArray(tile*(tile+1)*word, 16) // a row takes one extra word, so that columns are in different banks
	c := make([]ptx.U32, outer+2)
	tiles, across := axes[1].divide(k.BlockX())
	rest, down := axes[0].divide(tiles)
	for d := outer - 1; d >= 0; d-- {
		rest, c[d] = axes[d+2].divide(rest)
	}
	x, y := k.ThreadX().And(ptx.U(tile-1)), k.ThreadX().Shr(ptx.U(5))
	first, left := down.Mul(ptx.U(tile)), across.Mul(ptx.U(tile))
	for i := 0; i < tile; i += tileRows { // along the row axis, which is contiguous in the input
		c[outer], c[outer+1] = first.Add(x), left.Add(y).Add(ptx.U(i))
		k.If(c[outer].Lt(rows).And(c[outer+1].Lt(columns)), func() {
			v := load(in.Index64(at(c)[p.of[1]], size), size, 1)[0]
			to := shared.Index(y.Add(ptx.U(i)).MAD(ptx.U(tile+1), x), word)
			if size == 8 {
				to.StoreU64(0, v.long)
			} else {
				to.StoreU32(0, v.low)
			}
		})
	}
	k.Barrier()
	for i := 0; i < tile; i += tileRows { // along the last axis
		c[outer], c[outer+1] = first.Add(y).Add(ptx.U(i)), left.Add(x)
		k.If(c[outer].Lt(rows).And(c[outer+1].Lt(columns)), func() {
			from := shared.Index(x.MAD(ptx.U(tile+1), y.Add(ptx.U(i))), word)
			v := raw{}
			if size == 8 {
				v.long = from.LoadU64(0)
			} else {
				v.low = from.LoadU32(0)
			}
			store(out.Index64(at(c)[p.of[0]], size), size, []raw{v})
		})
	}
}
