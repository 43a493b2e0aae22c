package recurrence_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// lowRankCase is a DPLRScan of random coefficients, which decays.
type lowRankCase struct {
	batch, length, features, rank, n, window int
	direction                                string
	state                                    bool
}

func (c lowRankCase) graph(t *testing.T, seed uint64) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	r := NewGen(seed)
	b := ir.NewBuilder("dplr", ops.Default, ops.Opsets())
	normal := func(name string, scale float64, shape ...int) *ir.Value {
		return b.Const(name, r.Doubles(func() float64 { return scale * r.NormFloat64() }, shape...))
	}
	u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", c.features))
	in := map[string]tensor.Datum{"u": r.Floats(1, c.batch, c.length, c.features)}
	re, im := tensor.New(tensor.Float64, c.features, c.n), tensor.New(tensor.Float64, c.features, c.n)
	for i := range re.Len() {
		size, angle := 0.5+0.45*r.Float64(), 3*r.Float64()
		tensor.Data[float64](re)[i], tensor.Data[float64](im)[i] = size*math.Cos(angle), size*math.Sin(angle)
	}
	args := []*ir.Value{u, b.Const("f_re", re), b.Const("f_im", im)}
	weak := 0.2 / float64(c.n*max(1, c.rank))
	for i, name := range []string{"g_re", "g_im", "h_re", "h_im"} {
		args = append(args, normal(name, []float64{weak, 0.5}[i/2], c.features, c.rank, c.n))
	}
	for _, name := range []string{"b_re", "b_im", "c_re", "c_im"} {
		args = append(args, normal(name, 1, c.features, c.n))
	}
	for _, name := range []string{"later_re", "later_im"} {
		if c.direction == "bidirectional" {
			args = append(args, normal(name, 1, c.features, c.n))
		} else {
			args = append(args, nil)
		}
	}
	outs := 1
	if c.state {
		size := c.features * (2*c.n + c.window)
		args, outs = append(args, b.Input("state", ir.Tensor(tensor.Float32, "B", size))), 2
		in["state"] = r.Floats(1, c.batch, size)
		if c.window > 0 { // a state must match the inputs in it
			in["state"] = tensor.New(tensor.Float32, c.batch, size)
		}
	}
	out := b.Ops("essm", "DPLRScan", outs, args, ir.A("direction", c.direction), ir.A("window", c.window))
	b.Output("y", out[0])
	if c.state {
		b.Output("state_out", out[1])
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, in
}

// TestDPLR compares diagonal plus low-rank systems with the interpreter, in all forms, at odd sizes, with windows and states.
func TestDPLR(t *testing.T) {
	seed := uint64(0)
	for _, length := range []int{1, 2, 33, 300} {
		for _, features := range []int{1, 7, 9} {
			for rank := range 4 {
				seed++
				c := lowRankCase{batch: 1 + int(seed%2), length: length, features: features, rank: rank, n: 1 + int(seed*5%9),
					window: []int{0, 1, 20, 500}[seed/2%4], direction: "forward", state: seed%3 == 0}
				if seed%3 == 1 {
					c.direction = "bidirectional"
				}
				g, in := c.graph(t, seed)
				want := Truth(t, g, in)
				for _, form := range runtime.Kernels() {
					what := fmt.Sprintf("%s %+v", form, c)
					got := Run(t, g, runtime.Options{Backend: cpu.New(), Threads: 1, Kernel: form}, in)
					CloseTo(t, what, got, want, 5e-6)
					if c.state && length > 1 {
						pieces(t, what, g, runtime.Options{Backend: cpu.New(), Kernel: form}, in, want)
					}
					three := Run(t, g, runtime.Options{Backend: cpu.New(), Threads: 3, Kernel: form}, in)
					if !tensor.Equal(got["y"].(*tensor.Tensor), three["y"].(*tensor.Tensor)) {
						t.Errorf("%s: answers with 3 threads differ from those with 1", what)
					}
				}
			}
		}
	}
}

// pieces takes the sequence in two parts, with the state passed on.
func pieces(t *testing.T, what string, g *ir.Graph, o runtime.Options, in, want map[string]tensor.Datum) {
	t.Helper()
	u, state := in["u"].(*tensor.Tensor), in["state"]
	batch, length, width := u.Dim(0), u.Dim(1), u.Dim(2)
	joined := tensor.New(tensor.Float32, batch, length, width)
	for lo, hi := 0, length/3+1; lo < length; lo, hi = hi, length {
		part := tensor.New(tensor.Float32, batch, hi-lo, width)
		rows := func(x *tensor.Tensor, b, from, to, of int) []float32 {
			return tensor.Data[float32](x)[(b*of+from)*width : (b*of+to)*width]
		}
		for b := range batch {
			copy(rows(part, b, 0, hi-lo, hi-lo), rows(u, b, lo, hi, length))
		}
		last := Run(t, g, o, map[string]tensor.Datum{"u": part, "state": state})
		state = last["state_out"]
		for b := range batch {
			copy(rows(joined, b, lo, hi, length), rows(last["y"].(*tensor.Tensor), b, 0, hi-lo, hi-lo))
		}
	}
	on.Parameters(t, what, g, in, o)
	CloseTo(t, what+" in pieces", map[string]tensor.Datum{"y": joined, "state_out": state}, want, 5e-6)
}

// TestDPLRGrows checks that a system whose powers grow runs as a scan.
func TestDPLRGrows(t *testing.T) {
	c := lowRankCase{batch: 1, length: 5, features: 2, rank: 1, n: 3, direction: "forward"}
	g, in := c.graph(t, 1)
	f := g.Nodes[0].In(1).Const
	tensor.Data[float64](f)[0] = 1.5
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Kernel: "fft"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Explain(map[string]int64{"B": 1, "L": 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Form != "scan" {
		t.Errorf("%+v", got)
	}
	CloseTo(t, "grows", Run(t, g, runtime.Options{Backend: cpu.New(), Kernel: "fft"}, in), Truth(t, g, in), 1e-6)
}
