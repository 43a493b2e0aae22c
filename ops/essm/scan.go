package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var scanAttrs = []ir.AttrSpec{
	{Name: "direction", Kind: ir.AttrString, Default: Forward, OneOf: []string{Forward, Backward, Bidirectional},
		Doc: "side of a step that its state depends on"},
	{Name: "window", Kind: ir.AttrInt, Default: int64(0), Doc: "number of lags of the kernel (max_kernel_length); 0: " +
		"all"},
}

// linearSystem returns Op.Linear of a system: the given sets, and the factors of its inputs with its state. If the
// system has a window, its state also has inputs, which these factors multiply.
func linearSystem(factors []int, state int, sets ...[]int) func(*ir.Node) [][]int {
	return func(n *ir.Node) [][]int {
		if n.In(state) != nil && n.Attrs.Int("window", 0) > 0 {
			return sets
		}
		return append(sets[:len(sets):len(sets)], append(factors[:len(factors):len(factors)], state))
	}
}

// Scan runs a diagonal recurrence over time.
var Scan = ops.Register(&ir.Op{
	Domain: "essm", Name: "Scan",
	Doc: `The states of a diagonal system (docs/math.md, Forms), ā = exp(a). Forward: z[t] = ā z[t-1] + b v[t]. Backward:
z[t] = ā z[t+1] + b v[t+1]. Bidirectional: the sum of both. A window ℓ cuts off the lags from ℓ on. Only forward scans have
a state, in the type of v or in float64. It holds z after the last step, N real parts, then N imaginary parts. With a
window the last ℓ inputs v follow, oldest first: each N real parts, and N imaginary parts if there is v_im. Forms: scan,
chunked, fft, direct.`,
	In: ops.Sig("v:T[B,L,N]", "a_re:float64[C,S,n]", "a_im:float64[C,S,n]", "b_re:float64[C,S,n]",
		"b_im:float64[C,S,n]", "v_im:T[B,L,N]?", "state:Z[B,Z]?"),
	Out:   ops.Sig("x_re:T[B,L,N]", "x_im:T[B,L,N]?", "state_out:Z[B,Z]?"),
	Attrs: scanAttrs,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		return scanTypes(n, b, ScanState(n))
	},
	Eval: evalScan,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z, _ := ScanState(n).Known()
		return alongScan(n, in, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z, len(n.Outputs))
	},
	Gradient: gradScan,
	Linear:   linearSystem([]int{3, 4}, 6, []int{0, 5, 6}),
	Tol:      ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		k := int64(1)
		if n.Attrs.Str("direction", Forward) == Bidirectional {
			k = 2
		}
		return ir.Work{Flops: k * 10 * ops.Count(n.In(0), bind), Bytes: ops.BytesOf(n, bind)}
	},
})

// ScanState returns the number of scalars of a Scan's state, per sample.
func ScanState(n *ir.Node) ir.Dim {
	s := n.In(1).Shape()
	if len(s) != 3 {
		return ir.Unknown
	}
	states, per := s.Size(), ir.Const(1)
	if n.In(5) != nil {
		per = ir.Const(2)
	}
	return states.Mul(ir.Const(2).Add(per.Mul(ir.Const(n.Attrs.Int("window", 0)))))
}

// maxWindow bounds the lags of a window, far above any sequence in use.
const maxWindow = 1 << 40

// checkState checks direction, window and state of a scan, or of a system with one, against each other. The state is
// the operator's last input and last output, and has z scalars.
func checkState(n *ir.Node, direction string, window int64, z ir.Dim) error {
	if window < 0 || window > maxWindow {
		return fmt.Errorf("window: expected 0 to %d, found %d", int64(maxWindow), window)
	}
	stateIn, stateOut := n.In(len(n.Op.In)-1), n.Out(len(n.Op.Out)-1)
	if direction != Forward && (stateIn != nil || stateOut != nil) {
		return fmt.Errorf("a %s scan has no state to keep", direction)
	}
	if stateIn != nil {
		if s := stateIn.Shape(); len(s) == 2 {
			x, okx := s[1].Known()
			y, oky := z.Known()
			if okx && oky && x != y {
				return fmt.Errorf("state: expected %d numbers per sample, found %d", y, x)
			}
		}
	}
	return nil
}

