package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// recurrence runs a system step by step in an ONNX Scan, with states in float64. It serves systems whose parameters are
// not constants, as in the body of a function, and systems whose powers would overflow.
func (l *lowerer) recurrence(n *ir.Node) []*ir.Value {
	u, elem := n.Inputs[0], n.Inputs[0].Elem()
	r := &stepwise{lowerer: l, direction: n.Attrs.Str("direction", essm.Forward), window: n.Attrs.Int("window", 0)}
	r.dense = n.Op.Name == "DenseSSM"
	state := n.In(len(n.Op.In) - 1)
	if r.dense {
		r.v = []*ir.Value{l.wide(l.headLinear(u, n.In(3)))}
		r.denseSystem(n)
	} else {
		r.v = []*ir.Value{l.wide(l.headLinear(u, n.In(5)))}
		if n.In(7) != nil {
			r.v = append(r.v, l.wide(l.headLinear(u, n.In(7))))
		}
		r.diagonalSystem(n)
	}
	if l.Err() != nil {
		return []*ir.Value{failed, failed}
	}
	r.start(state)
	var x []*ir.Value
	if r.direction != essm.Backward {
		x = r.run(false)
	}
	if r.direction != essm.Forward {
		back := r.run(true)
		for i := range back {
			if x != nil {
				back[i] = l.op("Add", x[i], back[i])
			}
		}
		x = back
	}
	narrow := func(v *ir.Value) *ir.Value { return l.with("Cast", []*ir.Value{v}, ir.A("to", int(elem))) }
	var y *ir.Value
	if r.dense {
		y = l.headLinear(narrow(x[0]), n.In(4))
	} else {
		y = l.headLinear(narrow(x[0]), n.In(6))
		if n.In(8) != nil {
			y = l.op("Sub", y, l.headLinear(narrow(x[1]), n.In(8)))
		}
	}
	outs := []*ir.Value{y, nil}
	if n.Out(1) != nil {
		outs[1] = narrow(r.stateAfter())
	}
	return outs
}

// wide casts to float64.
func (l *lowerer) wide(v *ir.Value) *ir.Value {
	return l.with("Cast", []*ir.Value{v}, ir.A("to", int(tensor.Float64)))
}

// stepwise is a recurrence under construction. Sequences are (samples, steps, states). States are (samples, states), or
// (heads, samples, states of a head) with full matrices.
type stepwise struct {
	*lowerer
	direction string
	window    int64
	dense     bool
	heads     int64
	states    int64       // number of states of all heads
	v         []*ir.Value // inputs: real and imaginary part
	lambda    []*ir.Value // real and imaginary part, (states); dense: the transposed matrix
	b, cut    []*ir.Value // factors of an input that enters, and of an input that leaves the window
	z         []*ir.Value // states before the first step
	past      []*ir.Value // inputs before the first step
	last      []*ir.Value // states after the last step
}

func (r *stepwise) diagonalSystem(n *ir.Node) {
	size, ok := n.In(1).Shape().Size().Known()
	if !ok {
		r.needSizes(n)
		return
	}
	r.states = size
	flat := func(i int) *ir.Value { return r.op("Reshape", n.In(i), r.Ints(-1)) }
	re, im := flat(1), flat(2)
	power := func(k int64) (pr, pi *ir.Value) {
		scale := r.number("lag", tensor.Float64, []float64{float64(k)})
		size, angle := r.op("Exp", r.op("Mul", re, scale)), r.op("Mul", im, scale)
		return r.op("Mul", size, r.op("Cos", angle)), r.op("Mul", size, r.op("Sin", angle))
	}
	pr, pi := power(1)
	r.lambda = []*ir.Value{pr, pi}
	r.b = []*ir.Value{flat(3), flat(4)}
	if r.window > 0 {
		cr, ci := power(r.window)
		r.cut = r.times([]*ir.Value{cr, ci}, r.b)
	}
}

