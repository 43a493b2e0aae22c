package tensors

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Gather", Takes: takes(gathered), Build: gather},
		record.Record{Op: "ai.onnx.ml.ArrayFeatureExtractor", Takes: takes(gathered), Build: arrayFeatures},
		record.Record{Op: "GatherElements", Takes: takes(gathered), Build: gatherElements},
		record.Record{Op: "GatherND", Takes: takes(gathered), Build: gatherND},
		record.Record{Op: "ScatterElements", Takes: scatters, Build: scatterElements},
		record.Record{Op: "ScatterND", Takes: scatters, Build: scatterND},
		record.Record{Op: "OneHot", Build: oneHot, Takes: func(s *lowering.Step) bool {
			t, ok := ir.AsTensor(s.Node.In(0).Type)
			return ok && t.Elem != tensor.Uint64 && computed(t.Elem) && takes(computed)(s)
		}},
		record.Record{Op: "CumSum", Takes: takes(computed), Build: cumSum})
}

// scatters reports whether kernels support a Scatter operator's way of combining elements.
func scatters(s *lowering.Step) bool {
	if s.Node.Attrs.Str("reduction", "none") == "none" {
		return takes(gathered)(s)
	}
	return takes(func(t tensor.DType) bool { return computed(t) && t != tensor.Bool })(s)
}

const outOfRange = "an index is outside of its dimension"

// key identifies data of a step by everything that they depend on.
func key(parts ...any) string { return fmt.Sprintln(parts...) }

// selected adds a gather. Elements of 16 bytes are moved as pairs.
func selected(b *record.Builder, s *lowering.Step, shape []int, out, data kernel.Operand, columns ...kernel.Index) bool {
	if record.Size(b.Binding.Shape(s.Out[0])) == 0 {
		return true
	}
	calls, ok := kernel.Gather(shape, b.Fault(outOfRange), out, data, columns...)
	return launch(b, calls) && ok && moved(b, s)
}

func gather(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, index := d.Shape(s.In[0]), operand(b, s.In[1])
	a, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(in))
	if err != nil || outside(d.Constant(s.In[1]), in[a]) || in[a] == 0 && record.Size(d.Shape(s.In[1])) > 0 {
		return false
	}
	outer, inner := lowering.Runs(in, a)
	n := record.Size(d.Shape(s.In[1]))
	x := operand(b, s.In[0])
	x.Strides = []int{in[a] * inner, 0, 1}
	index.Strides = []int{0, 1, 0}
	return selected(b, s, []int{outer, n, inner}, kernel.Dense(b.Buffer(s.Out[0]), x.Type), x,
		kernel.Index{Operand: index, Dim: in[a], Along: inner})
}

// arrayFeatures gathers along the last axis, by constant indices.
func arrayFeatures(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, known := d.Shape(s.In[0]), d.Constant(s.In[1])
	if len(in) == 0 || known == nil {
		return false
	}
	n := in[len(in)-1]
	list, err := known.Int64s()
	if err != nil || slices.ContainsFunc(list, func(k int64) bool { return k < 0 || k >= int64(n) }) {
		return false
	}
	x, index := operand(b, s.In[0]), operand(b, s.In[1])
	x.Strides, index.Strides = []int{n, 0}, []int{0, 1}
	return selected(b, s, []int{record.Size(in[:len(in)-1]), len(list)}, kernel.Dense(b.Buffer(s.Out[0]), x.Type), x,
		kernel.Index{Operand: index, Dim: n, Along: 1})
}

// outside reports whether a constant has an index out of range for a dimension of n.
func outside(t *tensor.Tensor, n int) bool {
	if t == nil {
		return false
	}
	v, err := t.Int64s()
	if err != nil {
		return true
	}
	for _, k := range v {
		if k < -int64(n) || k >= int64(n) {
			return true
		}
	}
	return false
}

// along returns the operand of data for the shape of the indices of GatherElements and ScatterElements, and its
// stride along the axis. The operand itself has stride 0 there.
func along(b *record.Builder, v *lowering.Value, axis int) (x kernel.Operand, stride int) {
	x = operand(b, v)
	stride, x.Strides[axis] = x.Strides[axis], 0
	return x, stride
}

