package microsoft

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Marks of the beginning and the end of a text.
const (
	textStart = "\x02"
	textEnd   = "\x03"
)

// Tokenizer splits texts.
var Tokenizer = ops.Register(&ir.Op{
	Domain: Domain, Name: "Tokenizer",
	Doc: "The tokens of each string of X (C) or (N,C) on a new last axis, padded with pad_value. Tokens are what " +
		"tokenexp matches; or lie between what separators match, one after the other; or are single characters, if " +
		"the only separator is empty. Expressions are in RE2's syntax, and match as much as they can. Tokens of " +
		"fewer than mincharnum characters are left out. mark puts U+0002 before and U+0003 behind the tokens.",
	In: ops.Sig("X:string[...]"), Out: ops.Sig("Y:string[...,_]"),
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("mark", nil, "whether texts begin and end with marks")),
		ops.Required(ops.IntSpec("mincharnum", nil, "least number of characters of a token, 1 or more")),
		ops.Required(ops.Spec("pad_value", ir.AttrString, "fills the rows of shorter texts")),
		ops.Spec("separators", ir.AttrStrings, "expressions that separate tokens"),
		ops.Spec("tokenexp", ir.AttrString, "expression of a token")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := splitterOf(n); err != nil {
			return nil, err
		}
		t, ok := ir.AsTensor(n.In(0).Type)
		if !ok || t.Elem != tensor.String {
			return nil, fmt.Errorf("input 0 (X): expected strings, found %v", n.In(0).Type)
		}
		if t.NoRank {
			return []ir.Type{t}, nil
		}
		if r := len(t.Shape); r != 1 && r != 2 {
			return nil, fmt.Errorf("input 0 (X): expected one or two axes, found %v", t)
		}
		return []ir.Type{&ir.TensorType{Elem: tensor.String,
			Shape: append(append(ir.Shape{}, t.Shape...), ir.Unknown)}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		if x == nil || x.DType() != tensor.String || x.Rank() != 1 && x.Rank() != 2 {
			return nil, fmt.Errorf("input 0 (X): expected strings with one or two axes, found %s", x)
		}
		s, err := splitterOf(c.Node)
		if err != nil {
			return nil, err
		}
		most, rows := 0, ops.Make[[]string](c, x.Len())
		for i, text := range ops.All(c, x.Strings()) {
			if len(text) > mostText {
				return nil, fmt.Errorf("input 0 (X): a string of %d bytes, more than %d", len(text), mostText)
			}
			if !validText(c, text) {
				return nil, fmt.Errorf("input 0 (X): string %d is not in UTF-8", i)
			}
			if rows[i], err = s.tokens(c, text); err != nil {
				return nil, err
			}
			most = max(most, len(rows[i]))
		}
		shape := append(append([]int{}, x.Shape()...), most)
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		out := ops.Make[string](c, size)
		for i, row := range ops.All(c, rows) {
			part := out[i*most : (i+1)*most]
			ops.Put(c, part, row)
			for k := range ops.All(c, part[len(row):]) {
				part[len(row)+k] = s.pad
			}
		}
		return ops.One(tensor.FromStrings(out, shape...), nil)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact { // the length of the new axis depends on all strings
		return []ir.Fact{ops.Global(n, in)}
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		bytes, size := ops.Count(n.In(0), bind), int64(1)
		if t := n.In(0).Const; t != nil {
			bytes += ops.SizeOf(t)
		}
		for _, s := range append(n.Attrs.Strs("separators", nil), ops.Str(n, "tokenexp")) {
			size += int64(len(s))
		}
		return ops.Stated(n, bind, ops.Product(16, bytes, size))
	},
	Tol: ir.Exact,
})

// splitter are the attributes of a Tokenizer.
type splitter struct {
	mark  bool
	least int
	pad   string
	chars bool
	apart []*expression
	token *expression
}

// expression is a regular expression. One that looks behind (^, \b) depends on the letter before what it matches.
type expression struct {
	*regexp.Regexp
	behind bool
}

func newExpression(text string) (*expression, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	re.Longest()
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return &expression{re, looksBehind(parsed)}, nil
}

func looksBehind(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, looksBehind)
}

