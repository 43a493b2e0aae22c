package tensors

import (
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
	record.Register(record.Record{Op: "Identity", Takes: takes(whole), Build: view})
	record.RegisterKind(110, record.Record{Op: "reshapes", Build: view, Takes: func(s *lowering.Step) bool {
		return s.Node.Op.Reshapes && takes(whole)(s)
	}})
	record.RegisterKind(110, record.Record{Op: "moves", Build: pieces, Takes: func(s *lowering.Step) bool {
		return s.Node.Op.Moves != nil && takes(whole)(s)
	}})
	record.Register(
		record.Record{Op: "Slice", Takes: takes(whole), Build: slice},
		record.Record{Op: "Pad", Takes: takes(whole), Build: pad},
		record.Record{Op: "CenterCropPad", Takes: takes(whole), Build: centerCropPad},
		record.Record{Op: "Expand", Takes: takes(whole), Build: expand},
		record.Record{Op: "Tile", Takes: takes(whole), Build: tile},
		record.Record{Op: "DepthToSpace", Takes: takes(whole), Build: depthToSpace},
		record.Record{Op: "SpaceToDepth", Takes: takes(whole), Build: spaceToDepth},
		record.Record{Op: "ConstantOfShape", Takes: takes(whole), Build: constantOfShape},
		record.Record{Op: "Trilu", Takes: takes(computed), Build: trilu})
}

// takes returns Record.Takes for operators whose outputs have types that fit, and whose inputs with the given
// numbers must be constant or absent.
func takes(fits func(t tensor.DType) bool, constants ...int) func(s *lowering.Step) bool {
	return func(s *lowering.Step) bool {
		if !ops.Newest(s.Node.Op) || s.Rows != nil {
			return false
		}
		for _, i := range constants {
			if v := s.Node.In(i); v != nil && v.Const == nil {
				return false
			}
		}
		for _, v := range s.Node.Outputs {
			if v == nil {
				continue
			}
			if t, ok := v.Type.(*ir.TensorType); !ok || t.Elem != tensor.Invalid && !fits(t.Elem) {
				return false
			}
		}
		return true
	}
}

// whole reports whether the elements of a type are whole bytes.
func whole(t tensor.DType) bool { return t.Bits() > 0 && t.Bits()%8 == 0 }

// gathered reports whether kernels gather elements of a type.
func gathered(t tensor.DType) bool { return whole(t) && t.Bits() <= 64 }

// computed reports whether kernels compute with elements of a type.
func computed(t tensor.DType) bool { return kernel.Converts(t, t) }

// view makes the result share the memory of the input, or copies it.
func view(b *record.Builder, s *lowering.Step) bool {
	if !b.View(s.Out[0], s.In[0]) {
		b.Copy(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Bytes(s.In[0]))
	}
	return true
}

// move adds a copy of elements along a shape.
func move(b *record.Builder, shape []int, out, in kernel.Operand) bool {
	calls, ok := kernel.Move(shape, out, in)
	return launch(b, calls) && ok
}

func launch(b *record.Builder, calls []kernel.Call) bool {
	b.Launch(calls...)
	return true
}

// operand returns a value as an operand, in row-major order.
func operand(b *record.Builder, v *lowering.Value) kernel.Operand {
	return kernel.Operand{Buffer: b.Buffer(v), Type: b.Binding.DType(v), Strides: ops.Strides(b.Binding.Shape(v))}
}

// moved adds the estimate of the work of a step that moves elements.
func moved(b *record.Builder, s *lowering.Step) bool {
	bytes := 0
	for _, v := range s.Out {
		if v != nil {
			bytes += 2 * b.Bytes(v)
		}
	}
	b.Work(ir.Work{Bytes: int64(bytes)})
	return true
}

