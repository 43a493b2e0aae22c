package lowering

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// Frame is the table of a binding's values while it runs. One executable has it: when it is bound, it gives values places of
// their own (View, Float32); each run begins with Begin and ends with End, and in between steps read and write what is in the
// places, or hand over data as they are (Datum, Store).
type Frame struct {
	// Binding is what runs.
	Binding *Binding
	// Float32 has, per value, the numbers of float32 tensors of known shape: of constants, of what lies in a place of its own, and
	// during a run of inputs and of outputs that are computed where the caller wants them.
	Float32 [][]float32
	// View has, per value with a place of its own, the tensor that lies there. Runs write to it; it stays from run to run.
	View []*tensor.Tensor
	// Data is all else, per value.
	Data []tensor.Datum
	// Memory is where views may lie on top of each other: a result that lies there is copied before it is kept.
	Memory []byte
	// Nested says that the program runs within another, which keeps its results for as long as it needs them.
	Nested bool
	// Held is the working memory of the executable in bytes, Memory included.
	Held int64

	first []int // per output: the one before it that is the same value; -1: none
}

// NewFrame makes a frame that holds what is known before any run. It gives no value a place.
func (d *Binding) NewFrame(nested bool) Frame {
	n := len(d.Program.Values)
	f := Frame{Binding: d, Nested: nested, Float32: make([][]float32, n), View: make([]*tensor.Tensor, n), Data: make([]tensor.Datum, n)}
	for _, v := range d.Program.Values {
		if t := d.Constant(v); t != nil {
			f.Data[v.ID] = t
			if t.DType() == tensor.Float32 {
				f.Float32[v.ID] = tensor.Data[float32](t)
			}
		}
	}
	for i, v := range d.Program.Outputs {
		f.first = append(f.first, slices.Index(d.Program.Outputs[:i], v))
	}
	return f
}

// Begin takes over the inputs of a run, and the tensors of outputs that are computed where the caller wants them: out[i] is made
// where it is nil and output i is Direct.
func (f *Frame) Begin(in, out []tensor.Datum) error {
	d := f.Binding
	for i, v := range d.Program.Inputs {
		if d.Known(v) != nil { // of a subgraph: its content was known
			continue
		}
		f.Data[v.ID] = in[i]
		if t, ok := in[i].(*tensor.Tensor); ok && d.IsFloat32(v) {
			f.Float32[v.ID] = tensor.Data[float32](t)
		}
	}
	for i, v := range d.Program.Outputs {
		if !f.Direct(i) {
			continue
		}
		if out[i] == nil {
			out[i] = tensor.New(tensor.Float32, d.Shape(v)...)
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("output %q: only tensors can be given to write to, found %T", v.Name, out[i])
		}
		f.Float32[v.ID], f.Data[v.ID] = tensor.Data[float32](t), t
	}
	return nil
}

// Direct reports whether output i is computed where the caller wants it: the first occurrence of a float32 tensor of known shape
// that the program computes. It needs no place of its own. Other outputs are copied when the run ends.
func (f *Frame) Direct(i int) bool {
	d := f.Binding
	v := d.Program.Outputs[i]
	return f.first[i] < 0 && d.Constant(v) == nil && d.IsFloat32(v) && !d.Given(v)
}

// Finish returns the caller the outputs that are not Direct.
func (f *Frame) Finish(out []tensor.Datum) error {
	for i, v := range f.Binding.Program.Outputs {
		if f.Direct(i) {
			continue
		}
		d := f.Datum(v)
		if out[i] == nil {
			out[i] = f.result(v, d)
			continue
		}
		if err := runtime.Store(out, i, d); err != nil {
			return fmt.Errorf("output %q %w", v.Name, err)
		}
	}
	return nil
}

// result returns an output as it leaves a run: to the caller it shares nothing; of a subgraph, nothing that its next run, or who gives
// it its inputs, writes to. What has no known shape was given or stored as such.
func (f *Frame) result(v *Value, d tensor.Datum) tensor.Datum {
	if !f.Nested || f.Binding.Shape(v) != nil && f.Binding.Constant(v) == nil {
		return clone(d)
	}
	return d
}

// End forgets the data of the run, whether it went well or not.
func (f *Frame) End() {
	for _, v := range f.Binding.Program.Values {
		if v.Const != nil || f.View[v.ID] != nil || f.Binding.Known(v) != nil {
			continue
		}
		f.Data[v.ID], f.Float32[v.ID] = nil, nil
	}
}

// Datum returns a value as evaluations see it: a tensor or a sequence, or nil where there is none.
func (f *Frame) Datum(v *Value) tensor.Datum {
	if t := f.View[v.ID]; t != nil {
		return t
	}
	return eval.Present(f.Data[v.ID])
}

