package irtext

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// attrs reads the attributes of a node, after the opening bracket.
func (p *parser) attrs(op *ir.Op) ir.Attrs {
	var out ir.Attrs
	p.each('>', func() {
		at := p.here()
		name := p.need("an attribute")
		var kind ir.AttrKind
		if i := slices.IndexFunc(op.Attrs, func(s ir.AttrSpec) bool { return s.Name == name }); i >= 0 {
			kind = op.Attrs[i].Kind
		}
		if p.accept(':') {
			at := p.here()
			word := p.need("the type of an attribute")
			var ok bool
			if kind, ok = kindOf(word); !ok {
				p.fail(at, "expected the type of an attribute, found %q", word)
			}
		}
		p.expect('=', "after attribute "+name)
		out = append(out, ir.Attr{Name: name, Value: p.attr(kind)})
		if p.err == nil && out[len(out)-1].Kind() == "" {
			p.fail(at, "attribute %q: expected a type, since the list is empty, found none", name)
		}
	})
	slices.SortStableFunc(out, func(a, b ir.Attr) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			p.fail(p.i, "expected each attribute once, found %q again", out[i].Name)
		}
	}
	return out
}

func kindOf(word string) (ir.AttrKind, bool) {
	for k, w := range kindNames {
		if w == word {
			return k, true
		}
	}
	return "", false
}

// attr reads a value of the given kind. If the kind is empty, the text decides.
func (p *parser) attr(kind ir.AttrKind) any {
	one, isList := strings.CutSuffix(string(kind), "s")
	if p.peek() != '[' {
		if isList {
			p.fail(p.i, "expected a list of %s, found %s", one, p.found())
			return nil
		}
		return p.single(kind)
	}
	if kind != "" && !isList {
		p.fail(p.i, "expected one %s, found a list", kind)
		return nil
	}
	p.i++
	var items []any
	p.each(']', func() {
		v := p.single(ir.AttrKind(one))
		items = append(items, v)
		one = string(ir.Attr{Value: v}.Kind())
	})
	switch ir.AttrKind(one) {
	case ir.AttrInt:
		return collect[int64](items)
	case ir.AttrFloat:
		return collect[float64](items)
	case ir.AttrString:
		return collect[string](items)
	case ir.AttrTensor:
		return collect[*tensor.Tensor](items)
	case ir.AttrGraph:
		return collect[*ir.Graph](items)
	case ir.AttrType:
		return collect[ir.Type](items)
	}
	return nil
}

// collect returns the items of type T; after an error some may lack it.
func collect[T any](items []any) []T {
	out := make([]T, 0, len(items))
	for _, x := range items {
		if v, ok := x.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

func (p *parser) single(kind ir.AttrKind) any {
	at := p.here()
	if kind == "" {
		kind = p.looksLike()
	}
	switch kind {
	case ir.AttrInt:
		return p.integer("a whole number")
	case ir.AttrFloat:
		s := p.number("a number")
		bits, err := parseFloat(s, 64)
		if err != nil {
			p.fail(at, "%w", err)
		}
		return math.Float64frombits(bits)
	case ir.AttrString:
		return p.str("a string")
	case ir.AttrType:
		return p.typ()
	case ir.AttrTensor:
		t := p.typ()
		p.name() // ONNX may name a tensor
		p.accept('=')
		return p.content(at, t)
	case ir.AttrGraph:
		return p.graph(false)
	}
	p.fail(at, "expected the value of an attribute, found %s", p.found())
	return nil
}

// looksLike guesses the kind of the next value, without reading past it.
func (p *parser) looksLike() ir.AttrKind {
	at := p.here()
	defer p.back(at)
	c := p.peek()
	switch {
	case c == '<':
		return ir.AttrGraph
	case c == '"':
		p.str("a string")
		if p.peek() == '(' {
			return ir.AttrGraph
		}
		return ir.AttrString
	case c == '@':
		p.fail(at, "expected a value, found a reference to the attribute of a function")
		return ""
	case isIdentByte(c, true):
		id := p.ident()
		switch low := strings.ToLower(id); {
		case low == "nan" && p.i+3 <= len(p.src) && string(p.src[p.i:p.i+3]) == "(0x",
			(low == "nan" || low == "inf" || low == "infinity") && p.peek() != '(':
			return ir.AttrFloat
		case !isTypeName(id) || p.peek() == '(' && isTensorName(id):
			return ir.AttrGraph
		}
		p.i = at
		if t := p.typ(); t == nil {
			return ""
		}
		if c := p.peek(); c == '{' || c == '=' || c == '"' || isIdentByte(c, true) {
			return ir.AttrTensor
		}
		return ir.AttrType
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		s := p.number("a number")
		if _, err := strconv.ParseInt(s, 10, 64); err == nil {
			return ir.AttrInt
		}
		return ir.AttrFloat
	}
	return ""
}

// back returns to an earlier place after a look ahead, unless there was an error.
func (p *parser) back(at int) {
	if p.err == nil {
		p.i = at
	}
}
