package products

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Conv", Takes: all, Build: conv},
		record.Record{Op: "ConvTranspose", Takes: all, Build: convTranspose})
}

// all accepts every version, because they differ only in types.
func all(*lowering.Step) bool { return true }

// leastFilters is the minimum number of filters per group for which a convolution becomes a product of matrices.
const leastFilters = 8

// windows reads the sizes and attributes of a Conv or ConvTranspose. It returns false if there is no kernel for
// them.
func windows(b *record.Builder, s *lowering.Step) (c kernel.Conv, win []ops.Window, ok bool) {
	d := b.Binding
	x, w, y := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	dims := len(x) - 2
	typ, ok := numberOf(d.DType(s.Out[0]))
	if !ok || dims < 1 || dims > 3 || len(w) != len(x) || len(y) != len(x) {
		return c, nil, false
	}
	for i := range s.Node.Inputs {
		if !s.Absent(i) && !d.Typed(s, i, d.DType(s.Out[0])) {
			return c, nil, false
		}
	}
	win, err := ops.Windows(s.Node, dims)
	group := int(ops.Int(s.Node, "group"))
	if err != nil || group < 1 || x[1]%group != 0 || y[1]%group != 0 {
		return c, nil, false
	}
	c = kernel.Conv{Type: typ, X: b.Buffer(s.In[0]), W: b.Buffer(s.In[1]), Samples: x[0], Groups: group,
		Channels: x[1] / group, Filters: y[1] / group, In: x[2:], Out: y[2:], Taps: w[2:]}
	if !s.Absent(2) {
		c.Bias = b.Buffer(s.In[2])
	}
	for i, v := range win {
		c.Stride, c.Dilation = append(c.Stride, int(v.Stride)), append(c.Dilation, int(v.Dilation))
		// Positions are 32-bit numbers; the upper half represents positions before the input.
		if (x[i+2]+y[i+2])*int(v.Stride)+w[i+2]*int(v.Dilation)+int(v.Begin) > math.MaxInt32 {
			return c, nil, false
		}
	}
	return c, win, true
}

// conv computes a convolution.
func conv(b *record.Builder, s *lowering.Step) bool {
	if p, ok := convProduct(b, s); ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		launch(b, p)
		return true
	}
	if p, ok := convHalves(b, s); ok {
		p.C.Buffer = b.Buffer(s.Out[0])
		b.Work(convWork(b, s))
		b.Launch(p.Calls(b.Scratch)...)
		return true
	}
	c, win, ok := windows(b, s)
	if !ok {
		return false
	}
	for i, w := range win {
		c.Before = append(c.Before, int(w.Bind(int64(c.In[i]), int64(c.Taps[i])).Begin))
	}
	return direct(b, s, c)
}

// convProduct returns a convolution of float32 as a product of matrices.
func convProduct(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	if !b.Binding.Gives(s, 0, tensor.Float32) {
		return p, false
	}
	return convMatrices(b, s)
}

// mostWindows is the maximum memory in bytes for laying out windows of float16.
const mostWindows = 256 << 20

// convHalves returns a convolution of float16 or bfloat16 as a product of words.
func convHalves(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	typ, ok := numberOf(b.Binding.DType(s.Out[0]))
	if !ok || typ != kernel.SumF16 && typ != kernel.SumBF16 {
		return p, false
	}
	if p, ok = convMatrices(b, s); !ok || (kernel.Packing{Size: 2, Rows: p.N, K: p.K, Batch: p.Batch, From: p.B}).Bytes() > mostWindows {
		return p, false
	}
	return (&contraction{typ: typ, x: p.A.Buffer, constants: [2]*lowering.Value{fixed(s, 1), nil}}).halves(b, p)
}

// convWork returns the work of a convolution.
func convWork(b *record.Builder, s *lowering.Step) ir.Work {
	w := b.Binding.ShapeOf(s, 1)
	return ir.Work{Flops: 2 * int64(record.Size(b.Binding.Shape(s.Out[0]))) * int64(record.Size(w[1:]))}
}

