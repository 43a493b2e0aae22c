package main

import (
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// TestFloor checks the floor's arithmetic against the definition of the presets (docs/math.md, Presets): two products H
// x H per layer with several heads, and products with B and C if heads are wider than 4.
func TestFloor(t *testing.T) {
	e := &env{work: t.TempDir()}
	for id, want := range map[string]float64{
		"text":    6 * 2 * 2 * 4096 * 256 * 256,
		"pathx":   6 * 2 * 16384 * (2*192*192 + 2*8*24*32),
		"listops": 6 * 2 * 2000 * (256*256 + 2*4*64*64), // leakyrelu: no gate
	} {
		m, err := newModel(e, id)
		if err != nil {
			t.Fatal(err)
		}
		if got := floorFlops(m.floor(m.preset.Length)); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("%s: %g, expected %g", id, got, want)
		}
	}
}

func TestOurs(t *testing.T) {
	e := &env{work: t.TempDir()}
	m, err := newModel(e, "sc10-mfcc", [2]string{"n_layers", "1"}, [2]string{"layer.bidirectional", "false"})
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := m.input(2, 20)
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOurs(context.Background(), m.graph, map[string]tensor.Datum{m.inputName(): x},
		runtime.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	if d, err := o.contender(context.Background(), "x").run(3); err != nil || d <= 0 {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := newModel(e, "sc10-mfcc", [2]string{"n_layer", "1"}); err == nil {
		t.Error("a key that does not exist was set")
	}
	in, err := stepInputs(m)
	if err != nil || len(in) != 2 {
		t.Errorf("inputs of a step: %v, %v", in, err)
	}
}