func splitterOf(n *ir.Node) (*splitter, error) {
	s := &splitter{mark: ops.Int(n, "mark") != 0, pad: ops.Str(n, "pad_value")}
	least := ops.Int(n, "mincharnum")
	if least < 1 || least > ops.MaxElems {
		return nil, fmt.Errorf("mincharnum: expected 1 or more, found %d", least)
	}
	s.least = int(least)
	apart, token := n.Attrs.Strs("separators", nil), ops.Str(n, "tokenexp")
	switch {
	case (len(apart) == 0) == (token == ""):
		return nil, errors.New("expected either separators or tokenexp")
	case len(apart) == 1 && apart[0] == "":
		if s.chars = true; least != 1 {
			return nil, fmt.Errorf("mincharnum: expected 1 for tokens of one character, found %d", least)
		}
		return s, nil
	case token != "":
		apart = []string{token}
	}
	for _, e := range apart {
		if e == "" {
			return nil, errors.New("separators: expected an empty one to be the only one")
		}
		re, err := newExpression(e)
		if err != nil {
			return nil, err
		}
		s.apart = append(s.apart, re)
	}
	if token != "" {
		s.apart, s.token = nil, s.apart[0]
	}
	return s, nil
}

// mostText bounds texts. Where an expression looks behind, mostBehind does: it is matched without checks of the
// context.
const mostText, mostBehind = 1 << 24, 1 << 16

// validText is utf8.ValidString.
func validText(c *ir.EvalCtx, s string) bool {
	for s != "" {
		n := min(len(s), ir.Pace)
		for n < len(s) && n < ir.Pace+utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n++
		}
		c.Step(n)
		if !utf8.ValidString(s[:n]) {
			return false
		}
		s = s[n:]
	}
	return true
}

// atLeast reports whether s has n letters or more.
func atLeast(c *ir.EvalCtx, s string, n int) bool {
	if n <= 1 || len(s) < n || len(s) >= utf8.UTFMax*n {
		return len(s) >= n
	}
	for i := range len(s) {
		if c.Step(1); utf8.RuneStart(s[i]) {
			n--
		}
	}
	return n <= 0
}

// tokens returns the tokens of a text, with the marks.
func (s *splitter) tokens(c *ir.EvalCtx, text string) ([]string, error) {
	var out []string
	add := func(token string) {
		if c.Step(8); atLeast(c, token, s.least) {
			out = ops.Append(c, out, token)
		}
	}
	c.Step(32)
	if s.mark {
		out = ops.Append(c, out, textStart)
	}
	var err error
	switch {
	case s.chars:
		for i, w := 0, 0; i < len(text); i += w {
			_, w = utf8.DecodeRuneInString(text[i:])
			add(text[i : i+w])
		}
	case s.token != nil:
		err = s.token.each(c, text, func(from, to int) { add(text[from:to]) })
	default:
		err = s.between(c, text, s.apart, add)
	}
	if s.mark {
		out = ops.Append(c, out, textEnd)
	}
	return out, err
}

// between adds the parts of a text between what separators match, each part separated by the next separators.
func (s *splitter) between(c *ir.EvalCtx, text string, apart []*expression, add func(string)) error {
	if len(text) < s.least {
		return nil
	}
	if len(apart) == 0 {
		add(text)
		return nil
	}
	at := 0
	var inner error
	err := apart[0].each(c, text, func(from, to int) {
		if inner == nil {
			inner = s.between(c, text[at:from], apart[1:], add)
		}
		at = to
	})
	if err == nil && inner == nil {
		inner = s.between(c, text[at:], apart[1:], add)
	}
	return cmp.Or(err, inner)
}

// each calls f for what the expression matches: as regexp.Regexp.FindAllStringIndex, with checks of the context.
func (e *expression) each(c *ir.EvalCtx, text string, f func(from, to int)) error {
	const short = ir.Pace / 16
	if len(text) <= short || e.behind {
		if len(text) > mostBehind {
			return fmt.Errorf("input 0 (X): a string of %d bytes, more than %d for an expression with ^ or \\b",
				len(text), mostBehind)
		}
		c.Step(16*len(text) + 32)
		size := int64(64 * (len(text) + 1))
		c.Charge(size)
		for _, m := range e.FindAllStringIndex(text, -1) {
			f(m[0], m[1])
		}
		c.Discharge(c.Charged() - size)
		return nil
	}
	for at, end := 0, -1; at <= len(text); {
		m := e.FindReaderIndex(ops.Runes(c, text[at:]))
		if m == nil {
			return nil
		}
		from, to := at+m[0], at+m[1]
		if to > at {
			at = to
		} else { // an empty match: not right behind another one
			_, size := utf8.DecodeRuneInString(text[at:])
			at += max(1, size)
		}
		if from < to || from != end {
			f(from, to)
		}
		end = to
	}
	return nil
}
