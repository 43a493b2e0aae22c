package moves

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that read or write runs of elements at positions given by indices during the run: GatherElements,
// GatherND, ScatterElements and ScatterND.
func init() {
	record.Register(
		record.Record{Op: "GatherElements", Tensor: record.TensorKind{Make: placesKernel(byElements, false)}},
		record.Record{Op: "GatherND", Tensor: record.TensorKind{Make: placesKernel(byVectors, false)}},
		record.Record{Op: "ScatterElements", Tensor: record.TensorKind{Make: placesKernel(byElements, true)}},
		record.Record{Op: "ScatterND", Tensor: record.TensorKind{Make: placesKernel(byVectors, true)}},
	)
}

// places turns indices into positions of elements. Each vector of vector indices gives one position.
type places struct {
	vector         int
	sizes, strides []int // for the axes that a vector's indices count along
	base           []int // per vector: an offset to add
	at             []int // per vector, set during a run
}

// The two uses of indices: one per element, along an axis, or vectors of them.
const (
	byElements = iota
	byVectors
)

// placesKernel moves elements of any type of whole bytes to positions or from them.
func placesKernel(named int, scatters bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if s.Absent(0) || s.Absent(1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newPlaces(d, s, named, scatters) }
	}
}

func newPlaces(d *lowering.Binding, s *lowering.Step, named int, scatters bool) *record.TensorKernel {
	a := s.Node.Attrs
	x, y := s.In[0], s.Out[0]
	shape, at, dtype := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.DType(x)
	index, ok := IndicesOf(d, s, 1)
	if y == nil || shape == nil || at == nil || !ok || !tensors.Cut(dtype) || !d.Gives(s, 0, dtype) {
		return nil
	}
	var p *places
	run := 1
	if named == byElements {
		p = elementPlaces(d, shape, at, a.Int("axis", 0))
	} else {
		p, run = slicePlaces(d, shape, at, int(a.Int("batch_dims", 0)))
	}
	if p == nil {
		return nil // the evaluation reports the error
	}
	copy(p.at, p.base)
	moved := y // the tensor with one run per position
	if scatters {
		if s.Absent(2) || !d.Typed(s, 2, dtype) || !slices.Equal(d.Shape(y), shape) ||
			named == byElements && !slices.Equal(d.ShapeOf(s, 2), at) {
			return nil
		}
		moved = s.In[2]
	}
	if n, _ := tensor.Size(d.Shape(moved)); n != len(p.at)*run {
		return nil
	}
	var join joinRuns
	if how := a.Str("reduction", "none"); how != "none" {
		if join = joinOf(dtype, how); join == nil {
			return nil
		}
	}
	from, to, updates := lowering.BytesOf(d, x), lowering.BytesOf(d, y), lowering.BytesOf(d, moved)
	temp := 0
	if join != nil && dtype == tensor.Float32 {
		temp = tensors.Product(shape)
	}
	return &record.TensorKernel{Temp: temp, Run: func(e record.Execution, c record.Call) error {
		f := e.Frame()
		wide, short := index.In(f)
		if !findPlaces(e.Steps(), p, wide) || !findPlaces(e.Steps(), p, short) {
			return e.Fallback(s) // the evaluation reports the error
		}
		src, dst := from.In(f), to.In(f)
		if !scatters {
			gatherRuns(e.Steps(), dst, src, p.at, run, tensor.ByteSize(dtype, 1))
			return nil
		}
		ops.Put(e.Steps(), dst, src)
		if join != nil {
			join(e.Steps(), dst, updates.In(f), p.at, run, c.Temp)
			return nil
		}
		scatterRuns(e.Steps(), dst, updates.In(f), p.at, run, tensor.ByteSize(dtype, 1))
		return nil
	}}
}

// elementPlaces is for one index per element, which counts along an axis of a tensor of the given shape.
func elementPlaces(d *lowering.Binding, shape, at []int, axis int64) *places {
	a, err := ops.Axis(axis, len(shape))
	if err != nil || len(at) != len(shape) {
		return nil
	}
	for i, k := range at {
		if i != a && k > shape[i] {
			return nil
		}
	}
	strides := ops.Strides(shape)
	p := &places{vector: 1, sizes: shape[a : a+1], strides: []int{strides[a]}}
	strides[a] = 0
	p.base = lowering.Offsets[int](d, at, strides, 0)
	p.at = lowering.Make[int](d, len(p.base))
	return p
}