// scanTypes returns the types of a Scan or DenseScan whose state has z scalars. It checks the rules that are not in the
// signature.
func scanTypes(n *ir.Node, b *ops.Bindings, z ir.Dim) ([]ir.Type, error) {
	if err := checkState(n, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z); err != nil {
		return nil, err
	}
	want, got := n.In(1).Shape(), b.At("N")
	if len(want) >= 2 {
		states := want[0].Mul(want[1]).Mul(want[2])
		x, okx := states.Known()
		y, oky := got.Known()
		if okx && oky && x != y {
			return nil, fmt.Errorf("input has %d features, the system has %d states", y, x)
		}
	}
	b.Dim["Z"] = z
	return systemTypes(n, b)
}

// systemTypes returns the output types of an operator with a state of bound size. The type of the state is T or
// float64, like the input state; T if there is no input state.
func systemTypes(n *ir.Node, b *ops.Bindings) ([]ir.Type, error) {
	t, z := b.Elem["T"], b.Elem["Z"]
	if z == tensor.Invalid {
		b.Elem["Z"] = t
	} else if z != t && z != tensor.Float64 {
		return nil, fmt.Errorf("state: expected %v or float64, found %v", t, z)
	}
	return b.Outputs(n.Op)
}

// stateType returns the type of the resulting state.
func stateType(state, like *tensor.Tensor) tensor.DType {
	if state != nil {
		return state.DType()
	}
	return like.DType()
}

// run is one evaluation of a Scan, in complex128.
type run struct {
	batch, length, n, window int
	direction                string
	a, b, v                  []complex128 // v, x: (batch, length, n)
	z, past                  []complex128 // state (batch, n), and inputs before the first step (batch, window, n)
	x                        []complex128
}

func evalScan(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	v, vIm := ops.Tensor(in, 0), ops.F64(c, in, 5)
	attrs := c.Node.Attrs
	r := &run{batch: v.Dim(0), length: v.Dim(1), n: v.Dim(2), window: int(attrs.Int("window", 0)),
		direction: attrs.Str("direction", Forward),
		a:         pair(c, ops.F64(c, in, 1), ops.F64(c, in, 2)), b: pair(c, ops.F64(c, in, 3), ops.F64(c, in, 4)),
		v: pair(c, ops.F64(c, in, 0), vIm)}
	if len(r.a) != r.n {
		return nil, fmt.Errorf("input has %d features, the system has %d states", r.n, len(r.a))
	}
	r.x = ops.Make[complex128](c, len(r.v))
	r.z, r.past = ops.Make[complex128](c, r.batch*r.n), ops.Make[complex128](c, r.batch*r.window*r.n)
	if s := ops.Tensor(in, 6); s != nil {
		if err := r.load(c, ops.F64(c, in, 6), s.Dim(1), vIm != nil); err != nil {
			return nil, err
		}
	}
	unstable := false
	for _, a := range ops.All(c, r.a) {
		unstable = unstable || Unstable(a)
	}
	form := c.Kernel
	if unstable { // powers of the eigenvalue grow without bound: nothing but the recurrence is safe
		form = FormScan
	}
	switch form {
	case FormChunked:
		r.chunked(c, 64)
	case FormFFT:
		r.convolve(c, convFFT)
	case FormDirect:
		r.convolve(c, convDirect)
	default:
		r.scan(c)
	}
	re, im := split(c, r.x)
	out := make([]tensor.Datum, len(c.Node.Outputs))
	for i, part := range [][]float64{re, im} {
		if c.Node.Out(i) == nil {
			continue
		}
		t, err := ops.Real(c, v.DType(), part, v.Shape()...)
		if err != nil {
			return nil, err
		}
		out[i] = t
	}
	if c.Node.Out(2) != nil {
		s := r.save(c, vIm != nil)
		t, err := ops.Real(c, stateType(ops.Tensor(in, 6), v), s, r.batch, r.stateSize(vIm != nil))
		if err != nil {
			return nil, err
		}
		out[2] = t
	}
	return out, nil
}

