package part

import (
	"context"
	"encoding/json"

	"github.com/essmc/essmc/frontend/tokenizer/internal/pattern"
)

// Pattern returns the value of a key that is a pattern: {"String": …} or {"Regex": …}.
func (o *Object) Pattern(key string) *pattern.Pattern {
	raw := o.Raw(key)
	none := pattern.Literal("")
	var p map[string]*string
	if err := json.Unmarshal(raw, &p); raw == nil || err != nil || len(p) != 1 {
		o.Fail(key, `expected {"String": …} or {"Regex": …}, found %s`, Short(raw))
		return none
	}
	switch {
	case p["String"] != nil:
		return pattern.Literal(*p["String"])
	case p["Regex"] != nil:
		return o.Regex(key, *p["Regex"])
	}
	o.Fail(key, `expected {"String": …} or {"Regex": …}, found %s`, Short(raw))
	return none
}

// Regex compiles a regular expression within the limits that the object was given.
func (o *Object) Regex(key, expr string) *pattern.Pattern {
	if o.Limits == nil {
		o.Limits = pattern.NewLimits()
	}
	p, err := o.Limits.Compile(expr)
	if err != nil {
		o.Fail(key, "%v", err)
		return pattern.Literal("")
	}
	return p
}

// maxKept is the length of a text up to which a search keeps its memory for the next one.
const maxKept = 1 << 14

// Search finds the matches of a pattern in texts one after the other. It is not safe for concurrent use.
type Search struct {
	p *pattern.Pattern
	m *pattern.Matcher
}

// NewSearch returns a search for a pattern.
func NewSearch(p *pattern.Pattern) *Search { return &Search{p, p.Matcher()} }

// In returns a matcher that has been given a text. It is valid until the next call. The memory for a long text is not
// kept, since a file may have many patterns.
func (s *Search) In(ctx context.Context, text string) *pattern.Matcher {
	m := s.m
	if len(text) > maxKept {
		m = s.p.Matcher()
	}
	m.Reset(ctx, text)
	return m
}
