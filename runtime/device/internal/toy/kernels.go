package toy

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
)

// kernel is work of the device: a function of its operands, results first.
type kernel struct {
	name     string
	operands []operand
	run      func(t []*tensor.Tensor)
}

type operand struct {
	buffer device.Buffer
	dtype  tensor.DType
	shape  []int
}

func (k *kernel) Name() string { return k.name }

func (k *kernel) Buffers(f func(device.Buffer)) {
	for _, o := range k.operands {
		f(o.buffer)
	}
}

// launch adds a kernel of float32 operands.
func launch(b *device.Builder, name string, run func(t [][]float32), operands ...operand) bool {
	b.Launch(&kernel{name, operands, func(t []*tensor.Tensor) {
		all := make([][]float32, len(t))
		for i, x := range t {
			all[i] = tensor.Data[float32](x)
		}
		run(all)
	}})
	return true
}

// of returns the operand of a value.
func of(b *device.Builder, v *lowering.Value) operand {
	return operand{b.Buffer(v), b.Binding.DType(v), b.Binding.Shape(v)}
}

// operators are the operators of the device.
type operators struct{}

var records = map[string]device.Record{
	"Transpose": transpose,
	"MatMul":    matMul,
	"Softmax":   softmax,
	"ReduceSum": reduceSum,
	"Gather":    gatherRows,
}

func (operators) For(s *lowering.Step) device.Record {
	if s.Node.Op.Reshapes {
		return reshape
	}
	if r := records[s.Node.Op.FullName()]; r != nil && ops.Newest(s.Node.Op) {
		return r
	}
	if t, ok := s.Out[0].Type.(*ir.TensorType); ok && t.Elem == tensor.Float32 {
		if _, ok := ops.Element(s.Node); ok {
			return elementwise
		}
	}
	return nil
}

func (operators) Binds(string, int) bool { return false }
func (operators) Wide(*ir.Op) bool       { return false }

// Fusions returns one: an elementwise operator with those that read its results.
func (operators) Fusions() []device.Fusion {
	own := func(s *lowering.Step) bool { return records[s.Node.Op.FullName()] == nil }
	return []device.Fusion{{Name: "elements", Build: func(b *device.Builder, steps []*lowering.Step) []*lowering.Step {
		f := fusion(b, steps[0])
		if f == nil || !own(steps[0]) {
			return nil
		}
		more := b.Binding.Follow(steps[:1], steps[1:], len(steps), nil,
			func(s *lowering.Step) bool { return own(s) && f.Add(s) })
		if len(more) == 0 || !compute(b, f, more[len(more)-1].Out[0]) {
			return nil
		}
		return append(steps[:1:1], more...)
	}}}
}

// floats reports whether inputs and outputs of a step are float32.
func floats(b *device.Builder, s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if s.In[i] == nil || !b.Binding.IsFloat32(s.In[i]) {
			return false
		}
	}
	return b.Binding.IsFloat32(s.Out[0])
}

// elementwise computes the operator's expression.
func elementwise(b *device.Builder, s *lowering.Step) bool {
	f := fusion(b, s)
	return f != nil && compute(b, f, s.Out[0])
}

// fusion returns a fusion that begins with a step, or nil if there is no kernel for it.
func fusion(b *device.Builder, first *lowering.Step) *lowering.Fusion {
	d := b.Binding
	shape := d.Shape(first.Out[0])
	f := lowering.NewFusion(d, shape, func(_ scalar.Expr, s *lowering.Step, operands []*lowering.Value) bool {
		return floats(b, s) && !slices.ContainsFunc(operands, func(v *lowering.Value) bool {
			y, err := ops.Broadcast(d.Shape(v), shape)
			return err != nil || !slices.Equal(y, shape) || !d.IsFloat32(v) && d.Fixed(v) == nil
		})
	})
	if !f.Add(first) {
		return nil
	}
	return f
}

