package lowering

import (
	"fmt"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
)

// Slot refers to the elements of a value in every Frame of a binding, in the type that the binding knows. A kernel
// requests it when it is bound, and reads the elements from the frame of each run, without type checks or
// allocation. The zero Slot is for an absent value, which has no elements.
type Slot[T tensor.Elem] struct{ index int }

// SlotOf returns the slot of v, a tensor of known shape and of element type T. It returns the zero Slot if v is nil,
// or an optional input that is absent. It panics for other values, because the kernel must check its bound types
// first.
func SlotOf[T tensor.Elem](d *Binding, v *Value) Slot[T] {
	return Slot[T]{d.slot(v, tensor.DTypeOf[T]())}
}

// Input returns the slot of input i of a step, or the zero Slot if it is absent.
func Input[T tensor.Elem](d *Binding, s *Step, i int) Slot[T] { return SlotOf[T](d, at(s.In, i)) }

// Output returns the slot of output i of a step, or the zero Slot if it is not wanted.
func Output[T tensor.Elem](d *Binding, s *Step, i int) Slot[T] { return SlotOf[T](d, at(s.Out, i)) }

// at returns value i of a list, or nil beyond its end.
func at(list []*Value, i int) *Value {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

// slot returns the index in Frame.slots of a value of the wanted type.
func (d *Binding) slot(v *Value, want tensor.DType) int {
	if v == nil || d.Missing(v) {
		return 0
	}
	if d.DType(v) != want {
		panic(fmt.Sprintf("lowering: value %s is bound as %v%v, a kernel asks for %v",
			v.Name, d.DType(v), d.Shape(v), want))
	}
	d.values[v.ID].slotted = true
	return v.ID + 1
}

// Absent reports whether s is the zero Slot.
func (s Slot[T]) Absent() bool { return s.index == 0 }

// In returns the elements in s during a run of f; for a result, the memory to write to.
func (s Slot[T]) In(f *Frame) []T { return *(*[]T)(unsafe.Pointer(&f.slots[s.index])) }

// Bytes is a slot whose elements are read as bytes, for kernels that only move them.
type Bytes struct{ index, bits int }

// BytesOf returns the slot of v, a tensor of known shape that is not of strings, as bytes. It panics for other
// values.
func BytesOf(d *Binding, v *Value) Bytes {
	t := d.DType(v)
	if t == tensor.Invalid || t == tensor.String {
		panic(fmt.Sprintf("lowering: value %s is bound as %v%v, a kernel asks for its bytes", v.Name, t, d.Shape(v)))
	}
	d.values[v.ID].slotted = true
	return Bytes{v.ID + 1, t.Bits()}
}

// In returns the bytes in b during a run of f.
func (b Bytes) In(f *Frame) []byte {
	e := &f.slots[b.index]
	return unsafe.Slice((*byte)(e.data), (e.len*b.bits+7)/8)
}

// elements is the elements of a value. Its memory layout is a slice of them: its length counts elements of the
// value's type; it is empty for strings.
type elements struct {
	data     unsafe.Pointer
	len, cap int
}

// elementsOf returns the elements of t.
func elementsOf(t *tensor.Tensor) elements {
	b := t.Bytes()
	if len(b) == 0 {
		return elements{}
	}
	n := t.Len()
	return elements{unsafe.Pointer(&b[0]), n, n}
}
