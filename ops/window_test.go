package ops_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// TestWindow counts positions one by one.
func TestWindow(t *testing.T) {
	for d := int64(1); d <= 11; d++ {
		for taps := int64(1); taps <= 4; taps++ {
			for stride := int64(1); stride <= 5; stride++ {
				for dilation := int64(1); dilation <= 3; dilation++ {
					for pads := int64(0); pads <= 3; pads++ {
						for same := -1; same <= 1; same++ {
							w := ops.Window{Stride: stride, Dilation: dilation, Same: same}
							if same == 0 {
								w.Begin, w.End = pads/2, pads-pads/2
							}
							testWindow(t, w, d, taps)
						}
					}
				}
			}
		}
	}
}

func testWindow(t *testing.T, w ops.Window, d, taps int64) {
	t.Helper()
	fits := func(w ops.Window) (n int64) {
		for n*w.Stride-w.Begin+w.Reach(taps) < d+w.End {
			n++
		}
		return n
	}
	b := w.Bind(d, taps)
	size, ok := w.Size(ir.Const(d), ir.Const(taps)).Known()
	switch {
	case !ok:
		t.Fatalf("%+v over %d: the size is not known", w, d)
	case w.Same == 0 && (b != w || max(size, 0) != fits(w)):
		t.Fatalf("%+v over %d with %d taps: %d positions, want %d", w, d, taps, size, fits(w))
	case w.Same != 0:
		pads := b.Begin + b.End
		odd := b.End - b.Begin
		if w.Same < 0 {
			odd = -odd
		}
		if fits(b) != size || size != (d+w.Stride-1)/w.Stride || odd != pads%2 {
			t.Fatalf("%+v over %d with %d taps: bound to %+v, which has %d positions", w, d, taps, b, fits(b))
		}
		if less := b; pads > 0 { // no more pads than that takes
			if less.End--; fits(less) == size {
				t.Fatalf("%+v over %d with %d taps: one pad less than %+v would do", w, d, taps, b)
			}
		}
	}
	if r, ok := w.Resolve(ir.Const(d), taps); !ok || r != b {
		t.Fatalf("%+v resolved over %d: %+v %v, want %+v", w, d, r, ok, b)
	}
	r, ok := w.Resolve(ir.Sym("L"), taps)
	if want := w.Same == 0 || w.Stride == 1; ok != want || ok && r != b {
		t.Fatalf("%+v resolved over L: %+v %v, want %+v", w, r, ok, b)
	}
}
