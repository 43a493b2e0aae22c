package ops

import (
	"cmp"
	"io"
	"strings"

	"github.com/essmc/essmc/ir"
)

// longText is the number of bytes of a string that are copied or compared between two checks of the context.
const longText = 1 << 16

// JoinText is a + b. It charges the bytes.
func JoinText(c *ir.EvalCtx, a, b string) string {
	n := len(a) + len(b)
	charge(c, n, 1)
	c.Step(min(n, longText)/8 + 32)
	if n <= longText {
		return a + b
	}
	var out strings.Builder
	out.Grow(n)
	WriteText(c, &out, a)
	WriteText(c, &out, b)
	return out.String()
}

// WriteText is out.WriteString(s). Memory for s must have been charged, and reserved (strings.Builder.Grow).
func WriteText(c *ir.EvalCtx, out *strings.Builder, s string) {
	for len(s) > longText {
		c.Pause()
		out.WriteString(s[:longText])
		s = s[longText:]
	}
	out.WriteString(s)
}

// CompareText is cmp.Compare(a, b).
func CompareText(c *ir.EvalCtx, a, b string) int {
	for len(a) > longText && len(b) > longText {
		c.Pause()
		if d := cmp.Compare(a[:longText], b[:longText]); d != 0 {
			return d
		}
		a, b = a[longText:], b[longText:]
	}
	c.Step(min(len(a), len(b)) / 8)
	return cmp.Compare(a, b)
}

// Runes returns a reader of the letters of s, which checks the context: regular expressions match long strings by it.
func Runes(c *ir.EvalCtx, s string) io.RuneReader { return &runes{c, strings.NewReader(s)} }

type runes struct {
	c *ir.EvalCtx
	*strings.Reader
}

func (r *runes) ReadRune() (rune, int, error) {
	r.c.Step(100)
	return r.Reader.ReadRune()
}

// Longest returns the number of bytes of the longest string. A table need not be asked for longer ones, whose hash
// would take long.
func Longest(list []string) int {
	n := 0
	for _, s := range list {
		n = max(n, len(s))
	}
	return n
}
