package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// dimNames maps the names of dimensions in the file to symbols, one to one.
type dimNames struct {
	of    map[string]ir.Dim // by name in the file
	taken map[string]string // from symbols to names in the file
	plain map[string]bool   // names of single dimensions of inputs
}

func newDimNames() *dimNames {
	return &dimNames{of: map[string]ir.Dim{}, taken: map[string]string{}, plain: map[string]bool{}}
}

// maxSymbol bounds the length of a symbol.
const maxSymbol = 64

// dim returns the dimension for a name: a symbol or, if the name is an expression of symbols of inputs, as torch's
// exporter writes them, that expression.
func (n *dimNames) dim(name string) ir.Dim {
	if name == "" || name == "?" {
		return ir.Unknown
	}
	if d, ok := n.of[name]; ok {
		return d
	}
	d, err := ir.ParseDim(name)
	_, plain := d.Symbol()
	if _, known := d.Known(); err != nil || plain || known || d.IsUnknown() || !n.inputs(d) {
		d = ir.Sym(n.symbol(name))
	}
	n.of[name] = d
	return d
}

// inputs reports whether all symbols of d are dimensions of inputs.
func (n *dimNames) inputs(d ir.Dim) bool {
	return !slices.ContainsFunc(d.Symbols(), func(s string) bool { return !n.plain[s] })
}

// symbol converts a name to one that ir.ParseDim reads as one symbol.
func (n *dimNames) symbol(name string) string {
	var b strings.Builder
	for i := 0; i < len(name) && b.Len() < maxSymbol; i++ {
		c := name[i]
		switch {
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		case c >= '0' && c <= '9' || c == '.':
			if b.Len() == 0 {
				b.WriteByte('_')
			}
		default:
			c = '_'
		}
		b.WriteByte(c)
	}
	base := b.String()
	s := base
	for i := 1; ; i++ {
		if other, ok := n.taken[s]; !ok || other == name {
			break
		}
		s = base + "_" + strconv.Itoa(i)
	}
	n.taken[s] = name
	return s
}

var errMap = errors.New("maps are supported as inputs that a DictVectorizer or CastMap reads, and as outputs of a " +
	"ZipMap")

// typeOf reads a TypeProto. A dimension without value and name is unknown. A tensor without shape has no rank.
func (r *reader) typeOf(c cursor, depth int) (ir.Type, error) {
	if depth > r.budget.Depth {
		return nil, fmt.Errorf("types are nested deeper than %d", r.budget.Depth)
	}
	var out ir.Type
	err := c.each(func(f field) error {
		if f.num == 6 { // denotation
			return nil
		}
		if out != nil {
			return errors.New("a type is stated twice")
		}
		var m cursor
		if err := f.message(&m); err != nil {
			return err
		}
		switch f.num {
		case 1:
			t, err := r.tensorType(m)
			if err == nil {
				out = t
			}
			return err
		case 4, 9:
			elem, err := r.elemType(m, depth)
			if err != nil {
				return err
			}
			if out = (&ir.SequenceType{Elem: elem}); f.num == 9 {
				out = &ir.OptionalType{Elem: elem}
			}
			return nil
		case 5:
			return errMap
		case 7:
			return errors.New("opaque types are not supported")
		case 8:
			return errors.New("sparse tensors are supported as constants only")
		}
		return nil
	})
	return out, err
}