// compute computes the expression of a result.
func compute(b *device.Builder, f *lowering.Fusion, v *lowering.Value) bool {
	d, e := b.Binding, f.Of(v)
	shape, reads := d.Shape(v), e.Reads()
	operands, strides := []operand{of(b, v)}, [][]int{nil}
	for _, i := range reads {
		x, ok := b.Float32(f.Operands[i])
		if !ok {
			return false
		}
		in := d.Shape(f.Operands[i])
		operands, strides = append(operands, operand{x, tensor.Float32, in}), append(strides, ops.BroadcastStrides(in, shape))
	}
	code, count := scalar.Linearize(nil, e), len(f.Operands)
	return launch(b, "element", func(t [][]float32) {
		const block = 256
		m, args, y := scalar.NewMachine(code, block), make([][]float64, count), [][]float64{make([]float64, block)}
		for lo := 0; lo < len(t[0]); lo += block {
			n := min(block, len(t[0])-lo)
			for j, i := range reads {
				args[i] = make([]float64, n)
				for k := range n {
					args[i][k] = float64(t[1+j][place(lo+k, shape, strides[1+j])])
				}
			}
			m.Run(n, y, args)
			for k, v := range y[0][:n] {
				t[0][lo+k] = float32(v)
			}
		}
	}, operands...)
}

// place returns the offset of element i of a shape in a tensor with other strides.
func place(i int, shape, strides []int) (at int) {
	for a := len(shape) - 1; a >= 0; a-- {
		at += i % shape[a] * strides[a]
		i /= shape[a]
	}
	return at
}

// reshape gives the result the memory of the input, or copies it.
func reshape(b *device.Builder, s *lowering.Step) bool {
	x, y := s.In[0], s.Out[0]
	if n := b.Bytes(x); n != b.Bytes(y) {
		return false
	} else if !b.View(y, x) {
		b.Copy(b.Buffer(y), 0, b.Buffer(x), 0, n)
	}
	return true
}

// transpose reads the offset of each element from a table.
func transpose(b *device.Builder, s *lowering.Step) bool {
	if !floats(b, s, 0) {
		return false
	}
	in, shape := b.Binding.ShapeOf(s, 0), b.Binding.Shape(s.Out[0])
	n, _ := tensor.Size(shape)
	strides, permuted := ops.Strides(in), make([]int, len(in))
	for i, axis := range ops.Permutation(b.Binding.Concrete(s)) {
		permuted[i] = strides[axis]
	}
	table := b.Constant(fmt.Sprint("places ", shape, permuted), func() (data []byte) {
		for i := range n {
			data = binary.LittleEndian.AppendUint64(data, uint64(place(i, shape, permuted)))
		}
		return data
	})
	operands := []operand{of(b, s.Out[0]), of(b, s.In[0]), {table, tensor.Int64, []int{n}}}
	b.Launch(&kernel{"transpose", operands, func(t []*tensor.Tensor) {
		y, x := tensor.Data[float32](t[0]), tensor.Data[float32](t[1])
		for i, at := range tensor.Data[int64](t[2]) {
			y[i] = x[at]
		}
	}})
	return true
}

// matMul multiplies by a matrix; one that is constant or a parameter is transposed before.
func matMul(b *device.Builder, s *lowering.Step) bool {
	x, w := b.Binding.ShapeOf(s, 0), b.Binding.ShapeOf(s, 1)
	if !floats(b, s, 0, 1) || len(x) == 0 || len(w) != 2 {
		return false
	}
	k, n, right := of(b, s.In[1]), w[1], w[1]
	down := 1
	if f := b.Binding.Fixed(s.In[1]); f != nil && f.Len() > 0 {
		right, down = 1, w[0]
		k.buffer = b.Weights(s.In[1], "transposed", func() (data []byte) {
			v := tensor.Data[float32](f)
			for i := range v {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v[i%w[0]*w[1]+i/w[0]]))
			}
			return data
		})
	}
	return launch(b, "product", func(t [][]float32) {
		for i := range t[0] {
			sum := 0.0
			for l := range w[0] {
				sum += float64(t[1][i/n*w[0]+l]) * float64(t[2][l*right+i%n*down])
			}
			t[0][i] = float32(sum)
		}
	}, of(b, s.Out[0]), of(b, s.In[0]), k)
}