func (r *stepwise) denseSystem(n *ir.Node) {
	s := n.In(1).Shape()
	size, ok := s.Size().Known()
	if !ok || size == 0 {
		r.needSizes(n)
		return
	}
	k, _ := s[3].Known()
	r.heads, r.states = size/(k*k), size/k
	turned := func(v *ir.Value) *ir.Value {
		return r.with("Transpose", []*ir.Value{v}, ir.A("perm", []int64{0, 2, 1}))
	}
	abar := r.op("Reshape", n.In(1), r.Ints(-1, k, k))
	gamma := r.op("Reshape", n.In(2), r.Ints(-1, k, k))
	r.lambda, r.b = []*ir.Value{turned(abar)}, []*ir.Value{turned(gamma)}
	if r.window > 0 {
		cut, square := gamma, abar // Ā^ℓ Γ by squaring
		for w := r.window; w > 0; w >>= 1 {
			if w&1 == 1 {
				cut = r.op("MatMul", square, cut)
			}
			if w > 1 {
				square = r.op("MatMul", square, square)
			}
		}
		r.cut = []*ir.Value{turned(cut)}
	}
}

// times multiplies complex numbers. b is real if it has one part.
func (r *stepwise) times(a, b []*ir.Value) []*ir.Value {
	if len(b) == 1 {
		return []*ir.Value{r.op("Mul", a[0], b[0]), r.op("Mul", a[1], b[0])}
	}
	return []*ir.Value{
		r.op("Sub", r.op("Mul", a[0], b[0]), r.op("Mul", a[1], b[1])),
		r.op("Add", r.op("Mul", a[0], b[1]), r.op("Mul", a[1], b[0])),
	}
}

// start reads the state before the first step, which is zeros if state is nil.
func (r *stepwise) start(state *ir.Value) {
	samples := r.with("Gather", []*ir.Value{r.op("Shape", r.v[0]), r.Ints(0)}, ir.A("axis", 0))
	zeros := func(dims ...int64) *ir.Value {
		shape := r.with("Concat", []*ir.Value{samples, r.Ints(dims...)}, ir.A("axis", 0))
		return r.with("ConstantOfShape", []*ir.Value{shape}, ir.A("value", tensor.FromSlice([]float64{0}, 1)))
	}
	parts := 2
	if r.dense {
		parts = 1
	}
	if state == nil {
		for range parts {
			r.z = append(r.z, zeros(r.states))
		}
		for range r.v {
			r.past = append(r.past, zeros(r.window, r.states))
		}
	} else {
		state = r.wide(state)
		sizes := slices.Repeat([]int64{r.states}, parts)
		if r.window > 0 {
			sizes = append(sizes, r.window*r.states*int64(len(r.v)))
		}
		p := []*ir.Value{state}
		if len(sizes) > 1 {
			p = r.several("Split", len(sizes), []*ir.Value{state, r.Ints(sizes...)}, ir.A("axis", 1))
		}
		r.z = slices.Clone(p[:parts])
		if r.window > 0 {
			past := r.op("Reshape", p[parts], r.Ints(-1, r.window, r.states*int64(len(r.v))))
			r.past = []*ir.Value{past}
			if len(r.v) > 1 {
				r.past = r.several("Split", 2, []*ir.Value{past, r.Ints(r.states, r.states)}, ir.A("axis", 2))
			}
		}
	}
	if r.dense {
		for i, z := range r.z {
			r.z[i] = r.byHead(z, 2)
		}
	}
}

// byHead rearranges (samples, [steps,] states) to (heads, samples, [steps,] states of a head).
func (r *stepwise) byHead(v *ir.Value, rank int) *ir.Value {
	if rank == 2 {
		return r.with("Transpose", []*ir.Value{r.op("Reshape", v, r.Ints(0, r.heads, -1))},
			ir.A("perm", []int64{1, 0, 2}))
	}
	return r.with("Transpose", []*ir.Value{r.op("Reshape", v, r.Ints(0, 0, r.heads, -1))},
		ir.A("perm", []int64{2, 0, 1, 3}))
}

