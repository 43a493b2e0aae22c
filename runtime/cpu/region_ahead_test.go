package cpu

import (
	"testing"

	"github.com/essmc/essmc/runtime/cpu/internal/recurrence"
)

// TestBackAfter tests the conditions of backAfter, one at a time.
func TestBackAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(before, g *region)
		want   bool
	}{
		{"as layers are", func(_, _ *region) {}, true},
		{"no recurrence before", func(before, _ *region) { before.recurrence = nil }, true},
		{"its input is kept", func(_, g *region) { g.recurrence.v.local, g.recurrence.keep = false, true }, true},
		{"its input is what was computed before", func(_, g *region) { g.pre, g.recurrence.v.local = nil, false }, true},
		{"no recurrence", func(_, g *region) { g.recurrence = nil }, false},
		{"states cannot jump", func(_, g *region) { g.recurrence.jump = nil }, false},
		{"a window", func(_, g *region) { g.pre, g.recurrence.Window, g.recurrence.v.local = nil, 3, false }, false},
		{"its input is filled in", func(_, g *region) { g.recurrence.v.local = false }, false},
		{"several samples before", func(before, _ *region) { before.samples = 2 }, false},
		{"other samples", func(before, _ *region) { before.batch = 1 }, false},
		{"other steps", func(before, _ *region) { before.length = 99 }, false},
		{"several rows per step", func(before, _ *region) { before.per = 2 }, false},
		{"other tiles", func(before, _ *region) { before.tile = 24 }, false},
		{"the state before is read", func(before, _ *region) { before.recurrence.stateOutVal = 1 }, false},
		{"the state before is the input",
			func(before, g *region) { g.recurrence.v.val, before.recurrence.stateOutVal = 7, 7 }, false},
		{"the state before is the imaginary input",
			func(before, g *region) { g.recurrence.vi.val, before.recurrence.stateOutVal = 7, 7 }, false},
	} {
		made := func() *region {
			g := &region{batch: 2, length: 100, tile: 48, tiles: 3, per: 1, samples: 1, pre: []int{0},
				calls: []call{{in: []place{{val: 1}, nowhere}, out: place{val: 2, local: true}}}}
			g.recurrence = &recurrenceCall{g: g, jump: recurrence.DiagonalScan{}, v: place{val: 2, local: true},
				vi: place{val: -1, local: true}, stateVal: -1, stateOutVal: -1}
			return g
		}
		before, g := made(), made()
		c.change(before, g)
		if got := g.backAfter(before); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}