func gatherElements(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, shape := d.Shape(s.In[0]), d.Shape(s.In[1])
	a, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(in))
	if err != nil || outside(d.Constant(s.In[1]), in[a]) || !reaches(in, shape, a) || in[a] == 0 && record.Size(shape) > 0 {
		return false
	}
	x, stride := along(b, s.In[0], a)
	return selected(b, s, shape, operand(b, s.Out[0]), x, kernel.Index{Operand: operand(b, s.In[1]), Dim: in[a], Along: stride})
}

// reaches reports whether the indices have as many axes as the data, and are within them on all axes but one.
func reaches(in, index []int, axis int) bool {
	if len(in) != len(index) {
		return false
	}
	for a := range in {
		if a != axis && index[a] > in[a] {
			return false
		}
	}
	return true
}

// columns returns the columns of vectors of indices for the shape (…, n, run), which omits the last axis of
// indices, and the number of elements of a slice.
func columns(b *record.Builder, v *lowering.Value, in []int) (list []kernel.Index, run int, ok bool) {
	d := b.Binding
	shape := d.Shape(v)
	if len(shape) == 0 {
		return nil, 0, false
	}
	k := shape[len(shape)-1]
	if k > len(in) || k == 0 || record.Size(shape) > 0 && slices.Contains(in[:k], 0) {
		return nil, 0, false
	}
	run = record.Size(in[k:])
	stride := run
	for i := k - 1; i >= 0; i-- {
		o := operand(b, v)
		o.Offset, o.Strides = i, []int{k, 0}
		list = append(list, kernel.Index{Operand: o, Dim: in[i], Along: stride})
		stride *= in[i]
	}
	return list, run, true
}

func gatherND(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, index := d.Shape(s.In[0]), d.Shape(s.In[1])
	batch := int(s.Node.Attrs.Int("batch_dims", 0))
	if batch < 0 || batch >= len(index) || batch >= len(in) {
		return false
	}
	list, run, ok := columns(b, s.In[1], in[batch:])
	if !ok {
		return false
	}
	outer, n := record.Size(in[:batch]), record.Size(index[batch:len(index)-1])
	k := index[len(index)-1]
	for i := range list {
		list[i].Strides = []int{n * k, k, 0}
	}
	x := operand(b, s.In[0])
	x.Strides = []int{record.Size(in[batch:]), 0, 1}
	return selected(b, s, []int{outer, n, run}, kernel.Dense(b.Buffer(s.Out[0]), x.Type), x, list...)
}

// scattered copies data to the result, and adds a scatter.
func scattered(b *record.Builder, s *lowering.Step, shape []int, out, updates kernel.Operand, columns ...kernel.Index) bool {
	b.Copy(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Bytes(s.In[0]))
	if record.Size(shape) == 0 {
		return true
	}
	calls, ok := kernel.Scatter(shape, kernel.Combination(s.Node.Attrs.Str("reduction", "none")), b.Fault(outOfRange), out, updates,
		columns...)
	return launch(b, calls) && ok && moved(b, s)
}

func scatterElements(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, shape := d.Shape(s.In[0]), d.Shape(s.In[1])
	a, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(in))
	if err != nil || outside(d.Constant(s.In[1]), in[a]) || !reaches(in, shape, a) || in[a] == 0 && record.Size(shape) > 0 ||
		!slices.Equal(shape, d.Shape(s.In[2])) {
		return false
	}
	out, stride := along(b, s.Out[0], a)
	index, updates := operand(b, s.In[1]), operand(b, s.In[2])
	first := func(list []int) []int { // the axis is the first one
		return append([]int{list[a]}, append(list[:a:a], list[a+1:]...)...)
	}
	for _, o := range []*kernel.Operand{&out, &index, &updates} {
		o.Strides = first(o.Strides)
	}
	return scattered(b, s, first(shape), out, updates, kernel.Index{Operand: index, Dim: in[a], Along: stride})
}