func (r *reader) elemType(c cursor, depth int) (ir.Type, error) {
	var elem *cursor
	err := c.each(func(f field) error {
		if f.num == 1 {
			return f.only(&elem)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if elem == nil {
		return nil, errors.New("a sequence or optional has no element type")
	}
	t, err := r.typeOf(*elem, depth+1)
	if err == nil && t == nil {
		err = errors.New("a sequence or optional has no element type")
	}
	return t, err
}

func (r *reader) tensorType(c cursor) (*ir.TensorType, error) {
	t := &ir.TensorType{NoRank: true}
	var shape *cursor
	err := c.each(func(f field) error {
		switch f.num {
		case 1:
			var e int64
			if err := f.int(&e); err != nil {
				return err
			}
			if e < 1 || e > 255 || !tensor.DType(e).Valid() {
				return fmt.Errorf("unknown element type %d", e)
			}
			t.Elem = tensor.DType(e)
		case 2:
			return f.only(&shape)
		}
		return nil
	})
	if err == nil && t.Elem == tensor.Invalid {
		err = errors.New("a tensor has no element type")
	}
	if err != nil || shape == nil {
		return t, err
	}
	t.NoRank, t.Shape = false, ir.Shape{}
	var fixed []int
	err = shape.each(func(f field) error {
		if f.num != 1 {
			return nil
		}
		if len(t.Shape) == maxRank {
			return fmt.Errorf("more than %d dimensions", maxRank)
		}
		var m cursor
		if err := f.message(&m); err != nil {
			return err
		}
		d := ir.Unknown
		err := m.each(func(f field) error {
			switch f.num {
			case 1:
				var n int64
				if err := f.int(&n); err != nil {
					return err
				}
				if n == -1 { // see the package comment
					d = ir.Unknown
					r.minusOnes++
					return nil
				}
				if n < 0 {
					return fmt.Errorf("dimension %d is %d, expected 0 or more, or -1 for an open one", len(t.Shape), n)
				}
				if int64(int(n)) != n {
					return fmt.Errorf("dimension %d is %d: %w", len(t.Shape), n, tensor.ErrTooLarge)
				}
				d = ir.Const(n)
				fixed = append(fixed, int(n))
			case 2:
				s, err := f.name(&r.words)
				if err != nil {
					return err
				}
				d = r.dims.dim(s)
			}
			return nil
		})
		t.Shape = append(t.Shape, d)
		return err
	})
	if err == nil {
		_, err = tensor.Size(fixed)
	}
	return t, err
}

// refine adds to an inferred type the rank of a compatible declared type and, if fixed is set, its numeric dimensions.
// In models with open dimensions, declared names and numbers are not trusted, since exporters often left the sizes of a
// sample there.
func refine(have, declared ir.Type, fixed bool) ir.Type {
	h, ok1 := have.(*ir.TensorType)
	d, ok2 := declared.(*ir.TensorType)
	if !ok1 || !ok2 || d.NoRank {
		return have
	}
	t := &ir.TensorType{Elem: h.Elem, Shape: slices.Clone(h.Shape)}
	if h.NoRank {
		t.Shape = make(ir.Shape, len(d.Shape))
		for i := range t.Shape {
			t.Shape[i] = ir.Unknown
		}
	}
	for i := range t.Shape {
		if _, known := d.Shape[i].Known(); known && fixed && t.Shape[i].IsUnknown() {
			t.Shape[i] = d.Shape[i]
		}
	}
	return t
}

// loosen removes the shapes of elements of sequences and optionals. For the bodies of loops, exporters declare the
// shapes of the first iteration.
func loosen(t ir.Type) ir.Type {
	switch t := t.(type) {
	case *ir.SequenceType:
		return &ir.SequenceType{Elem: withoutShape(t.Elem)}
	case *ir.OptionalType:
		return &ir.OptionalType{Elem: withoutShape(t.Elem)}
	}
	return t
}

func withoutShape(t ir.Type) ir.Type {
	if t, ok := t.(*ir.TensorType); ok {
		return &ir.TensorType{Elem: t.Elem, NoRank: true}
	}
	return loosen(t)
}

// Common names of dimensions, in lower case.
var (
	batchNames = []string{"b", "n", "bs", "batch", "batchsize", "batch_size", "batch_dim", "nbatch", "num_batch"}
	timeNames  = []string{"l", "t", "time", "seq", "sequence", "seq_len", "seqlen", "seq_length", "sequence_length",
		"length", "len", "time_steps", "timesteps", "steps", "frames", "num_frames", "samples", "num_samples"}
)

// MarkDims records which symbols of the first input with symbols are time and batch, if their names are evident and
// the graph does not state it. Read calls it. Other callers need it only after they have named dimensions.
func MarkDims(g *ir.Graph) {
	for _, v := range g.Inputs {
		var batch, time []string
		for _, d := range v.Shape() {
			s, ok := d.Symbol()
			if !ok {
				continue
			}
			if low := strings.ToLower(s); slices.Contains(batchNames, low) {
				batch = append(batch, s)
			} else if slices.Contains(timeNames, low) {
				time = append(time, s)
			}
		}
		if len(batch)+len(time) == 0 {
			continue
		}
		set := func(key string, found []string) {
			if _, ok := g.Meta[key]; !ok && len(found) == 1 {
				g.Meta[key] = found[0]
			}
		}
		set(ir.MetaBatch, batch)
		set(ir.MetaTime, time)
		return
	}
}
