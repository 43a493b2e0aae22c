package modes

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// gated are operators with a state whose decay the input decides.
var gated = map[string]string{
	"essm.GatedScan": "its decay depends on the input, step by step",
	"LSTM":           "its gates depend on the input and the state",
	"GRU":            "its gates depend on the input and the state",
	"RNN":            "its state passes through a nonlinearity",
}

// node reads a node, or the body of one whose system is stated in larger operators. named is the node that messages
// name.
func (r *reader) node(n, named *ir.Node) error {
	switch name := n.Op.FullName(); name {
	case "essm.StateSpace", "essm.DPLR":
		b := ir.NewBuilder("body", ops.Default, ops.Opsets())
		n.Op.Body(b, n, padded(n.Inputs, len(n.Op.In)))
		if err := b.Err(); err != nil {
			return err
		}
		for _, m := range b.Graph().Nodes {
			if err := r.node(m, named); err != nil {
				return err
			}
		}
	case "essm.SSM":
		return r.ssm(n, named, true)
	case "essm.Scan":
		return r.ssm(n, named, false)
	case "essm.DenseSSM":
		return r.dense(n, named)
	case "essm.DPLRScan":
		return r.lowRank(n, named)
	case "essm.SoftmaxConv":
		return r.softmax(n, named)
	case "essm.SelectiveScan":
		return r.selective(n, named)
	default:
		if why := gated[name]; why != "" {
			r.out.Others = append(r.out.Others, fmt.Sprintf("%v: %s", named, why))
		}
	}
	return nil
}

func padded(in []*ir.Value, n int) []*ir.Value {
	for len(in) < n {
		in = append(in[:len(in):len(in)], nil)
	}
	return in
}

// errInput says that a system is computed from an input.
var errInput = errors.New("its system is computed at run time")

// floats returns a constant with its shape; nothing for nil.
func (r *reader) floats(v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, nil
	}
	t, err := r.eval.Tensor(v)
	if err != nil {
		return nil, nil, errInput
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}

// all returns several constants, and the shape of the first one.
func (r *reader) all(n *ir.Node, inputs ...int) (out [][]float64, shape []int, err error) {
	for k, i := range inputs {
		x, s, err := r.floats(n.In(i))
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(s, 0) {
			return nil, nil, fmt.Errorf("expected states, found the shape %v", s)
		}
		if k == 0 {
			shape = s
		}
		out = append(out, x)
	}
	return out, shape, nil
}

// add appends a system. A system that is computed at run time is one of the others.
func (r *reader) add(s System, named *ir.Node, err error) error {
	s.Layer = named.Scope
	if v := named.Out(0); v != nil {
		s.Name = v.Name
	}
	if errors.Is(err, errInput) {
		r.out.Others = append(r.out.Others, fmt.Sprintf("%v: %v", named, err))
		return nil
	}
	if err == nil {
		r.out.Systems = append(r.out.Systems, s)
	}
	return err
}

// take accounts for modes.
func (r *reader) take(n int) error {
	if r.left -= n; r.left < 0 {
		return errors.New("too many states")
	}
	return nil
}

func direction(n *ir.Node) string { return n.Attrs.Str("direction", essm.Forward) }

// parent returns the node of the given operator that computes a value.
func parent(v *ir.Value, op string) *ir.Node {
	if v == nil || v.Def == nil || v.Def.Op.FullName() != op {
		return nil
	}
	return v.Def
}

// ssm reads a diagonal system, with its input and output matrices or without.
func (r *reader) ssm(n, named *ir.Node, matrices bool) error {
	s := System{Kind: "diagonal", Direction: direction(n), Inputs: 1, Outputs: 1, Frequencies: grid()}
	err := r.diagonalHeads(&s, n, matrices)
	return r.add(s, named, err)
}