func scatterND(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, index := d.Shape(s.In[0]), d.Shape(s.In[1])
	list, run, ok := columns(b, s.In[1], in)
	if !ok {
		return false
	}
	n := record.Size(index[:len(index)-1])
	if record.Size(d.Shape(s.In[2])) != n*run {
		return false
	}
	out, updates := operand(b, s.Out[0]), operand(b, s.In[2])
	out.Strides, updates.Strides = []int{0, 1}, []int{run, 1}
	return scattered(b, s, []int{n, run}, out, updates, list...)
}

func oneHot(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, shape, t := d.Shape(s.In[0]), d.Shape(s.Out[0]), d.DType(s.In[0])
	a, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(in)+1)
	if err != nil || len(shape) != len(in)+1 {
		return false
	}
	if record.Size(shape) == 0 {
		return true
	}
	depth := shape[a]
	index := operand(b, s.In[0])
	if t != tensor.Int64 && t != tensor.Int32 {
		if index, t = wholeIndices(b, in, depth, index); index.Buffer == 0 {
			return false
		}
	}
	places := b.Constant(key("places", depth, t), func() []byte {
		var m []byte
		for i := range depth {
			if t == tensor.Int64 {
				m = binary.LittleEndian.AppendUint64(m, uint64(i))
			} else {
				m = binary.LittleEndian.AppendUint32(m, uint32(i))
			}
		}
		return m
	})
	place := kernel.Operand{Buffer: places, Type: t, Strides: make([]int, len(shape))}
	strides := append([]int{}, index.Strides[:a]...)
	index.Strides = append(append(strides, 0), index.Strides[a:]...)
	place.Strides[a] = 1
	mask := kernel.Dense(b.Scratch(record.Size(shape)), tensor.Bool)
	x := scalar.Inputs(3)
	hit := scalar.Or(scalar.Equal(x[0], x[1]), scalar.Equal(scalar.Add(x[0], scalar.Const(float64(depth))), x[1]))
	calls, ok := kernel.Elementwise(hit, shape, mask, index, place)
	launch(b, calls)
	on, off := operand(b, s.In[2]), operand(b, s.In[2])
	on.Offset, on.Strides, off.Strides = 1, make([]int, len(shape)), make([]int, len(shape))
	calls, okay := kernel.Elementwise(scalar.Select(x[0], x[1], x[2]), shape, operand(b, s.Out[0]), mask, on, off)
	return launch(b, calls) && ok && okay && moved(b, s)
}

// wholeIndices truncates indices of other types to int64. Values below -depth stay below it.
func wholeIndices(b *record.Builder, shape []int, depth int, in kernel.Operand) (kernel.Operand, tensor.DType) {
	if in.Type.IsFloat() {
		x, to := scalar.Input(0), kernel.Operand{Buffer: b.Scratch(record.Size(shape) * in.Type.Bits() / 8), Type: in.Type}
		least := scalar.Const(-float64(depth))
		calls, ok := kernel.Elementwise(scalar.Select(scalar.LessEqual(least, x), x, scalar.Const(-60000)), shape, to, in)
		if depth >= 60000 || !launch(b, calls) || !ok {
			return kernel.Operand{}, 0
		}
		in = to
		in.Strides = nil
	}
	out := kernel.Dense(b.Scratch(8*record.Size(shape)), tensor.Int64)
	calls, ok := kernel.Convert(shape, out, in)
	if !launch(b, calls) || !ok {
		return kernel.Operand{}, 0
	}
	out.Strides = ops.Strides(shape)
	return out, tensor.Int64
}

func cumSum(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	at, ok := d.Ints(s, 1)
	if !ok || len(at) != 1 {
		return false
	}
	shape := d.Shape(s.In[0])
	a, err := ops.Axis(at[0], len(shape))
	if err != nil {
		return false
	}
	outer, inner := lowering.Runs(shape, a)
	calls, ok := kernel.CumSum(outer, shape[a], inner, s.Node.Attrs.Int("exclusive", 0) != 0, s.Node.Attrs.Int("reverse", 0) != 0,
		b.Buffer(s.Out[0]), b.Buffer(s.In[0]), d.DType(s.In[0]))
	b.Work(ir.Work{Flops: int64(record.Size(shape))})
	return launch(b, calls) && ok && moved(b, s)
}