// run adds the Scan in one direction and returns the states at all steps.
func (r *stepwise) run(backward bool) []*ir.Value {
	terms := func(v []*ir.Value, gain []*ir.Value) []*ir.Value {
		if r.dense { // (heads, samples, steps, k) times (heads, 1, k, k)
			return []*ir.Value{r.op("MatMul", r.byHead(v[0], 3), r.op("Unsqueeze", gain[0], r.Ints(1)))}
		}
		return r.times(gain, v)
	}
	in := terms(r.v, r.b)
	if r.window > 0 {
		var gone []*ir.Value // the inputs that leave the window
		for i, v := range r.v {
			if backward {
				zeros := r.op("Mul", r.past[i], r.number("zero", tensor.Float64, []float64{0}))
				gone = append(gone, r.op("Slice", r.with("Concat", []*ir.Value{v, zeros}, ir.A("axis", 1)),
					r.Ints(r.window), r.Ints(1<<62), r.Ints(1)))
			} else {
				gone = append(gone, r.op("Slice", r.with("Concat", []*ir.Value{r.past[i], v}, ir.A("axis", 1)),
					r.Ints(0), r.Ints(-r.window), r.Ints(1)))
			}
		}
		for i, t := range terms(gone, r.cut) {
			in[i] = r.op("Sub", in[i], t)
		}
	}
	axis := 1
	part := ir.Tensor(tensor.Float64, ir.Unknown, int(r.states))
	if r.dense {
		axis = 2
		part = ir.Tensor(tensor.Float64, int(r.heads), ir.Unknown, int(r.states/r.heads))
	}
	prefix := r.Unique("step")
	b := r.Sub("step")
	var state, steps []*ir.Value
	for i := range in {
		state = append(state, b.Input(fmt.Sprint(prefix, ".state", i), part))
	}
	for i := range in {
		steps = append(steps, b.Input(fmt.Sprint(prefix, ".in", i), part))
	}
	op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
	var next []*ir.Value
	if r.dense {
		next = []*ir.Value{op("Add", op("MatMul", state[0], r.lambda[0]), steps[0])}
	} else {
		next = []*ir.Value{
			op("Add", op("Sub", op("Mul", r.lambda[0], state[0]), op("Mul", r.lambda[1], state[1])), steps[0]),
			op("Add", op("Add", op("Mul", r.lambda[0], state[1]), op("Mul", r.lambda[1], state[0])), steps[1]),
		}
	}
	for _, v := range next {
		b.Output("", v)
	}
	for i := range next {
		if backward {
			b.Output("", op("Identity", state[i])) // a step reads the state after it
		} else {
			b.Output("", op("Identity", next[i]))
		}
	}
	body, err := b.Build()
	if err != nil {
		r.Fail(err)
		return next
	}
	k := len(in)
	direction := int64(0)
	if backward {
		direction = 1
	}
	axes, directions := slices.Repeat([]int64{int64(axis)}, k), slices.Repeat([]int64{direction}, k)
	out := r.several("Scan", 2*k, append(slices.Clone(r.z), in...), ir.A("body", body), ir.A("num_scan_inputs", k),
		ir.A("scan_input_axes", axes), ir.A("scan_output_axes", axes), ir.A("scan_input_directions", directions),
		ir.A("scan_output_directions", directions))
	if !backward {
		r.last = slices.Clone(out[:k])
	}
	x := slices.Clone(out[k:])
	if r.dense {
		v := r.with("Transpose", []*ir.Value{x[0]}, ir.A("perm", []int64{1, 2, 0, 3}))
		x[0] = r.op("Reshape", v, r.Ints(0, 0, -1))
	}
	return x
}

// stateAfter returns the state after the last step in the layout of the operators.
func (r *stepwise) stateAfter() *ir.Value {
	parts := slices.Clone(r.last)
	if r.dense {
		v := r.with("Transpose", []*ir.Value{parts[0]}, ir.A("perm", []int64{1, 0, 2}))
		parts[0] = r.op("Reshape", v, r.Ints(0, -1))
	}
	if r.window > 0 {
		var kept []*ir.Value
		for i, v := range r.v {
			kept = append(kept, r.op("Slice", r.with("Concat", []*ir.Value{r.past[i], v}, ir.A("axis", 1)),
				r.Ints(-r.window), r.Ints(1<<62), r.Ints(1)))
		}
		all := kept[0]
		if len(kept) > 1 {
			all = r.with("Concat", kept, ir.A("axis", 2))
		}
		parts = append(parts, r.op("Reshape", all, r.Ints(0, -1)))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return r.with("Concat", parts, ir.A("axis", 1))
}

func (r *stepwise) needSizes(n *ir.Node) {
	r.Fail(fmt.Errorf("expected a system of known sizes, found %v", n.In(1).Shape()))
}
