package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// tensorProto is a TensorProto or a SparseTensorProto with its data still in the file.
type tensorProto struct {
	name     string
	dims     []int64
	dtype    int64
	typedNum protowire.Number // number of the field with typed data; 0: none
	typed    int              // number of its occurrences
	body     cursor           // the message
	raw      *cursor
	external []entryProto
	location int64
	segment  bool
	// The tensor is sparse, with these values and indices.
	sparse          bool
	values, indices *tensorProto
}

// maxRank bounds the dimensions of one tensor.
const maxRank = 64

func (p *parser) tensor(f field, sparse bool) (*tensorProto, error) {
	var c cursor
	if err := f.message(&c); err != nil {
		return nil, err
	}
	if err := spend(&p.values, p.budget.Values, "values"); err != nil {
		return nil, err
	}
	if sparse {
		return p.sparse(c)
	}
	return p.dense(c)
}

func (p *parser) dense(c cursor) (*tensorProto, error) {
	t := &tensorProto{body: c}
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			return t.dim(f)
		case 2:
			return f.int(&t.dtype)
		case 3:
			t.segment = true
		case 4, 5, 6, 7, 10, 11:
			if f.typ == protowire.BytesType && f.body.len() == 0 && f.num != 6 {
				return nil
			}
			if t.typedNum != 0 && t.typedNum != f.num {
				return fmt.Errorf("data in two fields, %s and %s", typedNames[t.typedNum], typedNames[f.num])
			}
			t.typedNum = f.num
			t.typed++
		case 8:
			return p.text(f, &t.name)
		case 9:
			return f.only(&t.raw)
		case 13:
			return p.entry(f, &t.external)
		case 14:
			return f.int(&t.location)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", quote(t.name), err)
	}
	return t, nil
}

func (t *tensorProto) dim(f field) error {
	return f.numbers(0, func(v uint64) error {
		if len(t.dims) == maxRank {
			return fmt.Errorf("more than %d dimensions", maxRank)
		}
		t.dims = append(t.dims, int64(v))
		return nil
	})
}

func (p *parser) sparse(c cursor) (*tensorProto, error) {
	t := &tensorProto{sparse: true}
	err := c.each(func(f field) (err error) {
		switch f.num {
		case 1:
			t.values, err = p.tensor(f, false)
		case 2:
			t.indices, err = p.tensor(f, false)
		case 3:
			err = t.dim(f)
		}
		return err
	})
	if err == nil && (t.values == nil || t.indices == nil) {
		err = errors.New("a sparse tensor needs values and indices")
	}
	if err != nil {
		return nil, err
	}
	t.name = t.values.name
	return t, nil
}

var typedNames = map[protowire.Number]string{4: "float_data", 5: "int32_data", 6: "string_data", 7: "int64_data",
	10: "double_data", 11: "uint64_data"}

// typedForm returns the form of elements of type d in a typed field: the field's number, the bytes of a value in the
// file (0: varints), and the bytes of the tensor in each value.
func typedForm(d tensor.DType) (num protowire.Number, wire, bytes int) {
	switch d {
	case tensor.Float32, tensor.Complex64:
		return 4, 4, 4
	case tensor.Float64, tensor.Complex128:
		return 10, 8, 8
	case tensor.Int64:
		return 7, 0, 8
	case tensor.Uint32, tensor.Uint64:
		return 11, 0, d.Bits() / 8
	case tensor.String:
		return 6, 0, 0
	}
	return 5, 0, max(1, d.Bits()/8) // several elements of a packed type share a value
}

// shape checks the dimensions, and returns them with the number of elements.
func (t *tensorProto) shape() ([]int, int, error) {
	shape := make([]int, len(t.dims))
	for i, d := range t.dims {
		if d < 0 {
			return nil, 0, fmt.Errorf("dimension %d is %d", i, d)
		}
		if shape[i] = int(d); int64(shape[i]) != d {
			return nil, 0, fmt.Errorf("dimension %d is %d: %w", i, d, tensor.ErrTooLarge)
		}
	}
	n, err := tensor.Size(shape)
	return shape, n, err
}

type decoded struct {
	t   *tensor.Tensor
	err error
}

