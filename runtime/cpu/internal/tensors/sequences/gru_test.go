package sequences_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestGatedRecurrences(t *testing.T) {
	r := NewGen(13)
	for _, op := range []string{"GRU", "RNN"} {
		gates := map[string]int{"GRU": 3, "RNN": 1}[op]
		for _, c := range []struct {
			length, batch, inputs, hidden int
			direction                     string
		}{{1, 1, 5, 8, "forward"}, {7, 3, 4, 5, "forward"}, {5, 2, 3, 17, "reverse"}, {6, 2, 9, 12, "bidirectional"}} {
			d := 1
			if c.direction == "bidirectional" {
				d = 2
			}
			for _, attrs := range [][]ir.Attr{nil, {ir.A("linear_before_reset", 1)}} {
				if op == "RNN" && attrs != nil {
					continue
				}
				attrs = append(attrs, ir.A("hidden_size", c.hidden), ir.A("direction", c.direction))
				in := []Operand{Given(r.Floats(1, c.length, c.batch, c.inputs)),
					Fixed(r.Floats(0.5, d, gates*c.hidden, c.inputs)),
					Fixed(r.Floats(0.5, d, gates*c.hidden, c.hidden))}
				on.Node(t, op, 2, in, attrs...)
				in = append(in, Fixed(r.Floats(1, d, 2*gates*c.hidden)), Operand{},
					Given(r.Floats(1, d, c.batch, c.hidden)))
				on.Node(t, op, 2, in, attrs...)
			}
		}
	}
}
