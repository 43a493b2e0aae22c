// Package patterns selects values by their names: which constants of a model's source become parameters.
//
// It imports internal/spell, ir/tensor and the standard library only. Matching takes time in proportion to the pattern
// times the name. A nil *Set selects nothing. Equal names in equal order give equal results and errors.
//
// In a pattern, "*" stands for any text, also with dots and slashes, and "?" for one byte. A pattern that is a name,
// byte by byte, selects the value whatever it contains. Others select only values of floating point or complex numbers,
// since names such as "*" do not mean shapes, axes and tables.
package patterns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir/tensor"
)

// Set is a list of patterns. It notes which of them have selected something.
type Set struct {
	list  []pattern
	names []string // that were not selected, for Err
}

type pattern struct {
	text  string
	used  bool
	other string // a value that matches and is not of floats
}

// most is how many names are kept for messages.
const most = 1 << 12

// New returns a set, or nil if there are no patterns.
func New(list []string) *Set {
	if len(list) == 0 {
		return nil
	}
	s := &Set{}
	for _, text := range list {
		s.list = append(s.list, pattern{text: text})
	}
	return s
}

// Select reports whether a pattern selects the value with that name and element type.
func (s *Set) Select(name string, elem tensor.DType) bool { return s.pick(name, elem, false) }

// SelectNamed is Select for values that only their own name selects.
func (s *Set) SelectNamed(name string, elem tensor.DType) bool { return s.pick(name, elem, true) }

func (s *Set) pick(name string, elem tensor.DType, named bool) (selected bool) {
	if s == nil || name == "" {
		return false
	}
	for i := range s.list {
		switch p := &s.list[i]; {
		case p.text == name:
			p.used, selected = true, true
		case named || !match(p.text, name):
		case elem.IsFloat() || elem.IsComplex():
			p.used, selected = true, true
		case p.other == "":
			p.other = fmt.Sprintf("%s (%v)", quote(name), elem)
		}
	}
	if !selected && len(s.names) < most {
		s.names = append(s.names, name)
	}
	return selected
}

// Error is the error for a pattern that selects nothing.
type Error struct {
	Pattern string
	Reason  string
}

// Error names the pattern and the reason.
func (e *Error) Error() string { return quote(e.Pattern) + ": " + e.Reason }

// Err returns an *Error for the first pattern that has selected nothing, or nil. what names the values, as in
// "constants".
func (s *Set) Err(what string) error {
	if s == nil {
		return nil
	}
	for _, p := range s.list {
		if p.used {
			continue
		}
		e := &Error{Pattern: p.text}
		switch near := s.near(p.text); {
		case p.text == "":
			e.Reason = fmt.Sprintf("expected a name or a pattern of %s, found an empty one", what)
		case p.other != "":
			e.Reason = fmt.Sprintf("expected floating point numbers, found only %s of other types, such as %s; name "+
				"them exactly",
				what, p.other)
		case len(near) > 0:
			e.Reason = fmt.Sprintf("expected a name or a pattern of %s, found none that match; near names: %s", what,
				strings.Join(near, ", "))
		default:
			e.Reason = fmt.Sprintf("expected a name or a pattern of %s, found none", what)
		}
		return e
	}
	return nil
}

// shown is how many near names a message has.
const shown = 3

// near returns the names that were probably meant by a pattern: the nearest ones.
func (s *Set) near(text string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var list []candidate
	plain := strings.NewReplacer("*", "", "?", "").Replace(text)
	for _, name := range s.names {
		d := spell.Distance(plain, name)
		if plain != "" && strings.Contains(name, plain) {
			d = 0
		}
		list = append(list, candidate{name, d})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range list[:min(shown, len(list))] {
		names = append(names, quote(c.name))
	}
	return names
}

// quote quotes a name for a message, of bounded length.
func quote(name string) string { return fmt.Sprintf("%.80q", name) }

// match reports whether the pattern matches all of name. After a "*" that fails, only the last one can take more.
func match(pattern, name string) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
