package essm

import (
	"fmt"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var rateAttr = ir.AttrSpec{Name: "rate", Kind: ir.AttrFloat, Default: 1.0,
	Doc: "factor on every step size (resampling)"}

// halvesAttrs are the attributes of operators whose backward half has outputs of its own.
var halvesAttrs = []ir.AttrSpec{
	{Name: "direction", Kind: ir.AttrString, Default: Forward, OneOf: []string{Forward, Bidirectional},
		Doc: "side of a step that its output depends on"},
	{Name: "window", Kind: ir.AttrInt, Default: int64(0), Doc: "number of lags of the kernel; 0: all"},
}

// dplrAttrs are the attributes of diagonal plus low-rank systems.
var dplrAttrs = append(halvesAttrs[:2:2], ir.AttrSpec{Name: "condition", Kind: ir.AttrFloat, Default: 0.0,
	Doc: "condition number of the eigenvectors, where it is too large for a diagonal system; 0: not known"})

// DPLR is a continuous system with a diagonal plus low-rank matrix, as checkpoints of S4 state it.
var DPLR = ops.Register(&ir.Op{
	Domain: "essm", Name: "DPLR",
	Doc: `For each feature a continuous system of one input and one output whose matrix is diagonal plus low rank
(docs/math.md, Diagonal plus low rank): x' = (diag(λ) - Σ_r p_r p_r*) x + B u, y = C x, discretized by the bilinear transform
with step sizes dt. One state of each conjugate pair is given, so y = 2 Re(C x). prepared is ℓ if the stored C is
C(I - Āˡ), and 0 if it is C itself. Bidirectional adds the backward half, with later in place of C. The state is that of
DPLRScan.`,
	In: ops.Sig("u:T[B,L,N]", "dt:float64[N,_]", "re:float64[N,n]", "im:float64[N,n]", "p_re:float64[N,R,n]",
		"p_im:float64[N,R,n]", "b_re:float64[N,n]", "b_im:float64[N,n]", "c_re:float64[N,n]", "c_im:float64[N,n]",
		"prepared:int64[]", "later_re:float64[N,n]?", "later_im:float64[N,n]?", "state:Z[B,Z]?"),
	Out:    ops.Sig("y:T[B,L,N]", "state_out:Z[B,Z]?"),
	Elems:  map[string][]tensor.DType{"T": ops.Floats, "Z": ops.Floats},
	Attrs:  append([]ir.AttrSpec{rateAttr}, dplrAttrs...),
	Infer:  func(n *ir.Node) ([]ir.Type, error) { return dplrTypes(n, 11) },
	Body:   bodyDPLR,
	Along:  alongDPLR,
	Linear: linearSystem([]int{6, 7}, 13, []int{0, 13}, []int{8, 9, 11, 12}),
	Tol:    ir.Long,
})

// dplrTypes returns the types of a system whose backward outputs are inputs later and later+1.
func dplrTypes(n *ir.Node, later int) ([]ir.Type, error) {
	b, err := ops.Bind(n)
	if err != nil {
		return nil, err
	}
	both := n.Attrs.Str("direction", Forward) == Bidirectional
	for _, i := range []int{later, later + 1} {
		if given := n.In(i) != nil; given != both {
			return nil, fmt.Errorf("%s: expected if and only if the direction is bidirectional", n.Op.In[i].Name)
		}
	}
	b.Dim["Z"] = dplrState(n, b.At("N"), b.At("n"))
	if err := checkState(n, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), b.At("Z")); err != nil {
		return nil, err
	}
	return systemTypes(n, b)
}

// dplrState is the number of scalars of a state, per sample.
func dplrState(n *ir.Node, features, states ir.Dim) ir.Dim {
	return features.Mul(states.Mul(ir.Const(2)).Add(ir.Const(n.Attrs.Int("window", 0))))
}

func alongDPLR(n *ir.Node, in []ir.Fact) []ir.Fact {
	z := int64(0)
	if b, err := ops.Bind(n); err == nil {
		z, _ = dplrState(n, b.At("N"), b.At("n")).Known()
	}
	return alongScan(n, in, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z, len(n.Outputs))
}

