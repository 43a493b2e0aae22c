package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir"
)

// withOutputs returns the graph that computes the outputs of g with these names, or g for no names, or for all. It does
// not change g.
func withOutputs(g *ir.Graph, names []string) (*ir.Graph, error) {
	have := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		have[i] = v.Name
	}
	for i, name := range names {
		switch {
		case slices.Contains(names[:i], name):
			return nil, &OptionError{"Outputs", fmt.Sprintf("names %q twice", name)}
		case !slices.Contains(have, name):
			return nil, &OptionError{"Outputs", fmt.Sprintf("%q: %s", name, lacking("output", name, have))}
		}
	}
	if len(names) == 0 || len(names) == len(have) {
		return g, nil
	}
	g = g.Clone()
	g.SelectOutputs(names, func(*ir.Value) bool { return false })
	return g, ir.Verify(g)
}

// mostListed is the maximum number of names that a message lists.
const mostListed = 64

// lacking is the message for an input, output or parameter that the model does not have; names are those that it has.
// It counts them if they are many.
func lacking(what, name string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("the model has no %ss", what)
	}
	have := strings.Join(names, ", ")
	if len(names) > mostListed {
		have = fmt.Sprintf("%d", len(names))
	}
	msg := fmt.Sprintf("the model has no such %s; it has %s", what, have)
	if near := spell.Close(name, names); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}