func (r *reader) diagonalHeads(s *System, n *ir.Node, matrices bool) error {
	v, shape, err := r.all(n, 1, 2, 3, 4)
	if err != nil {
		return err
	}
	if len(shape) != 3 || len(v[1]) != len(v[0]) || len(v[2]) != len(v[0]) || len(v[3]) != len(v[0]) {
		return fmt.Errorf("expected eigenvalues (C,S,n), found %v", shape)
	}
	a, b := pairs(v[0], v[1]), pairs(v[2], v[3])
	lambda, step := a, make([]float64, len(a))
	if d := parent(n.In(1), "essm.Discretize"); d != nil {
		if lambda, step, err = r.continuous(d, len(a), shape[2]); err != nil {
			return err
		}
		s.Method = d.Attrs.Str("method", "zoh")
	} else if l, dt := r.factored(n, a, shape[2]); l != nil {
		lambda, step = l, dt
	}
	var in, out []complex128
	if matrices {
		m, sb, err := r.all(n, 5, 7)
		if err != nil {
			return err
		}
		k, sc, err := r.all(n, 6, 8)
		if err != nil {
			return err
		}
		if len(sb) != 4 || len(sc) != 4 {
			return fmt.Errorf("expected matrices of four axes, found %v and %v", sb, sc)
		}
		s.Inputs, s.Outputs = sb[3], sc[2]
		in, out = pairs(m[0], m[1]), pairs(k[0], k[1])
	} else {
		s.Note = "the output matrices are in other operators, so gains are not known"
	}
	if err := r.take(len(a)); err != nil {
		return err
	}
	return r.heads(shape[0], shape[1], func(c, h int) error {
		i := c*shape[1] + h
		d := &diagonal{lambda: part(lambda, i, shape[2]), step: part(step, i, shape[2]), a: part(a, i, shape[2]),
			b: part(b, i, shape[2]), h: s.Inputs, m: s.Outputs}
		if matrices {
			d.in, d.out = part(in, i, shape[2]*s.Inputs), part(out, i, shape[2]*s.Outputs)
		}
		s.Heads = append(s.Heads, d.head(c, h, s.Frequencies))
		return nil
	})
}

// heads calls f for each head, until the context is done.
func (r *reader) heads(channels, heads int, f func(c, h int) error) error {
	for c := range channels {
		for h := range heads {
			if r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			if err := f(c, h); err != nil {
				return fmt.Errorf("head %d: %w", h, err)
			}
		}
	}
	return nil
}

// factored returns λ and Δ where the graph states λΔ as a product, with n numbers of λ for each part, as DSS does. It
// returns nil for others.
func (r *reader) factored(node *ir.Node, a []complex128, n int) (lambda []complex128, step []float64) {
	re, im := r.factor(node.In(1), n), r.factor(node.In(2), n)
	if re == nil || im == nil {
		return nil, nil
	}
	lambda, step = make([]complex128, len(a)), make([]float64, len(a))
	for i := range a {
		lambda[i] = complex(re[i%n], im[i%n])
		step[i] = real(a[i]) / re[i%n]
		if !(step[i] > 0) {
			return nil, nil
		}
	}
	return lambda, step
}

