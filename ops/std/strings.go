package std

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// stringsIn returns an input that must be a tensor of strings.
func stringsIn(in []tensor.Datum, i int, what string) (*tensor.Tensor, error) {
	t, err := need(in, i, what)
	if err == nil && t.DType() != tensor.String {
		err = fmt.Errorf("%s: expected strings, found %s", what, t)
	}
	return t, err
}

// StringConcat concatenates pairs of strings.
var StringConcat = ops.Register(&ir.Op{
	Name: "StringConcat", Since: 20, Doc: "Each string of X followed by the string of Y, with broadcasting.",
	In: ops.Sig("X:string", "Y:string"), Out: ops.Sig("Z:string"),
	Infer: inferBroadcast(elemIs(tensor.String)),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := stringsIn(in, 0, "X")
		if err != nil {
			return nil, err
		}
		y, err := stringsIn(in, 1, "Y")
		if err != nil {
			return nil, err
		}
		shape, err := ops.Broadcast(x.Shape(), y.Shape())
		if err != nil {
			return nil, err
		}
		a := ops.BroadcastTo(c, x.Strings(), x.Shape(), shape)
		b := ops.BroadcastTo(c, y.Strings(), y.Shape(), shape)
		out := ops.Make[string](c, len(a))
		for i := range out {
			out[i] = ops.JoinText(c, a[i], b[i])
		}
		return ops.One(tensor.FromStrings(out, shape...), nil)
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

// StringSplit splits strings.
var StringSplit = ops.Register(&ir.Op{
	Name: "StringSplit", Since: 20,
	Doc: "The parts of each string between delimiters (without one: between runs of white space) on a new last axis, " +
		"padded with empty strings; and how many there are.",
	In: ops.Sig("X:string[...]"), Out: ops.Sig("Y:string[...,_]", "Z:int64[...]"),
	Attrs: []ir.AttrSpec{{Name: "delimiter", Kind: ir.AttrString, Default: "",
		Doc: "separator of parts; empty: white space"},
		intAttr("maxsplit", nil, "largest number of splits of a string; absent: unlimited")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := stringsIn(in, 0, "X")
		if err != nil {
			return nil, err
		}
		limit := -1
		if k, ok := c.Node.Attrs.Get("maxsplit").(int64); ok && k >= 0 && k < ops.MaxElems {
			limit = int(k) + 1
		}
		most, parts, counts := 0, ops.Make[[]string](c, x.Len()), ops.Make[int64](c, x.Len())
		for i, s := range ops.All(c, x.Strings()) {
			c.Step(32)
			parts[i] = cut(c, s, getStr(c.Node, "delimiter"), limit)
			counts[i] = int64(len(parts[i]))
			most = max(most, len(parts[i]))
		}
		shape := append(slices.Clone(x.Shape()), most)
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		out := ops.Make[string](c, size)
		for i, p := range ops.All(c, parts) {
			ops.Put(c, out[i*most:], p)
		}
		return []tensor.Datum{tensor.FromStrings(out, shape...), tensor.FromSlice(counts, x.Shape()...)}, nil
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact { // the length of the new axis depends on all strings
		out := spread(n, in[0])
		out[0] = ops.Global(n, in)
		return out
	},
	Tol: ir.Exact,
})

// cut splits s into at most limit parts, or any number of parts if limit is negative.
func cut(c *ir.EvalCtx, s, delimiter string, limit int) []string {
	if delimiter != "" {
		var parts []string
		for limit < 0 || len(parts) < limit-1 {
			i := indexOf(c, s, delimiter)
			if i < 0 {
				break
			}
			parts, s = ops.Append(c, parts, s[:i]), s[i+len(delimiter):]
		}
		return ops.Append(c, parts, s)
	}
	var parts []string
	for s = withoutEnd(c, s[prefix(c, s, true):]); s != ""; {
		i := prefix(c, s, false)
		if i == len(s) || limit >= 0 && len(parts) == limit-1 {
			return ops.Append(c, parts, s)
		}
		parts, s = ops.Append(c, parts, s[:i]), s[i+prefix(c, s[i:], true):]
	}
	return parts
}

// prefix returns the length of the longest prefix of s of white space, or of other letters.
func prefix(c *ir.EvalCtx, s string, space bool) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) != space {
			return i
		}
		c.Step(4)
		i += size
	}
	return len(s)
}

// withoutEnd returns s without the white space at its end.
func withoutEnd(c *ir.EvalCtx, s string) string {
	for s != "" {
		r, size := utf8.DecodeLastRuneInString(s)
		if !unicode.IsSpace(r) {
			break
		}
		c.Step(4)
		s = s[:len(s)-size]
	}
	return s
}

// indexOf is strings.Index.
func indexOf(c *ir.EvalCtx, s, part string) int {
	const window = 1 << 16
	for lo := 0; lo < len(s); lo += window {
		c.Step(min(window, len(s)-lo)/8 + 16)
		if i := strings.Index(s[lo:min(len(s), lo+window+len(part)-1)], part); i >= 0 {
			return lo + i
		}
	}
	return -1
}

