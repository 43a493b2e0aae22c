package moves

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that move elements of their first input, whatever their values. If the other inputs are known when
// shapes are bound, the operator is evaluated once, on the indices of the elements. The result shows where each
// element of the output comes from.
func init() {
	record.Register(
		record.Record{Op: "DepthToSpace", Tensor: record.TensorKind{Make: moveKernel}},
		record.Record{Op: "Expand", Tensor: record.TensorKind{Make: moveKernel}},
		record.Record{Op: "Identity", Tensor: record.TensorKind{Make: moveKernel}},
		record.Record{Op: "Pad", Numbers: "a constant number is part of the plan by which elements move", Tensor: record.TensorKind{Make: moving{fills: true}.kernel}},
		record.Record{Op: "Slice", Tensor: record.TensorKind{Make: moving{strides: sliced}.kernel}},
		record.Record{Op: "SpaceToDepth", Tensor: record.TensorKind{Make: moveKernel}},
		record.Record{Op: "Tile", Tensor: record.TensorKind{Make: moveKernel}},
	)
}

// movement maps the elements of a tensor of shape dims to their sources: the sum over its axes of from[axis][index].
// A negative sum means the filling.
type movement struct {
	dims []int
	from [][]int
	// runs: along the last axis, elements are consecutive. The list of that axis then has only the first position,
	// or is nil and starts with 0.
	runs bool
	// run and runEnd delimit the part of the last axis where they are consecutive.
	run, runEnd int
}

// moving describes how an operator moves elements, beyond what its evaluation shows.
type moving struct {
	fills bool // input 2 is a filling, zero if it is absent
	// strides returns the strides at which the first input is read, and the offset of the first element, so that no
	// evaluation is needed. If it is nil, they are unknown.
	strides func(d *lowering.Binding, s *lowering.Step) (strides []int, offset int, ok bool)
}

func moveKernel(s *lowering.Step) record.TensorMaker { return moving{}.kernel(s) }

func (v moving) kernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		in, out := s.In[0], s.Out[0]
		if out == nil || d.Shape(in) == nil || d.Shape(out) == nil || d.DType(in) != d.DType(out) ||
			d.DType(in) == tensor.String {
			return nil
		}
		for _, x := range s.In[1:] {
			if x != nil && d.Constant(x) == nil {
				return nil
			}
		}
		var fill *tensor.Tensor
		if v.fills && !s.Absent(2) {
			fill = d.Constant(s.In[2])
			if fill.Len() != 1 || fill.DType() != d.DType(in) {
				return nil // the evaluation reports the error
			}
		}
		m := v.movement(d, s)
		if m == nil {
			return nil
		}
		return mover(d, s, m, fill)
	}
}

// movement finds out what a step does to the elements of its first input. It returns nil if that has no regular
// form.
func (v moving) movement(d *lowering.Binding, s *lowering.Step) *movement {
	shape, out := d.Shape(s.In[0]), d.Shape(s.Out[0])
	n, _ := tensor.Size(shape)
	size, _ := tensor.Size(out)
	if n > tensors.MaxMoved || size > tensors.MaxMoved {
		return nil
	}
	if v.strides != nil && size > 0 {
		if strides, offset, ok := v.strides(d, s); ok {
			return stridedMovement(d, out, strides, offset)
		}
	}
	if 16*(int64(n)+int64(size)) > d.Room() { // the indices in the input and the output, and the same again
		return nil
	}
	numbers := tensor.NewParts(d.Steps().Pause, tensor.Int64, shape...)
	for i := range ops.Each(d.Steps(), n) {
		tensor.Data[int64](numbers)[i] = int64(i)
	}
	node := d.Concrete(s)
	if node == nil {
		return nil
	}
	data := []tensor.Datum{numbers}
	node.Inputs[0] = &ir.Value{Name: s.In[0].Name, Type: lowering.TypeOf(tensor.Int64, shape)}
	for i, in := range s.In[1:] {
		var t tensor.Datum
		if k := d.Constant(in); k != nil {
			t = k
		}
		if v.fills && i == 1 { // the filling
			t = tensor.Scalar(int64(-1))
			node.Inputs[2] = ir.NewConst("fill", t.(*tensor.Tensor))
		}
		data = append(data, t)
	}
	if v.fills && s.Absent(2) && s.Node.Attrs.Str("mode", "constant") == "constant" {
		for len(data) < 3 {
			data = append(data, nil)
		}
		node.Inputs = append(node.Inputs[:min(2, len(node.Inputs))], ir.NewConst("fill", tensor.Scalar(int64(-1))))
		data[2] = node.Inputs[len(node.Inputs)-1].Const
	}
	res, err := d.Evaluate(node, data)
	if err != nil || len(res) == 0 {
		return nil
	}
	t, ok := res[0].(*tensor.Tensor)
	if !ok || t == nil || t.DType() != tensor.Int64 || !slices.Equal(t.Shape(), out) {
		return nil
	}
	places := tensor.Data[int64](t)
	mark := d.Charged()
	if m := regular(d, places, out); m != nil {
		return m
	}
	// several axes together may have a regular form that each of them lacks, such as the axes of Gather's indices
	for from := range out {
		for to := from + 2; to <= len(out); to++ {
			joined := 1
			for _, k := range out[from:to] {
				joined *= k
			}
			d.Discharge(mark)
			if m := regular(d, places, slices.Concat(out[:from], []int{joined}, out[to:])); m != nil {
				return m
			}
		}
	}
	return nil
}

