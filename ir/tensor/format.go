package tensor

import (
	"fmt"
	"strconv"
	"strings"
)

// String describes the tensor without its elements: "float32[2,3]". %v also prints elements (see Format).
func (t *Tensor) String() string { return t.dtype.String() + ShapeString(t.shape) }

// Format prints a tensor. %v prints the element type, the shape and the elements in nested brackets, as in
// "float32[2,2] [[1 0.5] [-3 4]]", and shortens it: if there are more than 64 elements, only the first and last three
// along each axis are printed. %s and other verbs print no elements, as String does.
func (t *Tensor) Format(f fmt.State, verb rune) {
	var b strings.Builder
	b.WriteString(t.String())
	if verb == 'v' {
		b.WriteByte(' ')
		t.appendElements(&b)
	}
	_, _ = f.Write([]byte(b.String())) // a State keeps its errors
}

const (
	maxPrinted  = 64 // elements that %v prints in full
	maxNested   = 5  // axes that are printed as nested brackets
	maxText     = 32 // bytes of a string that are printed
	edgePrinted = 3  // elements at both ends of an axis that is shortened
)

// appendElements writes the elements as %v prints them.
func (t *Tensor) appendElements(b *strings.Builder) {
	shape := t.shape
	if len(shape) > maxNested {
		shape = []int{t.Len()}
	}
	edge := max(t.Len(), 1)
	if edge > maxPrinted {
		for edge = edgePrinted; edge > 1 && printed(shape, edge) > maxPrinted; edge-- {
		}
	}
	t.appendAxis(b, shape, 0, edge)
}

// printed is the number of elements that are printed with an edge.
func printed(shape []int, edge int) int {
	n := 1
	for _, d := range shape {
		n *= min(d, 2*edge)
	}
	return n
}

// appendAxis writes the elements of the first axis of shape, from element number from on.
func (t *Tensor) appendAxis(b *strings.Builder, shape []int, from, edge int) {
	if len(shape) == 0 {
		b.WriteString(t.element(from))
		return
	}
	n, stride := shape[0], 1
	for _, d := range shape[1:] {
		stride *= d
	}
	b.WriteByte('[')
	for i := 0; i < n; i++ {
		if i > 0 {
			b.WriteByte(' ')
		}
		if n > 2*edge && i == edge {
			b.WriteString("… ")
			i = n - edge
		}
		t.appendAxis(b, shape[1:], from+i*stride, edge)
	}
	b.WriteByte(']')
}

// element is the text of element i.
func (t *Tensor) element(i int) string {
	switch {
	case t.dtype == String:
		s := t.strs[i]
		if len(s) > maxText {
			s = s[:maxText] + "…"
		}
		return strconv.Quote(s)
	case t.dtype == Bool:
		return strconv.FormatBool(t.Bytes()[i] != 0)
	case t.dtype == Int64:
		return strconv.FormatInt(Data[int64](t)[i], 10)
	case t.dtype == Uint64:
		return strconv.FormatUint(Data[uint64](t)[i], 10)
	case t.dtype == Complex64:
		return strconv.FormatComplex(complex128(Data[complex64](t)[i]), 'g', -1, 64)
	case t.dtype == Complex128:
		return strconv.FormatComplex(Data[complex128](t)[i], 'g', -1, 128)
	}
	var x [1]float64
	if err := t.ReadFloat64s(x[:], i); err != nil {
		return "?"
	}
	bits := 32
	if t.dtype == Float64 {
		bits = 64
	}
	return strconv.FormatFloat(x[0], 'g', -1, bits)
}

// Describe returns what d is, for messages: "float32[2,3]", "a sequence of 4", "nothing".
func Describe(d Datum) string {
	switch d := d.(type) {
	case *Tensor:
		if d != nil {
			return d.String()
		}
	case *Sequence:
		if d != nil {
			return fmt.Sprintf("a sequence of %d", len(d.Items))
		}
	case *Optional:
		if d != nil {
			return Describe(d.Value)
		}
	}
	return "nothing"
}