// pieces copies the pieces of the inputs that make up the outputs, and fills the rest with zeros.
func pieces(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	n := d.Concrete(s)
	if n == nil {
		return false
	}
	list, ok := ops.Moves(n)
	if !ok {
		return false
	}
	covered := make([]int, len(s.Out))
	var copies []func() bool
	for _, p := range list {
		if p.Output >= len(s.Out) || s.Out[p.Output] == nil {
			continue
		}
		from, to := operand(b, s.In[p.Input]), operand(b, s.Out[p.Output])
		in, out := d.Shape(s.In[p.Input]), d.Shape(s.Out[p.Output])
		if len(in) != len(out) || len(p.From) != len(out) {
			return false
		}
		strides, part := make([]int, len(out)), make([]int, len(out))
		for a := range out {
			axis := a
			if p.Axes != nil {
				axis = p.Axes[a]
			}
			strides[a] = from.Strides[axis]
			first := max(0, -p.From[a])
			part[a] = max(0, min(out[a], in[axis]-p.From[a])-first)
			from.Offset += (first + p.From[a]) * strides[a]
			to.Offset += first * to.Strides[a]
		}
		from.Strides = strides
		covered[p.Output] += record.Size(part)
		if record.Size(part) > 0 {
			copies = append(copies, func() bool { return move(b, part, to, from) })
		}
	}
	for i, v := range s.Out {
		if v != nil && covered[i] < record.Size(d.Shape(v)) {
			b.Fill(b.Buffer(v), 0, b.Bytes(v))
		}
	}
	for _, f := range copies {
		if !f() {
			return false
		}
	}
	return moved(b, s)
}

// run is a part of an axis: n elements of the output from out on, copied from in on with stride step.
type run struct{ out, n, in, step int }

// runsOf divides an axis into runs. from has the source of each element, or -1 for none.
func runsOf(from []int) (list []run) {
	for i := 0; i < len(from); {
		if from[i] < 0 {
			i++
			continue
		}
		r := run{out: i, n: 1, in: from[i]}
		if i+1 < len(from) && from[i+1] >= 0 {
			r.step = from[i+1] - from[i]
		}
		for i++; i < len(from) && from[i] >= 0 && from[i]-from[i-1] == r.step; i++ {
			r.n++
		}
		list = append(list, r)
	}
	return list
}

const maxRuns = 256 // maximum number of copies of one step

// copyRuns copies the runs of all axes.
func copyRuns(b *record.Builder, s *lowering.Step, axes [][]run) bool {
	n := 1
	for _, list := range axes {
		if n *= len(list); n > maxRuns {
			return false
		}
	}
	out, in := operand(b, s.Out[0]), operand(b, s.In[0])
	var visit func(axis int, shape []int, out, in kernel.Operand) bool
	visit = func(axis int, shape []int, out, in kernel.Operand) bool {
		if axis == len(axes) {
			return move(b, shape, out, in)
		}
		for _, r := range axes[axis] {
			to, from := out, in
			from.Strides = slices.Clone(in.Strides)
			to.Offset += r.out * out.Strides[axis]
			from.Offset += r.in * in.Strides[axis]
			from.Strides[axis] *= r.step
			if !visit(axis+1, append(shape[:axis:axis], r.n), to, from) {
				return false
			}
		}
		return true
	}
	return (n == 0 || visit(0, nil, out, in)) && moved(b, s)
}

func slice(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in := d.Shape(s.In[0])
	var p [5][]int64
	for i := 1; i < 5; i++ {
		if i < len(s.In) && s.In[i] != nil && !d.Missing(s.In[i]) {
			var ok bool
			if p[i], ok = d.Ints(s, i); !ok {
				return false
			}
		}
	}
	axes := make([][]run, len(in))
	for a, n := range in {
		axes[a] = []run{{n: n, step: 1}}
	}
	for i, start := range p[1] {
		at, step := int64(i), int64(1)
		if p[3] != nil {
			at = p[3][i]
		}
		if p[4] != nil {
			step = p[4][i]
		}
		a, err := ops.Axis(at, len(in))
		if err != nil || step == 0 {
			return false
		}
		first, n := ops.SliceRange(start, p[2][i], step, int64(in[a]))
		if n < 2 {
			step = 1 // it may be out of range
		}
		axes[a] = []run{{n: int(n), in: int(first), step: int(step)}}
	}
	if record.Size(d.Shape(s.Out[0])) == 0 {
		return true
	}
	return copyRuns(b, s, axes)
}