// slicePlaces is for vectors along the last axis of the indices, which count along the first axes after batch ones.
// run is the size of each slice.
func slicePlaces(d *lowering.Binding, shape, at []int, batch int) (p *places, run int) {
	last := len(at) - 1
	if last < 0 || batch < 0 || batch > last || batch+at[last] > len(shape) || !slices.Equal(shape[:batch], at[:batch]) {
		return nil, 0
	}
	strides, k := ops.Strides(shape), at[last]
	p = &places{vector: k, sizes: shape[batch : batch+k], strides: strides[batch : batch+k]}
	n := tensors.Product(at[:last])
	p.base, p.at = lowering.Make[int](d, n), lowering.Make[int](d, n)
	if batch > 0 && n > 0 {
		per := tensors.Product(at[batch:last])
		for i := range p.base {
			p.base[i] = i / per * strides[batch-1]
		}
	}
	return p, tensors.Product(shape[batch+k:])
}

// indexSlot is the slot of indices in one of two types.
type indexSlot struct {
	wide  lowering.Slot[int64]
	short lowering.Slot[int32]
}

// IndicesOf returns the slot of input i, and false if it is not a tensor of indices.
func IndicesOf(d *lowering.Binding, s *lowering.Step, i int) (x indexSlot, ok bool) {
	switch {
	case d.Typed(s, i, tensor.Int64):
		x.wide = lowering.Input[int64](d, s, i)
	case d.Typed(s, i, tensor.Int32):
		x.short = lowering.Input[int32](d, s, i)
	default:
		return x, false
	}
	return x, true
}

// In returns the indices in their type; the other is empty.
func (x *indexSlot) In(f *lowering.Frame) (wide []int64, short []int32) {
	return x.wide.In(f), x.short.In(f)
}

// findPlaces reads indices up to the first one out of range, and reports whether all are in range.
func findPlaces[T int32 | int64](c *ir.EvalCtx, p *places, index []T) bool {
	if len(index) == 0 { // all dimensions are 1, or vectors are empty: positions are the bases
		return true
	}
	if p.vector == 1 {
		size, stride, inside := p.sizes[0], p.strides[0], true
		for lo, hi := range ops.Blocks(c, len(p.at), tensors.ItemNumbers) {
			at, base := p.at[lo:hi], p.base[lo:hi]
			for i, v := range index[lo:hi] {
				k := int(v)
				if k < 0 {
					k += size
				}
				inside = inside && uint(k) < uint(size)
				at[i] = base[i] + k*stride
			}
		}
		return inside
	}
	for i := range ops.Costly(c, len(p.at), 2*p.vector) {
		o := p.base[i]
		for j, v := range index[i*p.vector : (i+1)*p.vector] {
			k := int(v)
			if k < 0 {
				k += p.sizes[j]
			}
			if k < 0 || k >= p.sizes[j] {
				return false
			}
			o += k * p.strides[j]
		}
		p.at[i] = o
	}
	return true
}

// gatherRuns copies runs of elements from their positions.
func gatherRuns(c *ir.EvalCtx, dst, src []byte, at []int, run, size int) {
	switch {
	case run == 1 && size == 4:
		y, x := tensors.Reinterpret[uint32](dst), tensors.Reinterpret[uint32](src)
		for i, p := range ops.All(c, at) {
			y[i] = x[p]
		}
	case run == 1 && size == 8:
		y, x := tensors.Reinterpret[uint64](dst), tensors.Reinterpret[uint64](src)
		for i, p := range ops.All(c, at) {
			y[i] = x[p]
		}
	default:
		n := run * size
		for i, p := range ops.All(c, at) {
			ops.Put(c, dst[i*n:(i+1)*n], src[p*size:])
		}
	}
}

// scatterRuns copies runs of elements to their positions.
func scatterRuns(c *ir.EvalCtx, dst, src []byte, at []int, run, size int) {
	n := run * size
	for i, p := range ops.All(c, at) {
		ops.Put(c, dst[p*size:p*size+n], src[i*n:])
	}
}
