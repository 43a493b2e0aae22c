package ops

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Sig reads declarations of inputs or outputs of the form "name:elem[dims]". "?" follows an optional one, and "*"
// one that may occur any number of times. elem is an element type ("float64"), or a variable that starts with a
// capital letter. dims are numbers, names, expressions of names (outputs only), "_" for any number, and at most one
// "..." for any run of dimensions. A name means the same number throughout the signature, and "..." the same run.
// Without brackets the shape is arbitrary.
func Sig(params ...string) []ir.Param {
	out := make([]ir.Param, len(params))
	for i, s := range params {
		p := &out[i]
		name, rest, ok := strings.Cut(s, ":")
		if !ok {
			panic("ops.Sig: " + s)
		}
		p.Name = name
		if r, ok := strings.CutSuffix(rest, "*"); ok {
			rest, p.Variadic, p.Optional = r, true, true
		} else if r, ok := strings.CutSuffix(rest, "?"); ok {
			rest, p.Optional = r, true
		}
		p.Elem = rest
		if elem, dims, ok := strings.Cut(rest, "["); ok {
			p.Elem = elem
			p.Dims = []string{}
			for _, d := range splitDims(strings.TrimSuffix(dims, "]")) {
				if d = strings.TrimSpace(d); d != "" {
					p.Dims = append(p.Dims, d)
				}
			}
		}
	}
	return out
}

// splitDims splits at the commas outside parentheses.
func splitDims(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// Common sets of element types.
var (
	Floats = []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}
	Ints   = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16,
		tensor.Uint32, tensor.Uint64}
	Numbers = append(slices.Clone(Floats), Ints...)
	Any     = tensor.DTypes()
)

// Bindings maps the names in a signature to their values at one node.
type Bindings struct {
	Elem map[string]tensor.DType
	Dim  map[string]ir.Dim
	Rest ir.Shape // the dimensions for "..."
	// NoRank is set if the rank of an input is unknown.
	NoRank bool
}

// At returns the dimension of a name: unknown where no input of known rank has it.
func (b *Bindings) At(name string) ir.Dim {
	if d, ok := b.Dim[name]; ok {
		return d
	}
	return ir.Unknown
}

// Bind matches the node's inputs against its operator's signature. The error names the input that differs.
func Bind(n *ir.Node) (*Bindings, error) {
	b := &Bindings{Elem: map[string]tensor.DType{}, Dim: map[string]ir.Dim{}}
	hasRest := false
	for i, v := range n.Inputs {
		if n.Step(2); v == nil {
			continue
		}
		p := n.Op.In[min(i, len(n.Op.In)-1)]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("input %d (%s, value %s): %s", i, p.Name, v.Name, fmt.Sprintf(format, args...))
		}
		if _, opt := v.Type.(*ir.OptionalType); opt && !p.Optional {
			return nil, fail("may be absent, but the operator needs it")
		}
		t, ok := ir.AsTensor(v.Type)
		if !ok {
			return nil, fail("expected a tensor, found %v", v.Type)
		}
		if err := b.elem(n.Op, p, t.Elem); err != nil {
			return nil, fail("%v", err)
		}
		if p.Dims == nil {
			continue
		}
		if t.NoRank {
			b.NoRank = true
			continue
		}
		if err := b.dims(p.Dims, t.Shape, &hasRest); err != nil {
			return nil, fail("expected shape [%s], found %v%s", strings.Join(p.Dims, ","), t.Shape, err.Error())
		}
	}
	return b, nil
}

func isVar(elem string) bool { return elem != "" && elem[0] >= 'A' && elem[0] <= 'Z' }

func (b *Bindings) elem(op *ir.Op, p ir.Param, got tensor.DType) error {
	if !isVar(p.Elem) {
		if want, err := tensor.ParseDType(p.Elem); err != nil || want != got {
			return fmt.Errorf("expected %s, found %v", p.Elem, got)
		}
		return nil
	}
	allowed := op.Elems[p.Elem]
	if allowed == nil {
		allowed = Floats
	}
	if !slices.Contains(allowed, got) {
		return fmt.Errorf("element type %v is not among %v", got, allowed)
	}
	if want, ok := b.Elem[p.Elem]; ok && want != got {
		return fmt.Errorf("expected %v as for the inputs before, found %v", want, got)
	}
	b.Elem[p.Elem] = got
	return nil
}

func (b *Bindings) dims(want []string, got ir.Shape, hasRest *bool) error {
	rest := slices.Index(want, "...")
	if rest < 0 && len(want) != len(got) || rest >= 0 && len(got) < len(want)-1 {
		return fmt.Errorf("")
	}
	run := len(got) - len(want) + 1
	for i, j := 0, 0; i < len(want); i++ {
		if want[i] == "..." {
			r := got[j : j+run]
			j += run
			if *hasRest {
				if len(r) != len(b.Rest) {
					return fmt.Errorf(", where ... is %v", b.Rest)
				}
				for k := range r {
					if differ(r[k], b.Rest[k]) {
						return fmt.Errorf(", where ... is %v", b.Rest)
					}
				}
			}
			*hasRest, b.Rest = true, r
			continue
		}
		d := got[j]
		j++
		if want[i] == "_" {
			continue
		}
		e, err := parseDim(want[i])
		if err != nil {
			return err
		}
		if name, ok := e.Symbol(); ok {
			old, seen := b.Dim[name]
			if seen && differ(old, d) {
				return fmt.Errorf(", where %s is %v", name, old)
			}
			if _, known := d.Known(); !seen || known || old.IsUnknown() {
				b.Dim[name] = d
			}
			continue
		}
		if differ(e.Subst(b.Dim), d) {
			return fmt.Errorf(", where %s is %v", want[i], e.Subst(b.Dim))
		}
	}
	return nil
}