// tensor decodes t. Results are cached, since the nodes of functions share their constants.
func (r *reader) tensor(t *tensorProto) (*tensor.Tensor, error) {
	if d, ok := r.known[t]; ok {
		return d.t, d.err
	}
	x, err := r.decode(t)
	if err != nil {
		err = fmt.Errorf("tensor %s: %w", quote(t.name), err)
	}
	r.known[t] = &decoded{x, err}
	return x, err
}

func (r *reader) decode(t *tensorProto) (*tensor.Tensor, error) {
	shape, n, err := t.shape()
	if err != nil {
		return nil, err
	}
	if t.sparse {
		return r.densify(t, shape, n)
	}
	d := tensor.DType(t.dtype)
	if t.dtype < 0 || t.dtype > 255 || !d.Valid() {
		return nil, fmt.Errorf("unknown element type %d", t.dtype)
	}
	if t.segment {
		return nil, errors.New("tensors in segments are not supported")
	}
	switch {
	case t.location == 1:
		if t.raw != nil && t.raw.len() > 0 || t.typed > 0 {
			return nil, errors.New("data in the model file and in an external file")
		}
		if d == tensor.String {
			return nil, errors.New("strings cannot be in an external file")
		}
		return r.external(t, d, shape, n)
	case t.location != 0:
		return nil, fmt.Errorf("unknown data location %d", t.location)
	case len(t.external) > 0:
		return nil, errors.New("names an external file, but its data location is the model file")
	case t.raw != nil && t.raw.len() > 0:
		if t.typed > 0 {
			return nil, fmt.Errorf("data in both raw_data and %s", typedNames[t.typedNum])
		}
		if d == tensor.String {
			return nil, errors.New("strings in raw_data")
		}
		if want := int64(tensor.ByteSize(d, n)); t.raw.len() != want {
			return nil, fmt.Errorf("%v%s needs %d bytes of raw_data, found %d", d, tensor.ShapeString(shape), want,
				t.raw.len())
		}
		if x := r.lazy.tensor(d, shape, t.raw.len(), t.raw.pos); x != nil {
			return x, nil
		}
		b, err := t.raw.aligned()
		if err != nil {
			return nil, err
		}
		return tensor.FromBytesParts(r.source.watch.Check, d, shape, b)
	}
	return t.fromTyped(d, shape, n)
}

