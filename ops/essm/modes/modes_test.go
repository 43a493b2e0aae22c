package modes_test

import (
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm/modes"
	"github.com/essmc/essmc/ops/essm/spectral"
	"github.com/essmc/essmc/ops/eval"
)

// graph is a builder with an input u (1, L, features).
func graph(features int) (*ir.Builder, *ir.Value) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	u := b.Input("u", ir.Tensor(tensor.Float64, 1, 64, features))
	b.Scope("layers.0")
	return b, u
}

func constant(b *ir.Builder, name string, v []float64, shape ...int) *ir.Value {
	return b.Const(name, tensor.FromSlice(v, shape...))
}

func read(t *testing.T, b *ir.Builder, y *ir.Value) (*modes.Report, *ir.Graph) {
	t.Helper()
	b.Output("y", y)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r, err := modes.Of(g, modes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, g
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(b)) }

// TestHandMade checks a system of one real state: x' = -2x + 3u, y = 5x, with Δ = 0.1 and zero-order hold.
func TestHandMade(t *testing.T) {
	b, u := graph(1)
	d := b.Ops("essm", "Discretize", 4, []*ir.Value{constant(b, "re", []float64{-2}, 1, 1, 1), constant(b, "im", []float64{0}, 1, 1, 1),
		constant(b, "dt", []float64{math.Log(0.05)}, 1, 1, 1)}, ir.A("method", "zoh"), ir.A("rate", 2.0))
	y := b.Op("essm", "SSM", []*ir.Value{u, d[0], d[1], d[2], d[3], constant(b, "B", []float64{3}, 1, 1, 1, 1),
		constant(b, "C", []float64{5}, 1, 1, 1, 1)})
	r, _ := read(t, b, y)
	if len(r.Systems) != 1 || len(r.Systems[0].Heads) != 1 || len(r.Systems[0].Heads[0].Modes) != 1 {
		t.Fatalf("found %+v", r)
	}
	s, m := r.Systems[0], r.Systems[0].Heads[0].Modes[0]
	if s.Layer != "layers.0" || s.Kind != "diagonal" || s.Method != "zoh" || s.Direction != "forward" || s.Inputs != 1 || s.Outputs != 1 {
		t.Errorf("system %+v", s)
	}
	if m.Lambda != -2 || !near(m.Step, 0.1, 1e-15) || !near(real(m.Eigen), math.Exp(-0.2), 1e-15) || !near(m.Memory, 5, 1e-14) ||
		m.Frequency != 0 {
		t.Errorf("mode %+v", m)
	}
	// Constant inputs u give x = 1.5 u, and a real positive mode amplifies nothing more.
	if !near(m.Gain, 7.5, 1e-12) || !near(s.Heads[0].DC(), 7.5, 1e-12) || !near(s.Heads[0].Peak(), 7.5, 1e-12) {
		t.Errorf("gains %v, %v, %v, expected 7.5", m.Gain, s.Heads[0].DC(), s.Heads[0].Peak())
	}
}

// stateSpace applies an oscillator of λ = -0.5 ± 2i, once as a diagonal system and once with its full matrix.
func stateSpace(b *ir.Builder, u *ir.Value, method string, full bool) *ir.Value {
	attrs := []ir.Attr{ir.A("method", method)}
	dt := constant(b, "dt", []float64{-2}, 1, 1, 1)
	if full {
		return b.Op("essm", "StateSpace", []*ir.Value{u, dt, constant(b, "B", []float64{1, 0.5, -2, 0}, 1, 1, 2, 2),
			constant(b, "C", []float64{3, 1}, 1, 1, 1, 2), nil, constant(b, "a", []float64{-0.5, -2, 2, -0.5}, 1, 1, 2, 2)}, attrs...)
	}
	// z = x₁ + i x₂ has z' = λ z + (B₁ + i B₂) u, and y = 3 Re z + Im z = Re((3 - i) z).
	d := b.Ops("essm", "Discretize", 4, []*ir.Value{constant(b, "re", []float64{-0.5}, 1, 1, 1), constant(b, "im", []float64{2}, 1, 1, 1),
		dt}, attrs...)
	return b.Op("essm", "SSM", []*ir.Value{u, d[0], d[1], d[2], d[3], constant(b, "B", []float64{1, 0.5}, 1, 1, 1, 2),
		constant(b, "C", []float64{3}, 1, 1, 1, 1), constant(b, "Bi", []float64{-2, 0}, 1, 1, 1, 2), constant(b, "Ci", []float64{-1}, 1, 1, 1, 1)})
}