// Evaluate computes a step as ops defines it. The step must be one of the program that was lowered.
func (f *Frame) Evaluate(ctx context.Context, s *Step) error {
	d := f.Binding
	in := make([]tensor.Datum, len(s.Args()))
	for i, v := range s.Args() {
		if v != nil {
			in[i] = f.Datum(v)
		}
	}
	var captured []tensor.Datum
	for _, c := range s.Captures {
		captured = append(captured, f.Datum(c.Outer))
	}
	res, err := d.Program.Evaluate(ctx, s, in, captured)
	if err != nil {
		return err
	}
	for i, v := range s.Out {
		if v == nil {
			continue
		}
		if err := f.Store(v, res[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	for _, v := range s.In {
		if v == nil || d.Constant(v) != nil || f.View[v.ID] != nil || d.Given(v) {
			continue
		}
		if last := d.Last(v); last < len(d.Program.Steps) && d.Program.Steps[last] == s { // nobody reads it again
			f.Data[v.ID] = nil
		}
	}
	return nil
}

// Store keeps a result: copied to its place, or as it is where it has none. It refuses what is not of the type that is bound.
func (f *Frame) Store(v *Value, d tensor.Datum) error {
	t, isTensor := d.(*tensor.Tensor)
	if shape := f.Binding.Shape(v); f.Binding.IsFloat32(v) {
		if !isTensor || t == nil || t.DType() != tensor.Float32 || !slices.Equal(t.Shape(), shape) {
			return fmt.Errorf("expected float32%s, the operator gave %v", tensor.ShapeString(shape), d)
		}
		copy(f.Float32[v.ID], tensor.Data[float32](t))
		return nil
	}
	if w := f.View[v.ID]; w != nil {
		if !isTensor || t == nil || t.DType() != w.DType() || !slices.Equal(t.Shape(), w.Shape()) {
			return fmt.Errorf("expected %v, the operator gave %v", w, d)
		}
		copy(w.Bytes(), t.Bytes())
		copy(w.Strings(), t.Strings())
		return nil
	}
	if tt, ok := v.Type.(*ir.TensorType); ok {
		if !isTensor || t == nil || t.DType() != tt.Elem || !tt.NoRank && t.Rank() != len(tt.Shape) {
			return fmt.Errorf("expected %v, the operator gave %v", tt, d)
		}
	}
	f.Data[v.ID] = f.Own(d)
	return nil
}

// Own returns d, copied where it lies in memory that is used again: Memory, and what else has a place of its own; and of a nested
// program, its inputs and outputs.
func (f *Frame) Own(d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil && f.passing(d) {
			return d.Clone()
		}
	case *tensor.Sequence:
		if d != nil {
			for i, item := range d.Items {
				if o := f.Own(item); o != item {
					c := &tensor.Sequence{Items: slices.Clone(d.Items)}
					for j := i; j < len(c.Items); j++ {
						c.Items[j] = f.Own(c.Items[j])
					}
					return c
				}
			}
		}
	case *tensor.Optional:
		if d != nil && d.Value != nil {
			if o := f.Own(d.Value); o != d.Value {
				return &tensor.Optional{Value: o}
			}
		}
	}
	return d
}

// passing reports whether other elements will stand where t's are.
func (f *Frame) passing(t *tensor.Tensor) bool {
	if overlap(t.Bytes(), f.Memory) {
		return true
	}
	if !f.Nested {
		return false
	}
	for _, v := range f.Binding.Program.Values {
		w := f.View[v.ID]
		if w == nil && f.Binding.Shape(v) != nil && f.Binding.Constant(v) == nil { // an input, or an output that lies where it was asked for
			w, _ = f.Data[v.ID].(*tensor.Tensor)
		}
		if w != nil && (w == t || overlap(t.Bytes(), w.Bytes()) || t.DType() == tensor.String && w.DType() == tensor.String) {
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

// clone copies a datum with its storage.
func clone(d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil {
			return d.Clone()
		}
	case *tensor.Sequence:
		if d != nil {
			c := &tensor.Sequence{Items: make([]tensor.Datum, len(d.Items))}
			for i, item := range d.Items {
				c.Items[i] = clone(item)
			}
			return c
		}
	case *tensor.Optional:
		if d != nil {
			return &tensor.Optional{Value: clone(d.Value)}
		}
	}
	return nil
}

// Afford refuses more bytes than the executable may hold beside what it holds already.
func (f *Frame) Afford(bytes int64, what string) error {
	if need, limit := f.Held+bytes, MemoryLimit(f.Binding.Program.Config.MaxMemory); need > limit {
		return &runtime.MemoryError{Need: need, Limit: limit, What: what}
	}
	return nil
}

// MemoryLimit is how many bytes an executable may hold: as many as were asked for (runtime.Config.MaxMemory), or as the machine
// has, where that is known.
func MemoryLimit(asked int64) int64 { return memoryLimit(asked, ram.Total()) }

func memoryLimit(asked, machine int64) int64 {
	switch {
	case asked > 0:
		return asked
	case machine > 0:
		return min(machine, mostBytes)
	}
	return mostBytes
}