// transposed returns the strides with which a Transpose reads its input.
func transposed(d *lowering.Binding, s *lowering.Step) (strides []int, offset int, ok bool) {
	from := ops.Strides(d.ShapeOf(s, 0))
	perm := s.Node.Attrs.Ints("perm", nil)
	if len(perm) != len(from) {
		return nil, 0, false
	}
	for _, p := range perm {
		axis, err := ops.Axis(p, len(from))
		if err != nil {
			return nil, 0, false // the evaluation reports the error
		}
		strides = append(strides, from[axis])
	}
	return strides, 0, true
}

// sliced returns the strides with which a Slice reads its input, and the offset of the first element.
func sliced(d *lowering.Binding, s *lowering.Step) (strides []int, offset int, ok bool) {
	shape := d.ShapeOf(s, 0)
	var p [5][]int64
	for i := 1; i < len(s.In); i++ {
		if s.In[i] == nil {
			continue
		}
		var err error
		if p[i], err = d.Constant(s.In[i]).Int64s(); err != nil {
			return nil, 0, false
		}
	}
	starts, ends, axes, steps := p[1], p[2], p[3], p[4]
	for i := range starts {
		if s.Absent(3) {
			axes = append(axes, int64(i))
		}
		if s.Absent(4) {
			steps = append(steps, 1)
		}
	}
	_, err := ops.AxesOf(axes, len(shape))
	if err != nil || len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) ||
		slices.Contains(steps, 0) {
		return nil, 0, false // the evaluation reports the error
	}
	strides = ops.Strides(shape)
	sizes := slices.Clone(shape)
	for i, axis := range axes {
		a, _ := ops.Axis(axis, len(shape))
		first, n := ops.SliceRange(starts[i], ends[i], steps[i], int64(shape[a]))
		offset += int(first) * strides[a]
		if sizes[a] = int(n); n > 1 { // a single element needs no step, and the step may be huge
			strides[a] *= int(steps[i])
		}
	}
	return strides, offset, slices.Equal(sizes, d.Shape(s.Out[0]))
}

// stridedMovement returns the movement of a tensor that is read with these strides. Axes that form one axis are
// joined, so that copies are as long as possible.
func stridedMovement(d *lowering.Binding, out, strides []int, offset int) *movement {
	var dims, steps []int
	for a, n := range out {
		switch last := len(dims) - 1; {
		case n == 1:
		case last >= 0 && steps[last] == n*strides[a]:
			dims[last], steps[last] = dims[last]*n, strides[a]
		default:
			dims, steps = append(dims, n), append(steps, strides[a])
		}
	}
	if len(dims) == 0 {
		dims, steps = []int{1}, []int{1}
	}
	m := &movement{dims: dims, runs: steps[len(dims)-1] == 1}
	for a, n := range dims {
		if m.runs && a == len(dims)-1 {
			n = 1
		}
		from := lowering.Make[int](d, n)
		for i := range from {
			from[i] = i * steps[a]
			if a == 0 {
				from[i] += offset
			}
		}
		m.from = append(m.from, from)
	}
	return m
}

// far exceeds any sum of positions: along an axis it marks the filling.
const far = min(1<<40, math.MaxInt>>3)