// softmax is over the last axis; a second kernel divides by sums in scratch memory.
func softmax(b *device.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	rows, width := lowering.Features(shape)
	axis := s.Node.Attrs.Int("axis", -1)
	if !floats(b, s, 0) || axis != -1 && axis != int64(len(shape)-1) || rows*width == 0 {
		return false
	}
	y, sums := of(b, s.Out[0]), operand{b.Scratch(4 * rows), tensor.Float32, []int{rows}}
	launch(b, "softmax_exp", func(t [][]float32) {
		for i := range t[1] {
			x, sum := t[2][i*width:][:width], 0.0
			most := float64(slices.Max(x))
			for j, v := range x {
				e := math.Exp(float64(v) - most)
				t[0][i*width+j] = float32(e)
				sum += e
			}
			t[1][i] = float32(sum)
		}
	}, y, sums, of(b, s.In[0]))
	return launch(b, "softmax_divide", func(t [][]float32) {
		for i := range t[0] {
			t[0][i] /= t[1][i/width]
		}
	}, y, sums)
}

// reduceSum adds to numbers in float64 that are zero at the start of a run.
func reduceSum(b *device.Builder, s *lowering.Step) bool {
	axes, ok := b.Binding.Ints(s, 1)
	if s.Absent(1) || !ok || len(axes) == 0 || !floats(b, s, 0) {
		return false
	}
	shape := b.Binding.ShapeOf(s, 0)
	left, err := ops.AxesOf(axes, len(shape))
	if err != nil {
		return false
	}
	kept := slices.Clone(shape)
	for _, a := range left {
		kept[a] = 1
	}
	n, _ := tensor.Size(kept)
	strides := ops.BroadcastStrides(kept, shape)
	sums := operand{b.Zeros(8 * n), tensor.Float64, []int{n}}
	b.Launch(&kernel{"sum", []operand{sums, of(b, s.In[0])}, func(t []*tensor.Tensor) {
		for i, x := range tensor.Data[float32](t[1]) {
			tensor.Data[float64](t[0])[place(i, shape, strides)] += float64(x)
		}
	}})
	b.Launch(&kernel{"round", []operand{of(b, s.Out[0]), sums}, func(t []*tensor.Tensor) {
		for i, x := range tensor.Data[float64](t[1]) {
			tensor.Data[float32](t[0])[i] = float32(x)
		}
	}})
	return true
}

// gatherRows picks along the first axis, and reports an index that is out of range.
func gatherRows(b *device.Builder, s *lowering.Step) bool {
	in := b.Binding.ShapeOf(s, 0)
	if !floats(b, s, 0) || s.Node.Attrs.Int("axis", 0) != 0 || b.Binding.DType(s.In[1]) != tensor.Int64 ||
		b.Bytes(s.In[0]) == 0 {
		return false
	}
	size, _ := tensor.Size(in[1:])
	fault := operand{b.Fault("an index is out of range"), tensor.Int32, nil}
	operands := []operand{of(b, s.Out[0]), of(b, s.In[0]), of(b, s.In[1]), fault}
	b.Launch(&kernel{"gather", operands, func(t []*tensor.Tensor) {
		y, x := tensor.Data[float32](t[0]), tensor.Data[float32](t[1])
		for i, at := range tensor.Data[int64](t[2]) {
			if at < 0 {
				at += int64(in[0])
			}
			if at < 0 || at >= int64(in[0]) {
				tensor.Data[int32](t[3])[0] = 1
				continue
			}
			copy(y[i*size:(i+1)*size], x[int(at)*size:])
		}
	}})
	return true
}
