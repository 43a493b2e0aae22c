package raise_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/raise"
)

// flipped gives a kernel (h, length) as Conv takes it: (h, 1, length), reversed.
func flipped(k []float64, h, length int) []float64 {
	out := slices.Clone(k)
	for i := range h {
		slices.Reverse(out[i*length : (i+1)*length])
	}
	return out
}

// causal is y = conv(x, k) by Pad and a grouped Conv, x (B, h, L).
func (l layer) causal(x, w *ir.Value, h, length int) *ir.Value {
	p := l.op("Pad", x, []int64{0, 0, int64(length - 1), 0, 0, 0})
	return l.op("Conv", p, w, ir.A("group", h))
}

func TestConvInitializer(t *testing.T) {
	s := newSystem(3, 2, 1)
	const length = 96
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", 3, length))
	w := l.floats("w", flipped(s.kernel(length), 3, length), 3, 1, length)
	l.Output("y", l.op("Relu", l.causal(x, w, 3, length)))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6)
}

func TestConvDynamic(t *testing.T) {
	s := newSystem(3, 2, 1)
	const length = 96
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", 3, "L"))
	w := l.floats("w", flipped(s.kernel(length), 3, length), 3, 1, length)
	y := l.causal(x, w, 3, length)
	l.Output("y", l.op("Add", y, l.op("Mul", x, l.floats("d", []float64{1, 2, 3}, 3, 1))))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad", "Mul") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6, map[string]int64{"B": 2, "L": 50}, map[string]int64{"B": 1, "L": 300})
}

func TestOrders(t *testing.T) {
	for _, o := range raise.Orders() {
		if o.Why == "" || !strings.HasPrefix(o.Before, "raise-") {
			t.Errorf("order %v", o)
		}
	}
}
