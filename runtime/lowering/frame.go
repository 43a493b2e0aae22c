package lowering

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// Frame is the table of a binding's values during a run. It belongs to one executable. When that is bound, it
// assigns values memory of their own (Place). Each run starts with Begin and ends with End. In between, steps read
// and write elements in slots (Slot, Bytes), or pass data as a whole (Datum, Store).
type Frame struct {
	// Binding is what runs.
	Binding *Binding
	// Memory is where values share memory over time: a result in it is copied before it is kept.
	Memory []byte
	// Nested means that the program runs within another, which keeps its results for as long as it needs them.
	Nested bool

	slots  []elements       // the elements of tensors of known shape: index 0 for absent values, 1 + ID for a value
	places []*tensor.Tensor // per value: the tensor with memory of its own
	data   []tensor.Datum   // per value: other data
	fixed  []bool           // per value: it is in its slot before the run, and stays there
	direct []bool           // per output
	text   []*tensor.Tensor // tensors of strings among places

	memory  *memory        // of the executable, and of those around it
	own     int64          // bytes of memory.held
	under   *Frame         // the frame that runs around this one
	out     []tensor.Datum // the outputs, during a run
	made    []bool         // per output: the run has computed it
	control holder         // runs a step's subgraphs; nil if none does

	pause func() // panics with an *ir.Ended when the run's context is done
}

// holder keeps data of a run outside the frames.
type holder interface {
	alive(visit func(d tensor.Datum))
}

// NewFrame returns a frame with everything that is known before any run. It assigns no memory.
func (d *Binding) NewFrame(nested bool) Frame {
	n, known := len(d.Program.Values), int64(0)
	f := Frame{Binding: d, Nested: nested, slots: make([]elements, n+1), places: make([]*tensor.Tensor, n),
		data: make([]tensor.Datum, n), fixed: make([]bool, n), direct: d.Direct(),
		made: make([]bool, len(d.Program.Outputs)), memory: d.memory}
	for _, v := range d.Program.Values {
		d.Steps().Step(20)
		if t := d.Fixed(v); t != nil {
			f.data[v.ID], f.fixed[v.ID] = t, true
			if !t.Lazy() || d.values[v.ID].slotted { // others are read through their tensors, if at all
				f.slots[v.ID+1] = elementsOf(t)
			}
			if v.Fixed() == nil && !d.Given(v) {
				known += ops.SizeOf(t)
			}
		}
	}
	f.release(-known)
	return f
}

// Direct reports for each output of the program whether it is a tensor that is computed directly into the caller's memory.
func (d *Binding) Direct() []bool {
	direct, before := make([]bool, len(d.Program.Outputs)), make(map[*Value]bool, len(d.Program.Outputs))
	for i, v := range d.Program.Outputs {
		direct[i] = d.Placed(v) && d.Fixed(v) == nil && !d.Given(v) && !before[v]
		before[v] = true
	}
	return direct
}

// Placed reports whether v can have memory of a known size: it is a tensor of known shape, and not of strings.
func (d *Binding) Placed(v *Value) bool {
	return d.Shape(v) != nil && d.DType(v) != tensor.String
}

// Place assigns v memory of its own: t, to which runs write. It is kept from run to run.
func (f *Frame) Place(v *Value, t *tensor.Tensor) {
	f.places[v.ID], f.slots[v.ID+1], f.fixed[v.ID] = t, elementsOf(t), true
	if t.DType() == tensor.String {
		f.text = append(f.text, t)
	}
}

// PlaceText makes and assigns memory for v, a tensor of strings. The error is a *runtime.MemoryError.
func (f *Frame) PlaceText(v *Value) error {
	n, err := tensor.Size(f.Binding.Shape(v))
	if err != nil {
		return fmt.Errorf("value %s: %w", v.Name, err)
	}
	if err := f.Hold(bytesOf(n, int(unsafe.Sizeof(""))), "value "+v.Name+", with memory already held,"); err != nil {
		return err
	}
	f.Place(v, tensor.New(tensor.String, f.Binding.Shape(v)...))
	return nil
}

// PlaceOf returns the tensor with v's own memory, or nil.
func (f *Frame) PlaceOf(v *Value) *tensor.Tensor { return f.places[v.ID] }

