package cpu

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

func TestExplain(t *testing.T) {
	s := system{batch: 1, length: 1, ch: 1, heads: 2, n: 8, h: 4, m: 4, direction: "forward"}
	g, _ := s.graph(t, 1)
	for _, c := range []struct {
		kernel, form string
		length       int64
	}{{"", "scan", 1}, {"", "scan", 4096}, {"", "scan", 16384}, {"fft", "fft", 256}, {"chunked", "chunked", 256},
		{"direct", "direct", 256}} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), Kernel: c.kernel})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Explain(map[string]int64{"B": 1, "L": c.length})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Form != c.form || got[0].Op != "essm.SSM" || len(got[0].Others) != 3 ||
			got[0].Why == "" || got[0].Cost.Time <= 0 {
			t.Errorf("kernel %q, length %d: %+v", c.kernel, c.length, got)
		}
	}
}

// TestUnstable checks that a system whose state grows runs as a scan, whatever form is requested.
func TestUnstable(t *testing.T) {
	r := NewGen(3)
	b := ir.NewBuilder("unstable", ops.Default, ops.Opsets())
	v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", 3))
	f := func(x float64) *ir.Value { return b.Const("c", r.Doubles(func() float64 { return x }, 1, 1, 3)) }
	b.Output("x", b.Op("essm", "Scan", []*ir.Value{v, f(0.01), f(1), f(1), f(0)}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{"v": r.Floats(1, 2, 300, 3)}
	want := Truth(t, g, in)
	for _, form := range []string{"", "fft", "direct", "chunked"} {
		CloseTo(t, form, Run(t, g, runtime.Options{Backend: New(), Kernel: form}, in), want, 1e-6)
	}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Kernel: "fft"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Explain(map[string]int64{"B": 1, "L": 100})
	if err != nil || len(c) != 1 || c[0].Form != "scan" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLongConv(t *testing.T) {
	r := NewGen(4)
	for _, dir := range Directions {
		for _, length := range []int{1, 5, 64, 200} {
			for _, taps := range []int{1, 3, 100} {
				b := ir.NewBuilder("conv", ops.Default, ops.Opsets())
				v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", 5))
				k := b.Const("k", r.Floats(1, 5, taps))
				b.Output("x", b.Op("", "Relu",
					[]*ir.Value{b.Op("essm", "LongConv", []*ir.Value{b.Op("", "Neg", []*ir.Value{v}), k},
						ir.A("direction", dir))}))
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				in := map[string]tensor.Datum{"v": r.Floats(1, 2, length, 5)}
				want := Truth(t, g, in)
				for _, form := range []string{"", "scan", "fft", "direct"} {
					CloseTo(t, dir+" "+form, Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 3}, in),
						want, 2e-6)
				}
			}
		}
	}
}

// TestChooseSteps checks that single steps of many streams run as scans.
func TestChooseSteps(t *testing.T) {
	for _, batch := range []int{1, 8, 64, 1000} {
		p := problem{&record.RecurrenceInfo{N: 128, PerHead: 1, Direction: essm.Forward, VIm: -1, XIm: -1, State: 0,
			StateOut: 2}, DefaultCosts(), batch, 1, 1}
		for _, form := range []string{essm.FormFFT, essm.FormDirect} {
			if scan, other := p.estimate(essm.FormScan).Time, p.estimate(form).Time; scan >= other {
				t.Errorf("%d streams: scan takes %v, %s %v", batch, scan, form, other)
			}
		}
	}
}