// convMatrices returns a convolution as a product of matrices, one per sample and group. Rows are filters.
func convMatrices(b *record.Builder, s *lowering.Step) (p kernel.Product, ok bool) {
	c, win, ok := windows(b, s)
	if !ok {
		return p, false
	}
	plain := true
	for i, w := range win {
		w = w.Bind(int64(c.In[i]), int64(c.Taps[i]))
		c.Before = append(c.Before, int(w.Begin))
		plain = plain && c.Taps[i] == 1 && w.Stride == 1 && w.Begin == 0 && c.In[i] == c.Out[i]
	}
	depth, in, out := c.Channels*record.Size(c.Taps), record.Size(c.In), record.Size(c.Out)
	if c.Filters < leastFilters || depth == 0 || in == 0 || in > math.MaxInt32 ||
		out > math.MaxInt32 {
		return p, false
	}
	of := kernel.Matrix{Buffer: c.W, Row: depth, Inner: 1}
	if c.Type == kernel.SumF32 && constant(s, 1) {
		of = weights(b, s.In[1], c.Groups*c.Filters, depth, depth, 1)
	}
	of.Batch = []int{0, c.Filters * of.Row}
	p = kernel.Product{M: c.Filters, N: out, K: depth, Batch: []int{c.Samples, c.Groups}, A: of,
		B: kernel.Matrix{Buffer: c.X, Row: 1, Inner: in, Batch: []int{c.Groups * c.Channels * in, c.Channels * in}},
		C: kernel.Matrix{Row: out, Inner: 1, Batch: []int{c.Groups * c.Filters * out, c.Filters * out}}}
	if !plain {
		table := b.Constant(fmt.Sprint("windows ", c.Channels, c.Taps, c.Dilation), func() []byte {
			var bytes []byte
			for _, v := range kernel.WindowTable(c.Channels, c.Taps, c.Dilation) {
				bytes = binary.LittleEndian.AppendUint32(bytes, uint32(v))
			}
			return bytes
		})
		p.B.Row, p.B.Inner = 0, 0
		p.B.Window = &kernel.Window{Table: table, Channel: in, In: c.In, Out: c.Out, Stride: c.Stride, Before: c.Before}
	}
	if c.Bias != 0 {
		p.Bias = &kernel.Matrix{Buffer: c.Bias, Row: 1, Batch: []int{0, c.Filters}}
	}
	return p, true
}

func direct(b *record.Builder, s *lowering.Step, c kernel.Conv) bool {
	c.Y = b.Buffer(s.Out[0])
	places := record.Size(c.Out)
	if c.Transpose {
		places = record.Size(c.In)
	}
	b.Work(ir.Work{Flops: 2 * int64(c.Samples*c.Groups*c.Filters) * int64(c.Channels*record.Size(c.Taps)*places)})
	b.Launch(c.Calls()...)
	return true
}

// convTranspose computes the gradient of a convolution with respect to its input.
func convTranspose(b *record.Builder, s *lowering.Step) bool {
	c, win, ok := windows(b, s)
	if !ok {
		return false
	}
	c.Transpose = true
	given := s.Node.Attrs.Ints("output_shape", nil) != nil
	extra := s.Node.Attrs.Ints("output_padding", make([]int64, len(win)))
	for i, w := range win {
		begin := int(w.Begin)
		if given || w.Same != 0 {
			full := (c.In[i]-1)*c.Stride[i] + (c.Taps[i]-1)*c.Dilation[i] + int(extra[i]) + 1
			left := max(0, full-c.Out[i])
			if begin = left - left/2; w.Same > 0 {
				begin = left / 2
			}
		}
		c.Before = append(c.Before, begin)
	}
	if record.Size(c.Taps) == 0 {
		return false
	}
	return direct(b, s, c)
}