// StringNormalizer removes words and changes the case of letters.
var StringNormalizer = ops.Register(&ir.Op{
	Name: "StringNormalizer", Since: 10,
	Doc: "X, a vector or a single row, without stopwords, in upper or lower case; a single empty string if no word " +
		"is left.",
	In: ops.Sig("X:string"), Out: ops.Sig("Y:string"),
	Attrs: []ir.AttrSpec{
		{Name: "case_change_action", Kind: ir.AttrString, Default: "NONE", OneOf: []string{"LOWER", "UPPER", "NONE"},
			Doc: "change of case"},
		intAttr("is_case_sensitive", 0, "whether stopwords are compared with their case"),
		{Name: "locale", Kind: ir.AttrString, Doc: "ignored: case changes as Unicode has it"},
		{Name: "stopwords", Kind: ir.AttrStrings, Doc: "words to remove"},
	},
	Infer: inferShape(func(_ *ir.Node, in ir.Shape) (ir.Shape, error) {
		if err := oneRow(in); err != nil {
			return nil, err
		}
		out := slices.Clone(in)
		out[len(out)-1] = ir.Unknown
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := stringsIn(in, 0, "X")
		if err != nil {
			return nil, err
		}
		if err := oneRow(ir.Of(x).Shape); err != nil {
			return nil, err
		}
		exact := getInt(c.Node, "is_case_sensitive") != 0
		stop := map[string]bool{}
		for _, w := range ops.All(c, c.Node.Attrs.Strs("stopwords", nil)) {
			if !exact {
				w = mapped(c, w, strings.ToLower)
			}
			stop[w] = true
		}
		longest := -1
		for w := range stop {
			longest = max(longest, len(w))
		}
		var out []string
		for _, s := range x.Strings() {
			c.Step(32)
			c.Charge(6 * int64(len(s))) // another case may take three bytes for one
			key := s
			if !exact {
				key = mapped(c, s, strings.ToLower)
			}
			if len(key) <= longest && stop[key] {
				continue
			}
			switch getStr(c.Node, "case_change_action") {
			case "LOWER":
				s = mapped(c, s, strings.ToLower)
			case "UPPER":
				s = mapped(c, s, strings.ToUpper)
			}
			out = ops.Append(c, out, s)
		}
		if len(out) == 0 {
			out = []string{""}
		}
		shape := slices.Clone(x.Shape())
		shape[len(shape)-1] = len(out)
		return ops.One(tensor.FromStrings(out, shape...), nil)
	},
	Tol: ir.Exact,
})

// mapped applies a function of each letter to a string.
func mapped(c *ir.EvalCtx, s string, letters func(string) string) string {
	const part = 1 << 14
	if len(s) <= part {
		c.Step(8 * len(s))
		return letters(s)
	}
	each := func(do func(part string)) {
		for left := s; len(left) > 0; {
			n := min(part, len(left))
			for n < len(left) && !utf8.RuneStart(left[n]) {
				n++
			}
			c.Step(8 * n)
			do(letters(left[:n]))
			left = left[n:]
		}
	}
	size := 0 // first, so that the parts are written to where they stay
	each(func(part string) { size += len(part) })
	var out strings.Builder
	out.Grow(size)
	each(func(part string) { out.WriteString(part) })
	return out.String()
}

func oneRow(s ir.Shape) error {
	rows := ir.Const(1)
	if len(s) == 2 {
		rows = s[0]
	}
	if k, ok := rows.Known(); len(s) < 1 || len(s) > 2 || ok && k != 1 {
		return fmt.Errorf("expected a vector or a single row, found %v", s)
	}
	return nil
}

// RegexFullMatch tests strings.
var RegexFullMatch = ops.Register(&ir.Op{
	Name: "RegexFullMatch", Since: 20,
	Doc: "Whether each whole string matches pattern, a regular expression in RE2's syntax.",
	In:  ops.Sig("X:string[...]"), Out: ops.Sig("Y:bool[...]"),
	Attrs: []ir.AttrSpec{{Name: "pattern", Kind: ir.AttrString, Default: "", Doc: "the expression"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := fullMatch(n); err != nil {
			return nil, err
		}
		return inferAs(elemIs(tensor.Bool), func(_ *ir.Node, in ir.Shape) (ir.Shape, error) {
			return append(ir.Shape{}, in...), nil
		})(n)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := stringsIn(in, 0, "X")
		if err != nil {
			return nil, err
		}
		re, err := fullMatch(c.Node)
		if err != nil {
			return nil, err
		}
		out := ops.Make[bool](c, x.Len())
		for i, s := range ops.All(c, x.Strings()) {
			c.Step(32)
			if len(s) <= ir.Pace/16 {
				c.Step(16 * len(s))
				out[i] = re.MatchString(s)
			} else {
				out[i] = re.MatchReader(ops.Runes(c, s))
			}
		}
		return ops.One(tensor.FromSlice(out, x.Shape()...), nil)
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		bytes := ops.Count(n.In(0), bind)
		if t := n.In(0).Const; t != nil {
			bytes += ops.SizeOf(t)
		}
		return ops.Stated(n, bind, ops.Product(4, bytes, int64(len(getStr(n, "pattern")))+1))
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

func fullMatch(n *ir.Node) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`\A(?:` + getStr(n, "pattern") + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("attribute pattern: %w", err)
	}
	return re, nil
}