// factor returns the factor of n numbers of a product with positive numbers.
func (r *reader) factor(v *ir.Value, n int) []float64 {
	for range 8 {
		if v == nil || v.Def == nil {
			return nil
		}
		switch d := v.Def; d.Op.FullName() {
		case "Unsqueeze", "Reshape", "Tile", "Identity":
			v = d.In(0)
		case "Mul":
			for i := range 2 {
				x, _, err := r.floats(d.In(i))
				y, _, err2 := r.floats(d.In(1 - i))
				if err == nil && err2 == nil && len(x) == n &&
					!slices.ContainsFunc(y, func(f float64) bool { return !(f > 0) }) {
					return x
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// continuous returns λ and Δ of each state from a Discretize node.
func (r *reader) continuous(d *ir.Node, size, n int) (lambda []complex128, step []float64, err error) {
	v, _, err := r.all(d, 0, 1)
	if err != nil {
		return nil, nil, err
	}
	dt, _, err := r.floats(d.In(2))
	if err != nil {
		return nil, nil, err
	}
	k := len(dt) / max(size/n, 1) // n or 1 for each head
	if len(v[0]) != size || k != n && k != 1 || len(dt) != size/n*k {
		return nil, nil, fmt.Errorf("expected %d eigenvalues and step sizes, found %d and %d", size, len(v[0]), len(dt))
	}
	step = make([]float64, size)
	for i := range step {
		step[i] = d.Attrs.Float("rate", 1) * math.Exp(dt[i/n*k+i%n%k])
	}
	return pairs(v[0], v[1]), step, nil
}

// softmax reads the system of a kernel that is normalized over the sequence.
func (r *reader) softmax(n, named *ir.Node) error {
	s := System{Kind: "softmax", Direction: direction(n), Inputs: 1, Outputs: 1,
		Note: "kernels are normalized over the sequence, so gains depend on its length"}
	v, shape, err := r.all(n, 1, 2, 3, 4)
	if err == nil && len(shape) != 2 {
		err = fmt.Errorf("expected eigenvalues (N,n), found %v", shape)
	}
	if err == nil {
		err = r.take(len(v[0]))
	}
	if err != nil {
		return r.add(s, named, err)
	}
	a, lambda, size := pairs(v[0], v[1]), pairs(v[2], v[3]), shape[1]
	step := make([]float64, len(a))
	for i := range a {
		if real(lambda[i]) != 0 {
			step[i] = real(a[i]) / real(lambda[i]) // imaginary parts may have step sizes of their own
		}
	}
	for h := range shape[0] {
		d := &diagonal{lambda: part(lambda, h, size), step: part(step, h, size), a: part(a, h, size),
			b: part(a, h, size)}
		s.Heads = append(s.Heads, d.head(0, h, nil))
	}
	return r.add(s, named, nil)
}

// selective reads the rates A of a selective scan, and its step sizes where the input's part of them is 0.
func (r *reader) selective(n, named *ir.Node) error {
	s := System{Kind: "selective", Method: "zoh", Direction: essm.Forward, Inputs: 1, Outputs: 1}
	a, shape, err := r.floats(n.In(2))
	if err == nil && len(shape) != 2 {
		err = fmt.Errorf("expected rates (H,N), found %v", shape)
	}
	if err == nil {
		err = r.take(len(a))
	}
	if err != nil {
		return r.add(s, named, err)
	}
	bias := r.bias(n.In(1))
	s.Note = "Δ depends on the input; it is given for an input whose part of Δ is 0"
	if len(bias) != shape[0] {
		bias, s.Note = nil, "Δ depends on the input, and so do eigenvalues and memory: only the rates A are fixed"
	}
	for h := range shape[0] {
		head := Head{Head: h}
		for _, x := range part(a, h, shape[1]) {
			m := Mode{Lambda: complex(x, 0), Eigen: complex(math.NaN(), 0), Memory: math.NaN(), Gain: math.NaN()}
			if bias != nil {
				dt := softplus(bias[h])
				m = newMode(complex(x, 0), complex(x*dt, 0), dt, math.NaN())
			}
			head.Modes = append(head.Modes, m)
		}
		s.Heads = append(s.Heads, head)
	}
	return r.add(s, named, nil)
}

// bias returns what is added before the softplus that makes step sizes; nil if there is none that is constant.
func (r *reader) bias(v *ir.Value) []float64 {
	for range 8 {
		if v == nil || v.Def == nil {
			return nil
		}
		n := v.Def
		switch n.Op.FullName() {
		case "Clip", "Cast", "Identity":
			v = n.In(0)
		case "Softplus":
			return r.added(n.In(0))
		default:
			return nil
		}
	}
	return nil
}

// added returns the constant that a linear layer or an addition adds.
func (r *reader) added(v *ir.Value) []float64 {
	if v == nil || v.Def == nil {
		return nil
	}
	inputs := map[string][]int{"essm.Linear": {2}, "Add": {0, 1}}[v.Def.Op.FullName()]
	for _, i := range inputs {
		if x, _, err := r.floats(v.Def.In(i)); err == nil && x != nil {
			return x
		}
	}
	return nil
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// pairs joins real and imaginary parts; nil imaginary parts are 0.
func pairs(re, im []float64) []complex128 {
	z := make([]complex128, len(re))
	for i := range re {
		z[i] = complex(re[i], 0)
		if i < len(im) {
			z[i] = complex(re[i], im[i])
		}
	}
	return z
}

// part returns part i of parts of size n.
func part[T any](v []T, i, n int) []T { return v[i*n : (i+1)*n] }