// load reads a state in the layout of the operator's documentation.
func (r *run) load(c *ir.EvalCtx, s []float64, size int, complexInput bool) error {
	per := 1
	if complexInput {
		per = 2
	}
	if want := r.n * (2 + r.window*per); size != want {
		return fmt.Errorf("state: expected %d numbers per sample, found %d", want, size)
	}
	for i := range r.batch {
		c.Step(1)
		b := s[i*size : (i+1)*size]
		ops.Put(c, r.z[i*r.n:], pair(c, b[:r.n], b[r.n:2*r.n]))
		for w, h := 0, b[2*r.n:]; w < r.window; w, h = w+1, h[per*r.n:] {
			var im []float64
			if complexInput {
				im = h[r.n : 2*r.n]
			}
			ops.Put(c, r.past[(i*r.window+w)*r.n:], pair(c, h[:r.n], im))
		}
	}
	return nil
}

// save writes the state after the last step.
func (r *run) save(c *ir.EvalCtx, complexInput bool) []float64 {
	var out []float64
	for i := range r.batch {
		c.Step(1)
		re, im := split(c, r.z[i*r.n:(i+1)*r.n])
		out = ops.Append(c, ops.Append(c, out, re...), im...)
		for t := r.length - r.window; t < r.length; t++ {
			c.Step(1)
			re, im := split(c, r.input(i, t))
			out = ops.Append(c, out, re...)
			if complexInput {
				out = ops.Append(c, out, im...)
			}
		}
	}
	return out
}

// stateSize is the number of numbers per sample that save returns.
func (r *run) stateSize(complexInput bool) int {
	if complexInput {
		return 2*r.n + 2*r.window*r.n
	}
	return 2*r.n + r.window*r.n
}

// input returns v at step t, which may be before the first step.
func (r *run) input(sample, t int) []complex128 {
	if t < 0 {
		at := (sample*r.window + r.window + t) * r.n
		return r.past[at : at+r.n]
	}
	at := (sample*r.length + t) * r.n
	return r.v[at : at+r.n]
}

func (r *run) scan(c *ir.EvalCtx) {
	cut := ops.Make[complex128](c, r.n) // ā^ℓ b, the weight of the input ℓ steps ago
	step := ops.Make[complex128](c, r.n)
	for j := range ops.Each(c, len(cut)) {
		step[j] = Pow(r.a[j], 1)
		if r.window > 0 {
			cut[j] = Pow(r.a[j], float64(r.window)) * r.b[j]
		}
	}
	for i := range r.batch {
		c.Step(1)
		x := r.x[i*r.length*r.n:]
		if r.direction != Backward {
			z := r.z[i*r.n : (i+1)*r.n]
			for t := range r.length {
				c.Step(1)
				v := r.input(i, t)
				for j := range ops.Each(c, len(z)) {
					z[j] = step[j]*z[j] + r.b[j]*v[j]
				}
				if r.window > 0 {
					for j, u := range ops.All(c, r.input(i, t-r.window)) {
						z[j] -= cut[j] * u
					}
				}
				for j := range ops.Each(c, len(z)) {
					x[t*r.n+j] += z[j]
				}
			}
		}
		if r.direction != Forward {
			z := ops.Make[complex128](c, r.n)
			for t := r.length - 2; t >= 0; t-- {
				c.Step(1)
				v := r.input(i, t+1)
				for j := range ops.Each(c, len(z)) {
					z[j] = step[j]*z[j] + r.b[j]*v[j]
				}
				if r.window > 0 && t+1+r.window < r.length {
					for j, u := range ops.All(c, r.input(i, t+1+r.window)) {
						z[j] -= cut[j] * u
					}
				}
				for j := range ops.Each(c, len(z)) {
					x[t*r.n+j] += z[j]
				}
			}
		}
	}
}

// kernel returns the impulse response of state j, cut off at the window or the length.
func (r *run) kernel(c *ir.EvalCtx, j, length int) []complex128 {
	if r.window > 0 {
		length = min(length, r.window)
	}
	k := ops.Make[complex128](c, length)
	for t := range ops.Each(c, len(k)) {
		k[t] = r.b[j] * Pow(r.a[j], float64(t))
	}
	return k
}

