package part

import (
	"encoding/json"
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/pattern"
)

// Limits of the parts of one kind in a file. They bound the work per byte of text.
const (
	maxDepth = 16  // sequences in sequences
	maxParts = 256 // in all
)

// Each reads the parts of one kind in a file and calls add with each: the part itself, or, if its type is Sequence,
// those in the list of the given name; sequences in sequences are one sequence. null has none. Regular expressions
// share their limits. add notes errors in the object, and returns false if it does not know the type.
func Each(raw json.RawMessage, where, list string, add func(o *Object) bool) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return (&parts{list: list, limits: pattern.NewLimits(), add: add}).read(raw, where, 0)
}

type parts struct {
	list   string
	limits *pattern.Limits
	add    func(o *Object) bool
	count  int
}

func (p *parts) read(raw json.RawMessage, where string, depth int) error {
	o := Read(raw, where)
	o.Limits = p.limits
	switch {
	case o.err != nil:
		return o.err
	case o.Type == "Sequence":
		if depth == maxDepth {
			return fmt.Errorf("%s: expected at most %d sequences in each other, found more", where, maxDepth)
		}
		o.Need(p.list)
		for i, one := range o.List(p.list) {
			if err := p.read(one, fmt.Sprintf("%s.%s[%d]", where, p.list, i), depth+1); err != nil {
				return err
			}
		}
	case p.count == maxParts:
		return fmt.Errorf("%s: expected at most %d %s, found more", where, maxParts, p.list)
	case !p.add(o):
		return fmt.Errorf("%s: type %q is not supported", where, o.Type)
	default:
		p.count++
	}
	return o.Done()
}