// TestForms compares the diagonal and the full form of one system, and its gains with those of its answers to impulses.
func TestForms(t *testing.T) {
	for _, method := range []string{"zoh", "bilinear", "backward_euler"} {
		var heads []modes.Head
		var f []float64
		for _, full := range []bool{false, true} {
			b, u := graph(2)
			r, g := read(t, b, stateSpace(b, u, method, full))
			if len(r.Systems) != 1 || len(r.Systems[0].Heads) != 1 || len(r.Systems[0].Heads[0].Modes) != 1 {
				t.Fatalf("%s: %+v", method, r)
			}
			f = r.Systems[0].Frequencies
			heads = append(heads, r.Systems[0].Heads[0])
			checkImpulse(t, method, g, heads[len(heads)-1], f, 2)
		}
		a, b := heads[0].Modes[0], heads[1].Modes[0]
		if cmplx.Abs(a.Eigen-b.Eigen) > 1e-12 || cmplx.Abs(a.Lambda-b.Lambda) > 1e-12 || !near(b.Memory, a.Memory, 1e-10) ||
			!near(b.Step, a.Step, 1e-12) || !near(b.Gain, a.Gain, 1e-10) || !near(b.Frequency, a.Frequency, 1e-10) {
			t.Errorf("%s: %+v, in full %+v", method, a, b)
		}
		for k := range f {
			if !near(heads[1].Response[k], heads[0].Response[k], 1e-10) {
				t.Errorf("%s: gain at %v: %v, in full %v", method, f[k], heads[0].Response[k], heads[1].Response[k])
			}
		}
	}
}

// checkImpulse compares a response with the transform of what the operator itself answers to impulses. Time goes on until
// nothing is left.
func checkImpulse(t *testing.T, what string, g *ir.Graph, h modes.Head, frequencies []float64, inputs int) {
	t.Helper()
	const steps = 1024
	p := eval.New(eval.Options{})
	if err := p.Add(g); err != nil {
		t.Fatal(err)
	}
	sum := make([]float64, len(frequencies))
	for i := range inputs {
		x := make([]float64, steps*inputs)
		x[i] = 1
		var y []float64
		for _, n := range g.Nodes {
			if n.Op.FullName() != "essm.SSM" && n.Op.FullName() != "essm.StateSpace" && n.Op.FullName() != "essm.DPLR" {
				continue
			}
			in := []tensor.Datum{tensor.FromSlice(x, 1, steps, inputs)}
			e := &eval.Constants{}
			for _, v := range n.Inputs[1:] {
				if v == nil {
					in = append(in, nil)
					continue
				}
				k, err := e.Tensor(v)
				if err != nil {
					t.Fatal(err)
				}
				in = append(in, k)
			}
			out, err := eval.Node(n, in)
			if err != nil {
				t.Fatal(err)
			}
			y = tensor.Data[float64](out[0].(*tensor.Tensor))
		}
		for k, f := range frequencies {
			var z complex128
			for s, v := range y {
				z += complex(v, 0) * cmplx.Exp(complex(0, -2*math.Pi*f*float64(s)))
			}
			sum[k] = math.Hypot(sum[k], cmplx.Abs(z))
		}
	}
	for k := range frequencies {
		if !near(h.Response[k], sum[k], 1e-8) {
			t.Fatalf("%s: gain at %v: %v, impulses give %v", what, frequencies[k], h.Response[k], sum[k])
		}
	}
}

// legs applies a system with the matrix of HiPPO-LegS of a size, as S4 stores it. Its eigenvalues are -1, -2, ….
func legs(t *testing.T, b *ir.Builder, u *ir.Value, n int) *ir.Value {
	t.Helper()
	lambda, v, err := spectral.HiPPO(n)
	if err != nil {
		t.Fatal(err)
	}
	var re, im, pRe, pIm, ones []float64
	for i := range lambda {
		if imag(lambda[i]) < 0 {
			continue
		}
		var p complex128 // V* √(k+½)
		for k := range n {
			p += cmplx.Conj(v[i][k]) * complex(math.Sqrt(float64(k)+0.5), 0)
		}
		re, im, ones = append(re, real(lambda[i])), append(im, imag(lambda[i])), append(ones, 1)
		pRe, pIm = append(pRe, real(p)), append(pIm, imag(p))
	}
	k := len(re)
	if k != n/2 {
		t.Fatalf("%d of %d eigenvalues have a positive imaginary part", k, n)
	}
	zero := make([]float64, k)
	return b.Op("essm", "DPLR", []*ir.Value{u, constant(b, "dt", []float64{0.05}, 1, 1), constant(b, "re", re, 1, k),
		constant(b, "im", im, 1, k), constant(b, "p", pRe, 1, 1, k), constant(b, "q", pIm, 1, 1, k), constant(b, "b", ones, 1, k),
		constant(b, "bi", zero, 1, k), constant(b, "c", ones, 1, k), constant(b, "ci", zero, 1, k),
		b.Const("prepared", tensor.Scalar(int64(0)))})
}

func TestHiPPO(t *testing.T) {
	b, u := graph(1)
	r, g := read(t, b, legs(t, b, u, 6))
	s := r.Systems[0]
	if s.Kind != "low rank" || s.Method != "bilinear" || s.Note != "" || len(s.Heads) != 1 {
		t.Fatalf("system %+v", s)
	}
	var got []float64
	for _, m := range s.Heads[0].Modes {
		got = append(got, real(m.Lambda))
		want := (1 + real(m.Lambda)*0.025) / (1 - real(m.Lambda)*0.025)
		if math.Abs(imag(m.Lambda)) > 1e-5 || m.Step != 0.05 || !near(real(m.Eigen), want, 1e-9) {
			t.Errorf("mode %+v, expected λ̄ %v", m, want)
		}
	}
	slices.Sort(got)
	for i, x := range got {
		if want := float64(i - 6); math.Abs(x-want) > 1e-6 {
			t.Errorf("eigenvalues %v, expected -6 to -1", got)
		}
	}
	checkImpulse(t, "LegS", g, s.Heads[0], s.Frequencies, 1)
}

