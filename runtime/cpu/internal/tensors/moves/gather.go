package moves

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Gather", Tensor: record.TensorKind{Make: gatherKernel}})
}

// gatherKernel gathers slices. If the indices are known when shapes are bound, it is a movement. Otherwise, as in
// loops, they are read during the run.
func gatherKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *lowering.Binding) *record.TensorKernel {
		if k := gatherKnown(d, s, at); k != nil {
			return k
		}
		x, y, index := s.In[0], s.Out[0], s.In[1]
		shape, dtype := d.Shape(x), d.DType(x)
		axis, err := ops.Axis(at, len(shape))
		indices, ok := IndicesOf(d, s, 1)
		if y == nil || shape == nil || err != nil || !tensors.Cut(dtype) || d.DType(y) != dtype || d.Shape(y) == nil || !ok {
			return nil
		}
		outer, inner := lowering.Runs(shape, axis)
		length, size := shape[axis], tensor.ByteSize(dtype, inner)
		count, _ := tensor.Size(d.Shape(index))
		g := gathering{outer: outer, length: length, count: count, size: size}
		src, dst := lowering.BytesOf(d, x), lowering.BytesOf(d, y)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			wide, short := indices.In(f)
			if !gather(e.Steps(), g, dst.In(f), src.In(f), wide) || !gather(e.Steps(), g, dst.In(f), src.In(f), short) {
				return e.Fallback(s) // the evaluation reports the error
			}
			return nil
		}}
	}
}

// gatherKnown returns the movement of a Gather with known indices, or nil if they are not known.
func gatherKnown(d *lowering.Binding, s *lowering.Step, at int64) *record.TensorKernel {
	shape, y := d.Shape(s.In[0]), s.Out[0]
	axis, err := ops.Axis(at, len(shape))
	indices := d.Constant(s.In[1])
	if shape == nil || err != nil || indices == nil || y == nil || d.Shape(y) == nil || d.DType(s.In[0]) == tensor.String ||
		d.DType(y) != d.DType(s.In[0]) || indices.Len() > tensors.MaxMoved {
		return nil
	}
	outer, inner := lowering.Runs(shape, axis)
	m := &movement{dims: []int{outer, indices.Len(), inner}, runs: true}
	before, along := lowering.Make[int](d, outer), lowering.Make[int](d, indices.Len())
	for i := range ops.Each(d.Steps(), outer) {
		before[i] = i * shape[axis] * inner
	}
	var inside bool
	if indices.DType() == tensor.Int32 {
		inside = slicesAt(d.Steps(), along, tensor.Data[int32](indices), shape[axis], inner)
	} else {
		inside = slicesAt(d.Steps(), along, tensor.Data[int64](indices), shape[axis], inner)
	}
	if !inside {
		return nil // the evaluation reports the error
	}
	m.from = [][]int{before, along, nil}
	if inner == 1 {
		m.dims, m.from = m.dims[:2], m.from[:2]
		m.run, m.runEnd = longestRun(along)
		m.runs = m.runEnd-m.run == len(along)
	}
	return mover(d, s, m, nil)
}

// slicesAt computes where slices of a size start, and reports whether all indices are below length.
func slicesAt[T int32 | int64](c *ir.EvalCtx, at []int, index []T, length, size int) bool {
	for i, v := range ops.All(c, index) {
		k := int(v)
		if k < 0 {
			k += length
		}
		if k < 0 || k >= length {
			return false
		}
		at[i] = k * size
	}
	return true
}

// gathering is a Gather of count slices of size bytes each, in each of outer runs of length slices.
type gathering struct{ outer, length, count, size int }

// gather copies slices up to the first index out of range, and reports whether all are in range.
func gather[T int32 | int64](c *ir.EvalCtx, g gathering, to, from []byte, index []T) bool {
	for i, v := range ops.All(c, index) {
		k := int(v)
		if k < 0 {
			k += g.length
		}
		if k < 0 || k >= g.length {
			return false
		}
		for o := range g.outer {
			ops.Put(c, to[(o*g.count+i)*g.size:(o*g.count+i+1)*g.size], from[(o*g.length+k)*g.size:])
		}
	}
	return true
}