// convolve computes the states as a convolution of the whole sequence, and the state after it from its definition.
func (r *run) convolve(c *ir.EvalCtx, conv convolution) {
	keep := r.window
	for j := range r.n {
		c.Step(1)
		mark := c.Charged()
		k := r.kernel(c, j, r.length+keep)
		for i := range r.batch {
			c.Step(1)
			sample := c.Charged()
			v, x := ops.Make[complex128](c, keep+r.length), ops.Make[complex128](c, keep+r.length)
			for t := -keep; t < r.length; t++ {
				c.Step(1)
				v[keep+t] = r.input(i, t)[j]
			}
			conv(c, x, v, k, r.direction)
			z0 := r.z[i*r.n+j]
			for t := range ops.Each(c, r.length) {
				y := x[keep+t]
				if keep == 0 && r.direction == Forward {
					y += Pow(r.a[j], float64(t+1)) * z0
				}
				r.x[(i*r.length+t)*r.n+j] = y
			}
			if r.direction == Forward && r.length > 0 {
				r.z[i*r.n+j] = r.x[(i*r.length+r.length-1)*r.n+j]
			}
			c.Discharge(sample)
		}
		c.Discharge(mark)
	}
}

// chunked computes the states chunk by chunk, by a convolution inside chunks and the recurrence between them.
func (r *run) chunked(c *ir.EvalCtx, size int) {
	if r.window > 0 { // the recurrence between chunks would need the delay line as well
		r.convolveChunks(c, size)
		return
	}
	for i := range r.batch {
		c.Step(1)
		x := r.x[i*r.length*r.n:]
		for j := range r.n {
			c.Step(1)
			mark := c.Charged()
			k := r.kernel(c, j, size)
			c.Discharge(mark) // the next one takes its place
			if r.direction != Backward {
				z := r.z[i*r.n+j]
				for lo := 0; lo < r.length; lo += size {
					hi := min(lo+size, r.length)
					for t := lo; t < hi; t++ {
						c.Step(size)
						s := Pow(r.a[j], float64(t-lo+1)) * z
						for q := lo; q <= t; q++ {
							s += k[t-q] * r.input(i, q)[j]
						}
						x[t*r.n+j] += s
						if t == hi-1 {
							z = s
						}
					}
				}
				r.z[i*r.n+j] = z
			}
			if r.direction != Forward {
				var z complex128 // the backward state just after the chunk: Σ over q ≥ hi of ā^(q-hi) b v[q]
				for hi := r.length; hi > 0; hi = (hi - 1) / size * size {
					lo := (hi - 1) / size * size
					for t := lo; t < hi; t++ {
						c.Step(size)
						s := Pow(r.a[j], float64(hi-t-1)) * z
						for q := t + 1; q < hi; q++ {
							s += k[q-t-1] * r.input(i, q)[j]
						}
						x[t*r.n+j] += s
					}
					z = Pow(r.a[j], float64(hi-lo)) * z
					for q := lo; q < hi; q++ {
						z += k[q-lo] * r.input(i, q)[j]
					}
				}
			}
		}
	}
}

// convolveChunks is chunked for a window: each chunk reads the inputs in its window, and no state.
func (r *run) convolveChunks(c *ir.EvalCtx, size int) {
	for j := range r.n {
		c.Step(1)
		k := r.kernel(c, j, r.window)
		for i := range r.batch {
			c.Step(1)
			for lo := 0; lo < r.length; lo += size {
				for t := lo; t < min(lo+size, r.length); t++ {
					c.Step(size)
					var s complex128
					if r.direction != Backward {
						c.Step(r.window)
						for q := max(t-r.window+1, -r.window); q <= t; q++ {
							s += k[t-q] * r.input(i, q)[j]
						}
					}
					if r.direction != Forward {
						c.Step(r.window)
						for q := t + 1; q <= min(t+r.window, r.length-1); q++ {
							s += k[q-t-1] * r.input(i, q)[j]
						}
					}
					r.x[(i*r.length+t)*r.n+j] = s
				}
			}
			if r.direction == Forward && r.length > 0 {
				r.z[i*r.n+j] = r.x[(i*r.length+r.length-1)*r.n+j]
			}
		}
	}
}