// Begin takes the inputs of a run, and the tensors of outputs that are computed directly into the caller's memory:
// if out[i] is nil and output i is Direct, it is created. The error is a *runtime.MemoryError for an output that
// does not fit, or the error of a node that refuses the bound types. Begin, Finish and Store panic with an *ir.Ended
// when the context is done.
func (f *Frame) Begin(ctx context.Context, in, out []tensor.Datum) error {
	d := f.Binding
	if d.refusal != nil {
		return d.refusal
	}
	if f.memory.steps.Ctx = ctx; f.pause == nil {
		f.pause = f.memory.steps.Pause
	}
	f.memory.enter(f)
	f.out = out
	for i, d := range out {
		f.made[i] = d == nil
	}
	for i, v := range d.Program.Inputs {
		if d.Known(v) != nil { // in a subgraph: its content was known
			continue
		}
		f.data[v.ID] = in[i]
		if t, ok := in[i].(*tensor.Tensor); ok {
			f.slot(v, t)
		}
	}
	for i, v := range d.Program.Outputs {
		if !f.direct[i] {
			continue
		}
		if out[i] == nil {
			n, err := tensor.Size(d.Shape(v))
			if err != nil {
				return fmt.Errorf("output %q: %w", v.Name, err)
			}
			if err := f.take(int64(tensor.ByteSize(d.DType(v), n))); err != nil {
				return refused(err, "output "+v.Name)
			}
			out[i] = tensor.NewParts(f.pause, d.DType(v), d.Shape(v)...)
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %q: only tensors can be given to write to, found %T", v.Name, out[i])
		}
		if t.DType() != d.DType(v) || !slices.Equal(t.Shape(), d.Shape(v)) {
			return fmt.Errorf("output %q is %v%s, the tensor to write to is %s",
				v.Name, d.DType(v), tensor.ShapeString(d.Shape(v)), t)
		}
		f.data[v.ID], f.slots[v.ID+1] = t, elementsOf(t)
	}
	return nil
}

// slot lets kernels read t, if it has the bound type.
func (f *Frame) slot(v *Value, t *tensor.Tensor) {
	if t != nil && t.DType() == f.Binding.DType(v) {
		f.slots[v.ID+1] = elementsOf(t)
	}
}

// Direct reports whether output i is computed directly into the caller's memory: it is the first occurrence of a
// tensor of known shape, not of strings, that the program computes. It needs no memory of its own. Other outputs are
// copied when the run ends.
func (f *Frame) Direct(i int) bool { return f.direct[i] }

// Finish returns the outputs that are not Direct to the caller.
func (f *Frame) Finish(out []tensor.Datum) error {
	for i, v := range f.Binding.Program.Outputs {
		if f.direct[i] {
			continue
		}
		d := f.Datum(v)
		if out[i] == nil {
			var err error
			if out[i], err = f.result(v, d); err != nil {
				return err
			}
			continue
		}
		if err := runtime.Store(out, i, d, f.pause); err != nil {
			return fmt.Errorf("output %q %w", v.Name, err)
		}
	}
	return nil
}

// result returns an output in the form in which it leaves a run. For the caller, it shares no memory. For a
// subgraph, it shares none that its next run, or the source of its inputs, writes to. A value without known shape
// was passed or stored in that form.
func (f *Frame) result(v *Value, d tensor.Datum) (tensor.Datum, error) {
	if !f.Nested || f.Binding.Shape(v) != nil && f.Binding.Constant(v) == nil {
		if err := f.take(f.sizeOf(d)); err != nil {
			return nil, refused(err, "output "+v.Name)
		}
		return ops.CopyOf(&f.memory.steps, d), nil
	}
	return d, nil
}

// End drops the data of the run, successful or not.
func (f *Frame) End() {
	f.memory.leave(f)
	if f.out, f.control = nil, nil; !f.Nested {
		f.memory.steps.Ctx = nil
	}
	for i, fixed := range f.fixed {
		if !fixed {
			f.data[i], f.slots[i+1] = nil, elements{}
		}
	}
	for _, t := range f.text {
		clear(t.Strings())
	}
}

// Datum returns a value in the form of evaluations: a tensor or a sequence, or nil if there is none. Kernels use it
// for values whose type or shape is known only during the run; all others have slots.
func (f *Frame) Datum(v *Value) tensor.Datum {
	if t := f.places[v.ID]; t != nil {
		return t
	}
	return eval.Present(f.data[v.ID])
}

