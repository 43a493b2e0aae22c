package sequences_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestLSTM(t *testing.T) {
	r := NewGen(10)
	for _, c := range []struct {
		length, batch, inputs, hidden int
		direction                     string
	}{{1, 1, 5, 8, "forward"}, {7, 3, 4, 5, "forward"}, {5, 2, 3, 17, "reverse"}, {6, 2, 9, 12, "bidirectional"}} {
		d := 1
		if c.direction == "bidirectional" {
			d = 2
		}
		in := []Operand{Given(r.Floats(1, c.length, c.batch, c.inputs)), Fixed(r.Floats(0.5, d, 4*c.hidden, c.inputs)),
			Fixed(r.Floats(0.5, d, 4*c.hidden, c.hidden))}
		attrs := []ir.Attr{ir.A("hidden_size", c.hidden), ir.A("direction", c.direction)}
		on.Node(t, "LSTM", 3, in, attrs...)
		in = append(in, Fixed(r.Floats(1, d, 8*c.hidden)), Operand{}, Given(r.Floats(1, d, c.batch, c.hidden)),
			Given(r.Floats(1, d, c.batch, c.hidden)))
		on.Node(t, "LSTM", 3, in, attrs...)
	}
}