// TestUncertain checks that eigenvalues which weights in float32 do not decide are replaced by those of the diagonal part, with a note, and
// that gains stay right.
func TestUncertain(t *testing.T) {
	b, u := graph(1)
	r, g := read(t, b, legs(t, b, u, 64))
	s := r.Systems[0]
	if !strings.Contains(s.Note, "do not decide") || len(s.Heads[0].Modes) != 32 {
		t.Fatalf("%d modes, note %q", len(s.Heads[0].Modes), s.Note)
	}
	for _, m := range s.Heads[0].Modes {
		if !near(real(m.Lambda), -0.5, 1e-9) || !math.IsNaN(m.Gain) || !near(m.Step, 0.05, 1e-12) {
			t.Errorf("mode %+v, expected Re λ = -0.5", m)
		}
	}
	checkImpulse(t, "LegS", g, s.Heads[0], s.Frequencies, 1)
}

// TestSelective checks rates, and step sizes without the input's part.
func TestSelective(t *testing.T) {
	b, u := graph(2)
	dt := b.Op("", "Softplus", []*ir.Value{b.Op("essm", "Linear", []*ir.Value{u, constant(b, "w", []float64{1, 2, 3, 4}, 2, 2),
		constant(b, "bias", []float64{0, 1}, 2)})})
	y := b.Op("essm", "SelectiveScan", []*ir.Value{u, dt, constant(b, "A", []float64{-1, -2, -3, -4}, 2, 2), u, u})
	r, _ := read(t, b, y)
	s := r.Systems[0]
	if s.Kind != "selective" || len(s.Heads) != 2 || !strings.Contains(s.Note, "depends on the input") {
		t.Fatalf("system %+v", s)
	}
	m := s.Heads[1].Modes[1]
	if step := math.Log1p(math.E); !near(m.Step, step, 1e-14) || m.Lambda != -4 || !near(m.Memory, 1/(4*step), 1e-14) {
		t.Errorf("mode %+v", m)
	}
}

// TestOthers checks what is said of operators without eigenvalues, and of systems that an input decides.
func TestOthers(t *testing.T) {
	b, u := graph(2)
	r, _ := read(t, b, b.Op("essm", "GatedScan", []*ir.Value{u, u}))
	if len(r.Systems) != 0 || len(r.Others) != 1 || !strings.Contains(r.Others[0], "depends on the input") {
		t.Errorf("found %+v", r)
	}
	b, u = graph(1)
	a := b.Input("a", ir.Tensor(tensor.Float64, 1, 1, 1))
	one := constant(b, "B", []float64{1}, 1, 1, 1, 1)
	r, _ = read(t, b, b.Op("essm", "SSM", []*ir.Value{u, a, a, a, a, one, one}))
	if len(r.Systems) != 0 || len(r.Others) != 1 || !strings.Contains(r.Others[0], "run time") {
		t.Errorf("found %+v", r)
	}
	if _, err := modes.Of(mustGraph(t), modes.Options{MaxModes: 1}); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("two states within a limit of one: %v", err)
	}
}

func mustGraph(t *testing.T) *ir.Graph {
	b, u := graph(1)
	_, g := read(t, b, legs(t, b, u, 4))
	return g
}

// TestLowRank checks systems of rank 2 with complex factors, in two heads with different step sizes, against impulses.
func TestLowRank(t *testing.T) {
	for _, full := range []bool{false, true} {
		b, u := graph(1)
		f := func(name string, shape ...int) *ir.Value {
			var v []float64
			n := 1
			for _, d := range shape {
				n *= d
			}
			for i := range n {
				v = append(v, math.Sin(float64(7*i+3*len(name))+float64(name[0])))
			}
			return constant(b, name, v, shape...)
		}
		re := constant(b, "re", []float64{-0.5, -1, -2}, 1, 3)
		in := []*ir.Value{u, constant(b, "dt", []float64{0.1}, 1, 1), re, f("im", 1, 3), f("p", 1, 2, 3), f("qq", 1, 2, 3), f("b", 1, 3),
			f("bi", 1, 3), f("c", 1, 3), f("ci", 1, 3), b.Const("prepared", tensor.Scalar(int64(0)))}
		if full { // states with step sizes of their own
			in[1] = constant(b, "dts", []float64{0.1, 0.05, 0.2}, 1, 3)
		}
		r, g := read(t, b, b.Op("essm", "DPLR", in, ir.A("rate", 2.0)))
		checkImpulse(t, "rank 2", g, r.Systems[0].Heads[0], r.Systems[0].Frequencies, 1)
	}
}