// parsed holds the dimensions that signatures are made of, by their text.
var parsed sync.Map

// parseDim reads a dimension of a signature.
func parseDim(s string) (ir.Dim, error) {
	if d, ok := parsed.Load(s); ok {
		return d.(ir.Dim), nil
	}
	d, err := ir.ParseDim(s)
	if err == nil {
		parsed.Store(s, d)
	}
	return d, err
}

// CheckShapes compares the shapes of data with the dimensions of an operator's signature. Types may not contain
// them, but evaluations rely on them. The error names the input that differs.
func CheckShapes(op *ir.Op, in []tensor.Datum) error {
	var names [12]string
	var sizes [12]int
	var rest []int
	known, anyRest := 0, false
	find := func(name string) int { return slices.Index(names[:known], name) }
	for i, d := range in {
		if len(op.In) == 0 {
			return nil
		}
		p := op.In[min(i, len(op.In)-1)]
		t, ok := d.(*tensor.Tensor)
		if p.Dims == nil || !ok || t == nil {
			continue
		}
		shape := t.Shape()
		fail := func() error {
			return fmt.Errorf("input %d (%s): expected shape [%s], found %v", i, p.Name, strings.Join(p.Dims, ","),
				shape)
		}
		run := len(shape) - len(p.Dims) + 1
		if dots := slices.Contains(p.Dims, "..."); run < 0 || !dots && run != 1 {
			return fail()
		}
		at := 0
		for _, want := range p.Dims {
			if want == "..." {
				r := shape[at : at+run]
				if anyRest && !slices.Equal(rest, r) {
					return fail()
				}
				rest, anyRest = r, true
				at += run
				continue
			}
			size := shape[at]
			at++
			if want == "_" {
				continue
			}
			e, err := parseDim(want)
			if err != nil {
				return err
			}
			if name, ok := e.Symbol(); ok {
				if k := find(name); k >= 0 && sizes[k] != size {
					return fail()
				} else if k < 0 && known < len(names) {
					names[known], sizes[known] = name, size
					known++
				}
				continue
			}
			if k, ok := e.Known(); ok {
				if int(k) != size {
					return fail()
				}
				continue
			}
			bind := map[string]int64{}
			for _, name := range e.Symbols() {
				if k := find(name); k >= 0 {
					bind[name] = int64(sizes[k])
				}
			}
			if k, err := e.Eval(bind); err == nil && int(k) != size {
				return fail()
			}
		}
	}
	return nil
}

// differ reports whether two dimensions are known and different.
func differ(a, b ir.Dim) bool {
	x, okx := a.Known()
	y, oky := b.Known()
	return okx && oky && x != y
}

// Outputs returns the output types of the signature.
func (b *Bindings) Outputs(op *ir.Op) ([]ir.Type, error) {
	out := make([]ir.Type, len(op.Out))
	for i, p := range op.Out {
		t := &ir.TensorType{Shape: make(ir.Shape, 0, len(p.Dims)+len(b.Rest))}
		if isVar(p.Elem) {
			t.Elem = b.Elem[p.Elem]
		} else {
			t.Elem, _ = tensor.ParseDType(p.Elem)
		}
		if t.Elem == tensor.Invalid {
			return nil, fmt.Errorf("output %d (%s): no input determines its element type", i, p.Name)
		}
		if p.Dims == nil {
			t.NoRank = true
		}
		for _, s := range p.Dims {
			if s == "..." {
				if b.NoRank {
					t.NoRank, t.Shape = true, nil
					break
				}
				t.Shape = append(t.Shape, b.Rest...)
				continue
			}
			e, err := parseDim(strings.ReplaceAll(s, "_", "?"))
			if err != nil {
				return nil, err
			}
			t.Shape = append(t.Shape, b.dim(e))
		}
		out[i] = t
	}
	return out, nil
}

// dim returns a dimension of an output: unknown where it depends on a name that no input has.
func (b *Bindings) dim(e ir.Dim) ir.Dim {
	if _, ok := e.Known(); ok {
		return e
	}
	if name, ok := e.Symbol(); ok {
		return b.At(name)
	}
	for _, name := range e.Symbols() {
		if _, ok := b.Dim[name]; !ok {
			return ir.Unknown
		}
	}
	return substKnown(e, b.Dim)
}

func substKnown(e ir.Dim, with map[string]ir.Dim) ir.Dim {
	for _, name := range e.Symbols() {
		if with[name].IsUnknown() {
			return ir.Unknown
		}
	}
	return e.Subst(with)
}

func inferSig(n *ir.Node) ([]ir.Type, error) {
	b, err := Bind(n)
	if err != nil {
		return nil, err
	}
	return b.Outputs(n.Op)
}