// centerCropPad copies the middle of each axis to the middle of the result's axis, with zeros around it.
func centerCropPad(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, out := d.Shape(s.In[0]), d.Shape(s.Out[0])
	want, ok := d.Ints(s, 1)
	list := s.Node.Attrs.Ints("axes", nil)
	if list == nil {
		for a := range in {
			list = append(list, int64(a))
		}
	}
	if !ok || len(want) != len(list) || len(in) != len(out) {
		return false
	}
	axes := make([][]run, len(in))
	less := false
	for a, n := range in {
		kept := min(n, out[a])
		axes[a] = []run{{out: (out[a] - kept) / 2, n: kept, in: (n - kept) / 2, step: 1}}
		less = less || kept < out[a]
	}
	if less {
		b.Fill(b.Buffer(s.Out[0]), 0, b.Bytes(s.Out[0]))
	}
	if record.Size(out) == 0 || record.Size(in) == 0 {
		return true
	}
	return copyRuns(b, s, axes)
}

func pad(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, out := d.Shape(s.In[0]), d.Shape(s.Out[0])
	pads, ok := d.Ints(s, 1)
	if !ok {
		return false
	}
	begin := make([]int, len(in))
	if s.Absent(3) {
		for a := range in {
			begin[a] = int(pads[a])
		}
	} else {
		list, ok := d.Ints(s, 3)
		if !ok {
			return false
		}
		for i, at := range list {
			a, err := ops.Axis(at, len(in))
			if err != nil {
				return false
			}
			begin[a] = int(pads[i])
		}
	}
	mode := s.Node.Attrs.Str("mode", "constant")
	axes, whole := make([][]run, len(in)), true
	for a, n := range out {
		from := make([]int, n)
		for i := range from {
			from[i] = source(mode, i-begin[a], in[a])
			whole = whole && from[i] >= 0
		}
		axes[a] = runsOf(from)
	}
	if !whole {
		if !fillWith(b, s, 2) {
			return false
		}
	}
	return copyRuns(b, s, axes)
}

// fillWith fills the output with the number of input i; with zeros if it is absent.
func fillWith(b *record.Builder, s *lowering.Step, i int) bool {
	d, value := b.Binding, 0.0
	shape := d.Shape(s.Out[0])
	if !s.Absent(i) {
		if record.Size(d.Shape(s.In[i])) != 1 {
			return false
		}
		c := d.Constant(s.In[i])
		if c == nil {
			x := operand(b, s.In[i])
			x.Strides = make([]int, len(shape))
			return record.Size(shape) == 0 || move(b, shape, operand(b, s.Out[0]), x)
		}
		v, err := c.Float64s()
		if err != nil {
			return false
		}
		value = v[0]
	}
	if value == 0 {
		b.Fill(b.Buffer(s.Out[0]), 0, b.Bytes(s.Out[0]))
		return true
	}
	calls, ok := kernel.Elementwise(scalar.Const(value), shape, operand(b, s.Out[0]))
	return launch(b, calls) && ok
}

// source returns the element below n that element k of a padded axis copies, or -1 for the constant.
func source(mode string, k, n int) int {
	switch {
	case k >= 0 && k < n:
		return k
	case n == 0 || mode == "constant":
		return -1
	case mode == "edge":
		return min(max(k, 0), n-1)
	case mode == "wrap":
		return (k%n + n) % n
	case n == 1:
		return 0
	}
	k = (k%(2*n-2) + 2*n - 2) % (2*n - 2) // reflect: the edge itself is not repeated
	if k >= n {
		k = 2*n - 2 - k
	}
	return k
}

func expand(b *record.Builder, s *lowering.Step) bool {
	out, in := operand(b, s.Out[0]), operand(b, s.In[0])
	shape := b.Binding.Shape(s.Out[0])
	if b.Bytes(s.Out[0]) == b.Bytes(s.In[0]) {
		return view(b, s)
	}
	in.Strides = ops.BroadcastStrides(b.Binding.Shape(s.In[0]), shape)
	return move(b, shape, out, in) && moved(b, s)
}

