package irtext

import (
	"fmt"
	"strconv"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func isTensorName(id string) bool {
	_, err := tensor.ParseDType(id)
	return err == nil
}

// isTypeName reports whether a type starts with the word id.
func isTypeName(id string) bool {
	switch id {
	case "seq", "optional", "map", "sparse_tensor", "opaque":
		return true
	}
	return isTensorName(id)
}

// typ reads a type; nil after an error.
func (p *parser) typ() ir.Type {
	defer func() { p.depth-- }()
	if !p.deeper() {
		return nil
	}
	at := p.here()
	id := p.ident()
	switch id {
	case "seq", "optional":
		p.expect('(', "behind "+id)
		elem := p.typ()
		p.expect(')', "after the type in "+id)
		if p.err != nil {
			return nil
		}
		if id == "seq" {
			return &ir.SequenceType{Elem: elem}
		}
		return &ir.OptionalType{Elem: elem}
	}
	d, err := tensor.ParseDType(id)
	if err != nil {
		p.i = at
		p.fail(at, "expected a type of a tensor, sequence or optional, found %s", p.found())
		return nil
	}
	t := &ir.TensorType{Elem: d, Shape: ir.Shape{}}
	if !p.accept('[') {
		return t
	}
	if p.accept(']') {
		t.NoRank = true
		return t
	}
	p.each(']', func() { t.Shape = append(t.Shape, p.dim()) })
	if p.err != nil {
		return nil
	}
	return t
}

// dim reads a dimension: a quoted one, or the text up to a comma or bracket outside parentheses.
func (p *parser) dim() ir.Dim {
	at := p.here()
	var s string
	if p.peek() == '"' {
		s = p.str("a dimension")
	} else {
		open := 0
	scan:
		for p.i < len(p.src) {
			switch p.src[p.i] {
			case '(':
				open++
			case ')':
				open--
			case ',', ']':
				if open <= 0 {
					break scan
				}
			case '\n', '"', '#':
				break scan
			}
			p.i++
		}
		s = string(p.src[at:p.i])
	}
	d, err := ir.ParseDim(s)
	if err != nil {
		p.fail(at, "%w", err)
	}
	return d
}

// content reads the elements of a constant of type t, from the text or from a file; nil after an error.
func (p *parser) content(at int, t ir.Type) *tensor.Tensor {
	if p.err != nil {
		return nil
	}
	tt, ok := t.(*ir.TensorType)
	if !ok || tt.NoRank {
		p.fail(at, "expected a tensor of known shape, found %v", t)
		return nil
	}
	shape, ok := tt.Shape.Known()
	if !ok {
		p.fail(at, "expected a tensor whose dimensions are numbers, found %v", t)
		return nil
	}
	n, err := tensor.Size(shape)
	if err != nil {
		p.fail(at, "%w", err)
		return nil
	}
	switch {
	case p.peek() == '[' && tt.Elem != tensor.String:
		return p.external(tt.Elem, shape, n)
	case p.peek() != '{':
		p.fail(p.i, "expected the elements of a tensor in {}, found %s", p.found())
		return nil
	case n > len(p.src)-p.i: // a small text must not allocate a large tensor
		p.fail(at, "expected %d elements of %v, found fewer", n, t)
		return nil
	}
	p.i++
	if tt.Elem == tensor.String {
		return p.strings(at, shape, n)
	}
	numbers := n * numbers(tt.Elem)
	data := tensor.AlignedParts(tensor.ByteSize(tt.Elem, n), p.watch.Check)
	i, what := 0, "an element of "+t.String()
	p.each('}', func() {
		at := p.here()
		s := p.number(what)
		if i >= numbers {
			p.fail(at, "expected %d numbers of %v, found more", numbers, t)
			return
		}
		if err := putNumber(tt.Elem, data, i, s); err != nil {
			p.fail(at, "%w", err)
		}
		i++
	})
	if i < numbers {
		p.fail(at, "expected %d numbers of %v, found %d", numbers, t, i)
	}
	if p.err != nil {
		return nil
	}
	return p.fromBytes(at, tt.Elem, shape, data)
}

func (p *parser) fromBytes(at int, d tensor.DType, shape []int, data []byte) *tensor.Tensor {
	t, err := tensor.FromBytesParts(p.watch.Check, d, shape, data)
	if err != nil {
		p.fail(at, "%w", err)
		return nil
	}
	return t
}

func (p *parser) strings(at int, shape []int, n int) *tensor.Tensor {
	v := []string{}
	p.each('}', func() { v = append(v, p.str("a string")) })
	if len(v) != n {
		p.fail(at, "expected %d strings, found %d", n, len(v))
	}
	if p.err != nil {
		return nil
	}
	return tensor.FromStrings(v, shape...)
}

// external reads the location of a constant outside the text, and then the constant. As in ONNX, the offset defaults
// to 0 and the length to the rest of the file. Other keys, such as checksum, are ignored.
func (p *parser) external(d tensor.DType, shape []int, n int) *tensor.Tensor {
	at := p.here()
	p.expect('[', "before the place of a constant")
	keys := map[string]string{}
	p.each(']', func() {
		k := p.str("a key")
		p.expect(':', "after the key")
		keys[k] = p.str("a value")
	})
	if p.err != nil {
		return nil
	}
	if err := tensor.CheckByteOrder(); err != nil {
		p.fail(at, "%w", err)
		return nil
	}
	size := int64(tensor.ByteSize(d, n))
	number := func(key string, def int64) int64 {
		s, ok := keys[key]
		if !ok {
			return def
		}
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 {
			p.fail(at, "expected a whole number for %s, found %q", key, s)
		}
		return v
	}
	offset, length := number("offset", 0), number("length", size)
	location := keys["location"]
	switch {
	case p.err != nil:
	case location == "":
		p.fail(at, "expected a location, found none")
	case length != size:
		p.fail(at, "expected %d bytes for %v%s, found length %d", size, d, tensor.ShapeString(shape), length)
	case p.open == nil:
		p.fail(at, "expected constants inside the text only, found one in %q", location)
	case size > p.budget.Data-p.data:
		p.fail(at, "constants beside the text: %w", &files.LimitError{Size: p.data + size, Limit: p.budget.Data})
	}
	if p.err != nil {
		return nil
	}
	p.data += size
	b, err := p.open(location, offset, length)
	if err == nil && int64(len(b)) != length {
		err = fmt.Errorf("%q gave %d bytes, expected %d", location, len(b), length)
	}
	if err != nil {
		p.fail(at, "%w", err)
		return nil
	}
	return p.fromBytes(at, d, shape, b)
}