// regular finds lists of positions along each axis whose sums are the elements' positions, or returns nil if there
// are none.
func regular(d *lowering.Binding, places []int64, out []int) *movement {
	c := d.Steps()
	m := &movement{dims: out}
	if len(places) == 0 {
		return m
	}
	if consecutive(c, places) { // only a new shape
		m.dims, m.from, m.runs = []int{len(places)}, [][]int{nil}, true
		return m
	}
	base := slices.IndexFunc(places, func(p int64) bool { return p >= 0 })
	if base < 0 {
		return nil
	}
	strides := ops.Strides(m.dims)
	for a, k := range m.dims {
		at := base - base/strides[a]%k*strides[a] // the elements along this axis that share base's other positions
		from := lowering.Make[int](d, k)
		for i := range ops.Each(c, len(from)) {
			p := places[at+i*strides[a]]
			switch {
			case p < 0:
				from[i] = -far
			case a == 0:
				from[i] = int(p)
			default:
				from[i] = int(p - places[base])
			}
		}
		m.from = append(m.from, from)
	}
	// Verify it.
	index := make([]int, len(m.dims))
	for _, p := range ops.All(c, places) {
		c.Step(4)
		sum := 0
		for a, k := range index {
			sum += m.from[a][k]
		}
		if p < 0 && sum >= 0 || p >= 0 && sum != int(p) {
			return nil
		}
		for a := len(index) - 1; a >= 0; a-- {
			if index[a]++; index[a] < m.dims[a] {
				break
			}
			index[a] = 0
		}
	}
	if len(m.dims) > 0 {
		last := m.from[len(m.from)-1]
		m.run, m.runEnd = longestRun(last)
		if m.runs = m.runEnd-m.run == len(last); m.runs {
			m.from[len(m.from)-1] = slices.Clone(last[:1])
		}
	}
	return m
}

// longestRun returns the bounds of the longest part of a list whose numbers follow each other.
func longestRun(list []int) (from, to int) {
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j] == list[i]+j-i {
			j++
		}
		if j-i > to-from {
			from, to = i, j
		}
		i = j
	}
	return from, to
}

func consecutive(c *ir.EvalCtx, places []int64) bool {
	for i, p := range ops.All(c, places) {
		if p != int64(i) {
			return false
		}
	}
	return true
}

// move copies the elements of x to their positions in y.
func move[T any](c *ir.EvalCtx, m *movement, fill T, y, x []T) {
	if len(y) == 0 {
		return
	}
	rank := len(m.dims)
	if rank == 0 {
		y[0] = x[0]
		return
	}
	last, width := m.from[rank-1], m.dims[rank-1]
	first := 0
	if last != nil {
		first = last[0]
	}
	var index [16]int
	for len(y) > 0 {
		off := 0
		for a := range rank - 1 {
			off += m.from[a][index[a]]
		}
		row := y[:width]
		y = y[width:]
		for lo := 0; lo < len(row); lo += ir.Pace {
			part := row[lo:min(len(row), lo+ir.Pace)]
			c.Step(1 + len(part))
			switch {
			case m.runs && off+first >= 0:
				copy(part, x[off+first+lo:])
			case off < -far/2:
				for i := range part {
					part[i] = fill
				}
			default:
				from := last[lo:][:len(part)]
				a, b := min(max(m.run-lo, 0), len(part)), min(max(m.runEnd-lo, 0), len(part))
				if b-a < 8 || off+from[a] < 0 {
					a, b = 0, 0
				}
				pick(off, from[:a], fill, part[:a], x)
				if a < b {
					copy(part[a:b], x[off+from[a]:])
				}
				pick(off, from[b:], fill, part[b:], x)
			}
		}
		for a := rank - 2; a >= 0; a-- {
			if index[a]++; index[a] < m.dims[a] {
				break
			}
			index[a] = 0
		}
	}
}

// pick copies the elements at off + from, or fill where this is negative.
func pick[T any](off int, from []int, fill T, y, x []T) {
	y = y[:len(from)]
	for i, f := range from {
		if k := off + f; k >= 0 {
			y[i] = x[k]
		} else {
			y[i] = fill
		}
	}
}

// mover returns the kernel that moves elements of input 0, or nil for element types without one.
func mover(d *lowering.Binding, s *lowering.Step, m *movement, fill *tensor.Tensor) *record.TensorKernel {
	if len(m.dims) > 16 {
		return nil
	}
	var run func(c *ir.EvalCtx, m *movement, fill, y, x []byte)
	switch d.DType(s.In[0]).Bits() {
	case 8:
		run = moveAs[uint8]
	case 16:
		run = moveAs[uint16]
	case 32:
		run = moveAs[uint32]
	case 64:
		run = moveAs[uint64]
	default:
		return nil
	}
	var filling []byte
	if fill != nil {
		filling = fill.Bytes()
	}
	x, y := lowering.BytesOf(d, s.In[0]), lowering.BytesOf(d, s.Out[0])
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		run(e.Steps(), m, filling, y.In(f), x.In(f))
		return nil
	}}
}

// moveAs moves elements as another type of the same size. Without a filling it uses zero.
func moveAs[T uint8 | uint16 | uint32 | uint64](c *ir.EvalCtx, m *movement, fill, y, x []byte) {
	var z T
	if len(fill) > 0 {
		z = tensors.Reinterpret[T](fill)[0]
	}
	move(c, m, z, tensors.Reinterpret[T](y), tensors.Reinterpret[T](x))
}
