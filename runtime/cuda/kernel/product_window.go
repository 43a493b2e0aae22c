package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Window makes an operand of the windows of a convolution without writing them out. Rows (for B: columns of the
// product) are positions of the result, in order. K runs over channels, and over taps within each.
type Window struct {
	// Table has, for each number along K, its channel and its distance along each dimension from the first tap, in
	// int32: see WindowTable. A row has 4 numbers.
	Table   Buffer
	Channel int   // stride of channels
	In      []int // sizes of the input: 1 to 3 dimensions, contiguous in the last
	Out     []int // sizes of the result
	Stride  []int
	Before  []int // padding before the first number
}

// WindowTable returns the table of windows with the given channels and taps.
func WindowTable(channels int, taps, dilation []int) []int32 {
	var t []int32
	for c := range channels {
		for i := range volume(taps) {
			row := [4]int32{int32(c)}
			for d := len(taps) - 1; d >= 0; d-- {
				row[1+d] = int32(i % taps[d] * dilation[d])
				i /= taps[d]
			}
			t = append(t, row[:]...)
		}
	}
	return t
}

func (w *Window) args(size int) []Arg {
	args := []Arg{Ptr(w.Table), U64(size * w.Channel)}
	for d := range w.In {
		args = append(args, U32(w.In[d]), U32(w.Out[d]), U32(w.Stride[d]), U32(w.Before[d]))
	}
	return args
}

// windowPlace is a Window in a kernel.
type windowPlace struct {
	dims                    int
	table                   ptx.Addr
	channel                 ptx.U64
	in, out, stride, before []ptx.U32
	// position of the first tap along each dimension; negative ones are large unsigned numbers
	first []ptx.U32
}

func windowParams(k *ptx.Kernel, name string, dims int) *windowPlace {
	w := &windowPlace{dims: dims, table: k.PtrParam(name + "_table"), channel: k.U64Param(name + "_channel")}
	for d := range dims {
		p := func(what string) ptx.U32 { return k.U32Param(fmt.Sprintf("%s_%s%d", name, what, d)) }
		w.in, w.out = append(w.in, p("in")), append(w.out, p("out"))
		w.stride, w.before = append(w.stride, p("stride")), append(w.before, p("before"))
	}
	return w
}

// begin finds the window of a position of the result.
func (w *windowPlace) begin(at ptx.U32) {
	w.first = make([]ptx.U32, w.dims)
	for d := w.dims - 1; d >= 0; d-- {
		i := at
		if d > 0 {
			next := at.Div(w.out[d])
			i = at.Sub(next.Mul(w.out[d]))
			at = next
		}
		w.first[d] = i.Mul(w.stride[d]).Sub(w.before[d])
	}
}

// address returns the address of the number of size bytes at depth, for a matrix at base, and whether it is in the
// input and not in its padding.
func (w *windowPlace) address(base ptx.Addr, size int, depth ptx.U32) (ptx.Addr, ptx.Pred) {
	row := w.table.Index(depth, 16).ConstU32s(0, 4)
	var flat ptx.U32
	var in ptx.Pred
	for d := range w.dims {
		i := w.first[d].Add(row[1+d])
		inside := i.Lt(w.in[d])
		if d == 0 {
			flat, in = i, inside
			continue
		}
		flat, in = flat.MAD(w.in[d], i), in.And(inside)
	}
	return base.Add(row[0].Wide().Mul(w.channel)).Index(flat, size), in
}