// bodyDPLR restores C, discretizes and scans.
func bodyDPLR(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	rate := ir.A("rate", n.Attrs.Float("rate", 1))
	d := b.Ops("essm", "DiscretizeDPLR", 8, []*ir.Value{in[1], in[2], in[3], in[4], in[5], in[6], in[7]}, rate)
	// All output factors of a feature at once, since each needs the same power of a matrix.
	first, both := b.Ints(0), arg(11) != nil
	stack := func(forward, later *ir.Value) *ir.Value {
		v := b.Op("", "Unsqueeze", []*ir.Value{forward, first})
		if !both {
			return v
		}
		return b.Op("", "Concat", []*ir.Value{v, b.Op("", "Unsqueeze", []*ir.Value{later, first})}, ir.A("axis", 0))
	}
	c := b.Ops("essm", "RestoreDPLR", 2, []*ir.Value{in[1], in[2], in[3], in[4], in[5], stack(in[8], arg(11)),
		stack(in[9], arg(12)), in[10]})
	args := append([]*ir.Value{in[0]}, d...)
	two := b.Const("two", tensor.Scalar(2.0))
	for i := range 2 {
		for _, part := range c {
			if i == 1 && !both {
				args = append(args, nil)
				continue
			}
			v := b.Op("", "Gather", []*ir.Value{part, b.Const("half", tensor.Scalar(int64(i)))})
			args = append(args, b.Op("", "Mul", []*ir.Value{v, two}))
		}
	}
	outs := 1
	if n.Out(1) != nil {
		outs = 2
	}
	attrs := []ir.Attr{ir.A("direction", n.Attrs.Str("direction", Forward)), ir.A("window", n.Attrs.Int("window", 0))}
	if k := n.Attrs.Float("condition", 0); k > 0 {
		attrs = append(attrs, ir.A("condition", k))
	}
	out := b.Ops("essm", "DPLRScan", outs, append(args, arg(13)), attrs...)
	if outs == 1 {
		return []*ir.Value{out[0], nil}
	}
	return []*ir.Value{out[0], out[1]}
}

// DiscretizeDPLR turns a continuous diagonal plus low-rank system into a discrete one.
var DiscretizeDPLR = ops.Register(&ir.Op{
	Domain: "essm", Name: "DiscretizeDPLR",
	Doc: `The discrete system of a continuous one with the matrix diag(λ) - Σ_r p_r p_r*, by the bilinear transform
(docs/math.md, Diagonal plus low rank). It is diagonal plus low rank, too: Ā z = f∘z - Σ_r g_r Re(Σ h_r∘z). Δ = rate·dt.`,
	In: ops.Sig("dt:float64[N,_]", "re:float64[N,n]", "im:float64[N,n]", "p_re:float64[N,R,n]", "p_im:float64[N,R,n]",
		"b_re:float64[N,n]", "b_im:float64[N,n]"),
	Out: ops.Sig("f_re:float64[N,n]", "f_im:float64[N,n]", "g_re:float64[N,R,n]", "g_im:float64[N,R,n]",
		"h_re:float64[N,R,n]", "h_im:float64[N,R,n]", "bbar_re:float64[N,n]", "bbar_im:float64[N,n]"),
	Attrs: []ir.AttrSpec{rateAttr},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		p := ops.Tensor(in, 3)
		d, err := newDPLR(c, in, c.Node.Attrs.Float("rate", 1))
		if err != nil {
			return nil, err
		}
		b := pair(c, ops.F64(c, in, 5), ops.F64(c, in, 6))
		sys, err := d.discretize(c, b)
		if err != nil {
			return nil, err
		}
		var out []tensor.Datum
		for i, z := range [][]complex128{sys.f, sys.g, sys.h, sys.b} {
			re, im := split(c, z)
			shape := []int{d.heads, d.n}
			if i == 1 || i == 2 {
				shape = p.Shape()
			}
			out = append(out, tensor.FromSlice(re, shape...), tensor.FromSlice(im, shape...))
		}
		return out, nil
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		r := ops.DimAt(n.In(3), 1, bind)
		return ops.Stated(n, bind, ops.Product(16, ops.Count(n.In(3), bind), r)+40*ops.Count(n.In(1), bind))
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{5, 6}),
	Tol:        ir.Summing,
})

// dplr is continuous systems with matrices diag(lambda) - Σ p p*: heads of n states (one of each conjugate pair) and
// the given rank.
type dplr struct {
	heads, rank, n int
	dt             []float64    // (heads, n)
	lambda, p      []complex128 // (heads, n), (heads, rank, n)
}

// newDPLR reads step sizes, λ and p from the first five inputs.
func newDPLR(c *ir.EvalCtx, in []tensor.Datum, rate float64) (*dplr, error) {
	t, p := ops.Tensor(in, 0), ops.Tensor(in, 3)
	d := &dplr{heads: p.Dim(0), rank: p.Dim(1), n: p.Dim(2), lambda: pair(c, ops.F64(c, in, 1), ops.F64(c, in, 2)),
		p: pair(c, ops.F64(c, in, 3), ops.F64(c, in, 4))}
	k := t.Dim(1)
	if k != 1 && k != d.n || t.Dim(0) != d.heads || len(d.lambda) != d.heads*d.n {
		return nil, fmt.Errorf("dt: expected %d × %d or 1 step sizes, found %s", d.heads, d.n, t)
	}
	steps := ops.F64(c, in, 0)
	d.dt = ops.Make[float64](c, len(d.lambda))
	for i := range ops.Each(c, len(d.dt)) {
		d.dt[i] = rate * steps[i/d.n*k+i%d.n%k]
	}
	return d, nil
}