// Evaluate computes a step as ops defines it. The step must be one of the lowered program.
func (f *Frame) Evaluate(ctx context.Context, s *Step) error {
	d := f.Binding
	in := make([]tensor.Datum, len(s.Args()))
	for i, v := range s.Args() {
		if f.memory.steps.Step(20); v != nil {
			in[i] = f.Datum(v)
		}
	}
	var captured []tensor.Datum
	for _, c := range s.Captures {
		captured = append(captured, f.Datum(c.Outer))
	}
	res, err := d.Program.evaluate(ctx, s, in, captured, f.memory.budget)
	if err != nil {
		return refused(err, "its result")
	}
	for i, v := range s.Out {
		if f.memory.steps.Step(20); v == nil {
			continue
		}
		if err := f.Store(v, res[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	for _, v := range s.In {
		if f.memory.steps.Step(10); v == nil || f.fixed[v.ID] || d.Given(v) {
			continue
		}
		if last := d.Last(v); last < len(d.Program.Steps) && d.Program.Steps[last] == s { // no later step reads it
			f.data[v.ID], f.slots[v.ID+1] = nil, elements{}
		}
	}
	return nil
}

// Store keeps a result: copied to its memory, or as it is if it has none. It refuses data that do not have the bound
// type.
func (f *Frame) Store(v *Value, d tensor.Datum) error {
	t, isTensor := d.(*tensor.Tensor)
	if shape := f.Binding.Shape(v); shape != nil {
		if want := f.Binding.DType(v); !isTensor || t == nil || t.DType() != want || !slices.Equal(t.Shape(), shape) {
			return fmt.Errorf("expected %v%s, the operator returned %s", want, tensor.ShapeString(shape), tensor.Describe(d))
		}
	} else if tt, ok := v.Type.(*ir.TensorType); ok {
		if !isTensor || t == nil || t.DType() != tt.Elem || !tt.NoRank && t.Rank() != len(tt.Shape) {
			return fmt.Errorf("expected %v, the operator returned %s", tt, tensor.Describe(d))
		}
	}
	if f.Binding.Constant(v) != nil { // it is already there
		return nil
	}
	if w := f.written(v); w != nil {
		if t.DType() == tensor.String {
			if err := f.take(f.memory.lengths(t)); err != nil {
				return refused(err, v.Name)
			}
		}
		w.CopyParts(t, f.pause)
		return nil
	}
	o, err := f.Own(d)
	if err != nil {
		return err
	}
	if o == d { // a copy is charged
		if err := f.take(f.sizeOf(d)); err != nil {
			return refused(err, v.Name)
		}
	}
	f.Keep(v, o)
	return nil
}

// sizeOf is ops.SizeOf during a run, whose context ends it.
func (f *Frame) sizeOf(d tensor.Datum) int64 { return ops.SizeIn(&f.memory.steps, d) }

// lengths returns the bytes of the strings of t, without their headers.
func (m *memory) lengths(t *tensor.Tensor) int64 {
	var n int64
	for _, s := range ops.All(&m.steps, t.Strings()) {
		n += int64(len(s))
	}
	return n
}

// written returns the tensor that results of v are written to: in its own memory, or in the caller's. It returns nil
// if there is none.
func (f *Frame) written(v *Value) *tensor.Tensor {
	if t := f.places[v.ID]; t != nil {
		return t
	}
	if f.Binding.Leaves(v) && f.Binding.Placed(v) {
		t, _ := f.data[v.ID].(*tensor.Tensor) // since Begin
		return t
	}
	return nil
}

// Keep stores a result that has no memory of its own. It must not be in memory that is reused (Own), and must be
// charged (Take).
func (f *Frame) Keep(v *Value, d tensor.Datum) {
	f.data[v.ID] = d
	if t, ok := d.(*tensor.Tensor); ok {
		f.slot(v, t)
	}
}

// Own returns d, copied if it is in memory that is reused: Memory, other values' own memory, and, for a nested
// program, its inputs and outputs. The copy is charged to the run: the error is a *runtime.MemoryError.
func (f *Frame) Own(d tensor.Datum) (tensor.Datum, error) {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil && f.passing(d) {
			if err := f.take(f.sizeOf(d)); err != nil {
				return nil, refused(err, "a copy of "+d.String())
			}
			return d.CloneParts(f.pause), nil
		}
	case *tensor.Sequence:
		if d != nil {
			return f.ownItems(d)
		}
	case *tensor.Optional:
		if d != nil && d.Value != nil {
			if o, err := f.Own(d.Value); err != nil || o != d.Value {
				return &tensor.Optional{Value: o}, err
			}
		}
	}
	return d, nil
}

// ownItems is Own for a sequence.
func (f *Frame) ownItems(d *tensor.Sequence) (tensor.Datum, error) {
	steps := &f.memory.steps
	for i := range ops.Costly(steps, len(d.Items), 20) {
		item := d.Items[i]
		o, err := f.Own(item)
		if err != nil {
			return nil, err
		}
		if o == item {
			continue
		}
		if err := f.Take(ops.ItemSize*int64(len(d.Items)), "a copy of a sequence"); err != nil {
			return nil, err
		}
		c := &tensor.Sequence{Items: ops.Clone(steps, d.Items)}
		c.Items[i] = o
		for j := i + 1; j < len(c.Items); j++ {
			steps.Step(20)
			if c.Items[j], err = f.Own(c.Items[j]); err != nil {
				return nil, err
			}
		}
		return c, nil
	}
	return d, nil
}

// passing reports whether the memory of t's elements will be overwritten.
func (f *Frame) passing(t *tensor.Tensor) bool {
	if overlap(t.Bytes(), f.Memory) {
		return true
	}
	if !f.Nested {
		return false
	}
	for _, v := range f.Binding.Program.Values {
		w := f.places[v.ID]
		// an input, or an output that was computed directly
		if w == nil && f.Binding.Shape(v) != nil && f.Binding.Constant(v) == nil {
			w, _ = f.data[v.ID].(*tensor.Tensor)
		}
		if w != nil && (w == t || overlap(t.Bytes(), w.Bytes()) ||
			t.DType() == tensor.String && w.DType() == tensor.String) {
			return true
		}
	}
	return false
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}