func (t *tensorProto) fromTyped(d tensor.DType, shape []int, n int) (*tensor.Tensor, error) {
	num, wire, width := typedForm(d)
	if t.typed > 0 && t.typedNum != num {
		return nil, fmt.Errorf("%v data in %s, expected %s or raw_data", d, typedNames[t.typedNum], typedNames[num])
	}
	if d == tensor.String {
		if t.typed != n {
			return nil, fmt.Errorf("string%s needs %d strings, found %d", tensor.ShapeString(shape), n, t.typed)
		}
		s := make([]string, 0, n)
		err := t.eachTyped(func(f field) error {
			s = append(s, "")
			return f.raw(&s[len(s)-1])
		})
		if err != nil {
			return nil, err
		}
		return tensor.FromStrings(s, shape...), nil
	}
	size := tensor.ByteSize(d, n)
	var have int64
	err := t.eachTyped(func(f field) error {
		k, err := f.count(wire)
		have += k
		return err
	})
	if err != nil {
		return nil, err
	}
	if want := int64(size / width); have != want {
		return nil, fmt.Errorf("%v%s needs %d values in %s, found %d", d, tensor.ShapeString(shape), want,
			typedNames[num], have)
	}
	watch := t.body.src.watch
	b := tensor.AlignedParts(size, watch.Check)
	at := 0
	err = t.eachTyped(func(f field) error {
		if f.typ == protowire.BytesType && wire == width {
			k := int(f.body.len())
			err := f.body.src.read(b[at:at+k], f.body.pos)
			at += k
			return err
		}
		return f.numbers(wire, func(v uint64) error {
			if num == 5 && !fitsInt32(v, width) {
				return fmt.Errorf("value %d in int32_data does not fit %v", int64(v), d)
			}
			switch width {
			case 1:
				b[at] = byte(v)
			case 2:
				binary.LittleEndian.PutUint16(b[at:], uint16(v))
			case 4:
				binary.LittleEndian.PutUint32(b[at:], uint32(v))
			default:
				binary.LittleEndian.PutUint64(b[at:], v)
			}
			at += width
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return tensor.FromBytesParts(watch.Check, d, shape, b)
}

// eachTyped calls visit for the fields with typed data. It searches the file for them, since there may be one for each
// element, and a list of them would take many times the file's size.
func (t *tensorProto) eachTyped(visit func(f field) error) error {
	if t.typed == 0 {
		return nil
	}
	return t.body.each(func(f field) error {
		if f.num != t.typedNum || f.typ == protowire.BytesType && f.body.len() == 0 && f.num != 6 {
			return nil
		}
		return visit(f)
	})
}

// fitsInt32 reports whether the bits of an int32 value, signed or not, fit the given number of bytes.
func fitsInt32(v uint64, width int) bool {
	x, limit := int64(v), int64(1)<<(8*width)
	return x >= -limit/2 && x < limit
}

// charge subtracts n bytes from the budget.
func (r *reader) charge(n int64) error {
	limit := r.budget.Memory
	if !r.fixedMemory {
		limit = allowance(r.source.size + r.externalBytes)
	}
	if n > limit-r.memory {
		return fmt.Errorf("more than the budget for sparse and external tensors: %w",
			&files.LimitError{Size: r.memory + n, Limit: limit})
	}
	r.memory += n
	return nil
}

// densify returns a sparse tensor as a dense one.
func (r *reader) densify(t *tensorProto, shape []int, n int) (*tensor.Tensor, error) {
	values, err := r.tensor(t.values)
	if err != nil {
		return nil, err
	}
	indices, err := r.tensor(t.indices)
	if err != nil {
		return nil, err
	}
	d, count := values.DType(), values.Len()
	if values.Rank() != 1 || indices.DType() != tensor.Int64 || indices.Rank() < 1 || indices.Rank() > 2 ||
		indices.Dim(0) != count ||
		indices.Rank() == 2 && indices.Dim(1) != len(shape) {
		return nil, fmt.Errorf("a sparse tensor of shape %s with values %s and indices %s, which do not match",
			tensor.ShapeString(shape), values, indices)
	}
	size := int64(16 * n)
	if d != tensor.String {
		size = int64(tensor.ByteSize(d, n))
	}
	if err := r.charge(size); err != nil {
		return nil, err
	}
	out := tensor.NewParts(r.source.watch.Check, d, shape...)
	idx := tensor.Data[int64](indices)
	last := int64(-1)
	for k := range count {
		r.source.watch.Step(1)
		at := int64(0)
		if indices.Rank() == 1 {
			at = idx[k]
			if at < 0 || at >= int64(n) {
				return nil, fmt.Errorf("index %d is outside of %d elements", at, n)
			}
		} else {
			for i, d := range shape {
				x := idx[k*len(shape)+i]
				if x < 0 || x >= int64(d) {
					return nil, fmt.Errorf("index %d is outside of dimension %d, which is %d", x, i, d)
				}
				at = at*int64(d) + x
			}
			if n == 0 {
				return nil, fmt.Errorf("a value in an empty tensor")
			}
		}
		if at <= last {
			return nil, fmt.Errorf("indices are not in ascending order at value %d", k)
		}
		last = at
		copyElem(out, int(at), values, k)
	}
	return out, nil
}

// copyElem copies one element between tensors of the same type.
func copyElem(dst *tensor.Tensor, i int, src *tensor.Tensor, k int) {
	d := dst.DType()
	switch {
	case d == tensor.String:
		dst.Strings()[i] = src.Strings()[k]
	case d.Packed():
		w := d.Bits()
		v := src.Bytes()[k*w/8] >> (k * w % 8) & (1<<w - 1)
		dst.Bytes()[i*w/8] |= v << (i * w % 8)
	default:
		w := d.Bits() / 8
		copy(dst.Bytes()[i*w:(i+1)*w], src.Bytes()[k*w:])
	}
}
