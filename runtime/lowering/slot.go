package lowering

import (
	"fmt"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
)

// Slot is the place of a value in every Frame of a binding, in the type that the binding knows. A kernel asks for it
// when it is bound, and reads the elements from the frame of each run: without a look at types, and without allocation.
// The zero Slot is that of an absent value, which has no elements.
type Slot[T tensor.Elem] struct{ index int }

// SlotOf returns the slot of v, a tensor of known shape and of element type T; the zero Slot where v is nil, or an
// optional input that is not given. It panics for other values: the kernel has not looked at what it is bound to.
func SlotOf[T tensor.Elem](d *Binding, v *Value) Slot[T] {
	return Slot[T]{d.slot(v, tensor.DTypeOf[T]())}
}

// Input returns the slot of input i of a step; the zero Slot where that is absent.
func Input[T tensor.Elem](d *Binding, s *Step, i int) Slot[T] { return SlotOf[T](d, at(s.In, i)) }

// Output returns the slot of output i of a step; the zero Slot where nobody wants that.
func Output[T tensor.Elem](d *Binding, s *Step, i int) Slot[T] { return SlotOf[T](d, at(s.Out, i)) }

// at returns value i of a list; nil where it has none.
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

// In returns the elements that lie in s during a run of f: of a result, where to write them.
func (s Slot[T]) In(f *Frame) []T { return *(*[]T)(unsafe.Pointer(&f.slots[s.index])) }

// Bytes is a slot whose elements are read as bytes, whatever their type: for kernels that only move them.
type Bytes struct{ index, bits int }

// BytesOf returns the slot of v as bytes: of a tensor of known shape that is not of strings. It panics for other
// values.
func BytesOf(d *Binding, v *Value) Bytes {
	t := d.DType(v)
	if t == tensor.Invalid || t == tensor.String {
		panic(fmt.Sprintf("lowering: value %s is bound as %v%v, a kernel asks for its bytes", v.Name, t, d.Shape(v)))
	}
	d.values[v.ID].slotted = true
	return Bytes{v.ID + 1, t.Bits()}
}

// In returns the bytes that lie in b during a run of f.
func (b Bytes) In(f *Frame) []byte {
	e := &f.slots[b.index]
	return unsafe.Slice((*byte)(e.data), (e.len*b.bits+7)/8)
}

// elements is where the elements of a value lie. It is laid out as a slice of them: its length counts elements of the
// value's type, and none for strings.
type elements struct {
	data     unsafe.Pointer
	len, cap int
}

// elementsOf returns where the elements of t lie.
func elementsOf(t *tensor.Tensor) elements {
	b := t.Bytes()
	if len(b) == 0 {
		return elements{}
	}
	n := t.Len()
	return elements{unsafe.Pointer(&b[0]), n, n}
}