// discrete is a discrete system of each head, z[t] = f∘z[t-1] - Σ_r g_r Re(Σ h_r∘z[t-1]) + b u[t].
type discrete struct {
	heads, rank, n int
	f, g, h, b     []complex128 // (heads, n), (heads, rank, n) twice, (heads, n)
}

// discretize returns the systems with the inputs' factors b. With Γ = 1/(2/Δ - λ) and F = Γ(2/Δ + λ), the step
// (2/Δ - A) z⁺ = (2/Δ + A) z + 2b u becomes, by Woodbury's identity and since conjugate states double real parts,
// z⁺ = F z - Γp·M(s + r + υu) + 2Γb u with s = 2 Re p*z, r = 2 Re p*Fz, υ = 2 Re p*2Γb, M = (I + 2 Re p*Γp)⁻¹.
func (d *dplr) discretize(c *ir.EvalCtx, b []complex128) (*discrete, error) {
	n, k := d.n, d.rank
	s := &discrete{heads: d.heads, rank: k, n: n, f: ops.Make[complex128](c, len(d.lambda)),
		g: ops.Make[complex128](c, len(d.p)), h: ops.Make[complex128](c, len(d.p)),
		b: ops.Make[complex128](c, len(d.lambda))}
	gamma := ops.Make[complex128](c, n)
	m, id, v := ops.Make[float64](c, k*k), identity(c, k), ops.Make[float64](c, k)
	for i := range d.heads {
		c.Step(n * (k*k + 4*k + 4))
		mark := c.Charged()
		for j := range n {
			x := complex(d.dt[i*n+j]/2, 0) * d.lambda[i*n+j]
			den := 1 - x
			gamma[j] = complex(d.dt[i*n+j]/2, 0) / den
			s.f[i*n+j] = (1 + x) / den
			s.b[i*n+j] = 2 * gamma[j] * b[i*n+j]
		}
		p := d.p[i*k*n : (i+1)*k*n]
		for r := range k {
			for q := range k {
				sum := 0.0
				for j := range n {
					sum += real(cmplx.Conj(p[r*n+j]) * gamma[j] * p[q*n+j])
				}
				m[r*k+q] = id[r*k+q] + 2*sum
			}
			v[r] = 0
			for j := range n {
				v[r] += 2 * real(cmplx.Conj(p[r*n+j])*s.b[i*n+j])
			}
		}
		inv, err := solve(c, m, id, k, k)
		if err != nil {
			return nil, fmt.Errorf("feature %d: I + 2 Re p*Γp: %w", i, err)
		}
		for r := range k {
			for q := range k {
				w := complex(inv[r*k+q], 0)
				for j := range n {
					at := (i*k + r) * n
					s.g[at+j] = gamma[j] * p[r*n+j]
					s.h[at+j] += w * 2 * cmplx.Conj(p[q*n+j]) * (1 + s.f[i*n+j])
				}
			}
		}
		for r := range k {
			sum := 0.0
			for q := range k {
				sum += inv[r*k+q] * v[q]
			}
			for j := range n {
				s.b[i*n+j] -= s.g[(i*k+r)*n+j] * complex(sum, 0)
			}
		}
		c.Discharge(mark)
	}
	return s, nil
}

// matrix is Ā of one head over the reals, for states in the order of their real and imaginary parts: 2n rows.
func (s *discrete) matrix(c *ir.EvalCtx, head int) []float64 {
	n := s.n
	m := ops.Make[float64](c, 4*n*n)
	for j := range ops.Each(c, n) {
		f := s.f[head*n+j]
		m[j*2*n+j], m[j*2*n+n+j] = real(f), -imag(f)
		m[(n+j)*2*n+j], m[(n+j)*2*n+n+j] = imag(f), real(f)
	}
	for r := range s.rank {
		g, h := s.g[(head*s.rank+r)*n:], s.h[(head*s.rank+r)*n:]
		for i := range n {
			c.Step(n)
			for j := range n {
				m[i*2*n+j] -= real(g[i]) * real(h[j])
				m[i*2*n+n+j] += real(g[i]) * imag(h[j])
				m[(n+i)*2*n+j] -= imag(g[i]) * real(h[j])
				m[(n+i)*2*n+n+j] += imag(g[i]) * imag(h[j])
			}
		}
	}
	return m
}