// constantOfShape repeats a value. It is a fill if all its bytes are equal.
func constantOfShape(b *record.Builder, s *lowering.Step) bool {
	shape, t := b.Binding.Shape(s.Out[0]), b.Binding.DType(s.Out[0])
	value := tensor.New(t, 1)
	if v := s.Node.Attrs.Tensor("value"); v != nil {
		value = v
	}
	if value.DType() != t || value.Len() != 1 {
		return false
	}
	bytes, y := value.Bytes(), operand(b, s.Out[0])
	if !slices.ContainsFunc(bytes, func(x byte) bool { return x != bytes[0] }) {
		b.Fill(y.Buffer, bytes[0], b.Bytes(s.Out[0]))
		return moved(b, s)
	}
	x := kernel.Operand{Buffer: b.Constant("value", value.Bytes), Type: t, Strides: make([]int, len(shape))}
	return move(b, shape, y, x) && moved(b, s)
}

func tile(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, out := d.Shape(s.In[0]), d.Shape(s.Out[0])
	if len(in) != len(out) {
		return false
	}
	if record.Size(out) == 0 {
		return true
	}
	var shape, from []int // each axis becomes two: the repetition, and the elements
	for a, stride := range ops.Strides(in) {
		shape, from = append(shape, out[a]/in[a], in[a]), append(from, 0, stride)
	}
	x := operand(b, s.In[0])
	x.Strides = from
	return move(b, shape, kernel.Dense(b.Buffer(s.Out[0]), x.Type), x) && moved(b, s)
}

// permuted copies a tensor viewed with the axes parts, with these axes reordered by perm.
func permuted(b *record.Builder, s *lowering.Step, parts, perm []int) bool {
	x := operand(b, s.In[0])
	strides := ops.Strides(parts)
	shape := make([]int, len(perm))
	x.Strides = make([]int, len(perm))
	for i, a := range perm {
		shape[i], x.Strides[i] = parts[a], strides[a]
	}
	return move(b, shape, kernel.Dense(b.Buffer(s.Out[0]), x.Type), x) && moved(b, s)
}

func depthToSpace(b *record.Builder, s *lowering.Step) bool {
	in, n := b.Binding.Shape(s.In[0]), int(s.Node.Attrs.Int("blocksize", 1))
	if s.Node.Attrs.Str("mode", "DCR") == "CRD" {
		return permuted(b, s, []int{in[0], in[1] / (n * n), n, n, in[2], in[3]}, []int{0, 1, 4, 2, 5, 3})
	}
	return permuted(b, s, []int{in[0], n, n, in[1] / (n * n), in[2], in[3]}, []int{0, 3, 4, 1, 5, 2})
}

func spaceToDepth(b *record.Builder, s *lowering.Step) bool {
	in, n := b.Binding.Shape(s.In[0]), int(s.Node.Attrs.Int("blocksize", 1))
	return permuted(b, s, []int{in[0], in[1], in[2] / n, n, in[3] / n, n}, []int{0, 3, 5, 1, 2, 4})
}

const maxMask = 1 << 24 // elements of a mask of a constant

func trilu(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.Shape(s.Out[0])
	rows, columns := shape[len(shape)-2], shape[len(shape)-1]
	k := int64(0)
	if !s.Absent(1) {
		v, ok := d.Ints(s, 1)
		if !ok || len(v) != 1 {
			return false
		}
		k = v[0]
	}
	if record.Size(shape) == 0 {
		return true
	}
	if rows*columns > maxMask {
		return false
	}
	upper, at := s.Node.Attrs.Int("upper", 1) != 0, int(min(max(k, -int64(rows)), int64(columns)))
	mask := b.Constant(key("mask", rows, columns, at, upper), func() []byte {
		m := make([]byte, rows*columns)
		for i := range m {
			if c, r := i%columns, i/columns; upper && c >= r+at || !upper && c <= r+at {
				m[i] = 1
			}
		}
		return m
	})
	strides := make([]int, len(shape))
	strides[len(shape)-2], strides[len(shape)-1] = columns, 1
	calls, ok := kernel.Elementwise(scalar.Select(scalar.Input(0), scalar.Input(1), scalar.Const(0)), shape, operand(b, s.Out[0]),
		kernel.Operand{Buffer: mask, Type: tensor.Bool, Strides: strides}, operand(b, s.In[0]))
	return launch(b, calls) && ok && moved(b, s)
}
