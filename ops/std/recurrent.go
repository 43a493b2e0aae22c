package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Recurrent layers. A cell with H units per direction reads sequences X (L,B,I), or (B,L,I) with layout 1.
var (
	RNN = recurrent("RNN", 1, "H[t] = f(X[t]·Wᵀ + H[t-1]·Rᵀ + Wb + Rb), in one or both directions.", rnnCell)
	GRU = recurrent("GRU", 3,
		"Gated recurrent units: z, r = f(…), h = g(X·Whᵀ + (r∘H)·Rhᵀ + …), H = (1-z)∘h + z∘H; gates in order z, r, h.",
		gruCell,
		intAttr("linear_before_reset", 0, "whether r multiplies H·Rhᵀ + Rbh instead of H"))
	LSTM = recurrent("LSTM", 4,
		"Long short-term memory: i, f, o = f(…), c = g(…), C = f∘C + i∘c, H = o∘h(C); gates in order i, o, f, c, "+
			"peepholes P in order i, o, f.", lstmCell,
		intAttr("input_forget", 0, "whether f is 1-i"))
)

func init() {
	ops.Same(RNN, 14, 7)
	ops.Same(GRU, 14, 7)
	ops.Same(LSTM, 14, 7)
	// Before version 7, an attribute stated whether Y is needed. The node's outputs show it, too.
	sequence := intAttr("output_sequence", 0, "ignored")
	sameButFor(RNN, 1, sequence)
	sameButFor(GRU, 3, sequence)
	sameButFor(GRU, 1, sequence)
	sameButFor(LSTM, 1, sequence)
}

// cell computes one step of one sample. x holds X[t]·Wᵀ + Wb and r holds H[t-1]·Rᵀ + Rb, gate after gate. It replaces h
// and, if there is one, c.
type cell func(ec *ir.EvalCtx, l *layer, x, r, h, c []float64)

// layer is one direction of a recurrent layer.
type layer struct {
	hidden, inputs    int
	w, r, wb, rb, p   []float64 // (G*H,I), (G*H,H), (G*H), (G*H), (3*H) or nil
	f                 []func(float64) float64
	linear, couple    bool
	clip              float64 // 0: none
	resetH, candidate []float64
}

// act applies activation i to a clipped number.
func (l *layer) act(i int, x float64) float64 {
	if l.clip > 0 {
		x = min(max(x, -l.clip), l.clip)
	}
	return l.f[i](x)
}

func rnnCell(ec *ir.EvalCtx, l *layer, x, r, h, _ []float64) {
	for i := range ops.Each(ec, len(h)) {
		h[i] = l.act(0, x[i]+r[i])
	}
}

func gruCell(ec *ir.EvalCtx, l *layer, x, r, h, _ []float64) {
	n := l.hidden
	for i := range ops.Each(ec, n) {
		x[i], x[n+i] = l.act(0, x[i]+r[i]), l.act(0, x[n+i]+r[n+i])
	}
	last := r[2*n:]
	if l.linear {
		for i := range ops.Each(ec, n) {
			l.candidate[i] = x[n+i] * last[i]
		}
	} else {
		for i := range ops.Each(ec, n) {
			l.resetH[i] = x[n+i] * h[i]
		}
		for i := range ops.Each(ec, n) {
			l.candidate[i] = l.rb[2*n+i] + dot(ec, l.r[(2*n+i)*n:(2*n+i+1)*n], l.resetH)
		}
	}
	for i := range ops.Each(ec, n) {
		h[i] = (1-x[i])*l.act(1, x[2*n+i]+l.candidate[i]) + x[i]*h[i]
	}
}

func lstmCell(ec *ir.EvalCtx, l *layer, x, r, h, c []float64) {
	n := l.hidden
	peep := func(k, i int) float64 {
		if l.p == nil {
			return 0
		}
		return l.p[k*n+i]
	}
	for i := range n {
		ec.Step(1)
		in := l.act(0, x[i]+r[i]+peep(0, i)*c[i])
		forget := 1 - in
		if !l.couple {
			forget = l.act(0, x[2*n+i]+r[2*n+i]+peep(2, i)*c[i])
		}
		c[i] = forget*c[i] + in*l.act(1, x[3*n+i]+r[3*n+i])
		h[i] = l.act(0, x[n+i]+r[n+i]+peep(1, i)*c[i]) * l.f[2](c[i])
	}
}

func dot(c *ir.EvalCtx, a, b []float64) float64 {
	var sum float64
	for i, x := range ops.All(c, a) {
		sum += x * b[i]
	}
	return sum
}

func recurrent(name string, gates int, doc string, step cell, attrs ...ir.AttrSpec) *ir.Op {
	in, out := ops.Sig("X:T[_,_,_]", "W:T[_,_,_]", "R:T[_,_,_]", "B:T[_,_]?", "sequence_lens:int32[_]?",
		"initial_h:T[_,_,_]?"), ops.Sig("Y:T?", "Y_h:T?")
	if name == "LSTM" {
		in, out = append(in, ops.Sig("initial_c:T[_,_,_]?", "P:T[_,_]?")...), append(out, ops.Sig("Y_c:T?")...)
	}
	return ops.Register(&ir.Op{
		Name: name, Since: 22, Doc: doc, In: in, Out: out, GradientBody: bodyRecurrent,
		Attrs: append([]ir.AttrSpec{
			{Name: "activation_alpha", Kind: ir.AttrFloats,
				Doc: "parameters of the activations with parameters, in order"},
			{Name: "activation_beta", Kind: ir.AttrFloats, Doc: "their second parameters"},
			{Name: "activations", Kind: ir.AttrStrings, Doc: "activations, per direction"},
			{Name: "clip", Kind: ir.AttrFloat, Doc: "bound of the arguments of activations"},
			oneOf("direction", "forward", "direction of time", "reverse", "bidirectional"),
			intAttr("hidden_size", nil, "H"),
			intAttr("layout", 0, "0: the first axis is time; 1: it is the batch"),
		}, attrs...),
		Infer: func(n *ir.Node) ([]ir.Type, error) { return inferRecurrent(n, gates) },
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			return evalRecurrent(c, in, gates, step)
		},
		Along: alongRecurrent,
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			x := n.In(0)
			return workOf(n, bind, 2*ops.DimAt(x, 0, bind)*ops.DimAt(x, 1,
				bind)*(ops.Count(n.In(1), bind)+ops.Count(n.In(2), bind)))
		},
		Tol: ir.Long,
	})
}

func directions(n *ir.Node) int {
	if getStr(n, "direction") == "bidirectional" {
		return 2
	}
	return 1
}

func inferRecurrent(n *ir.Node, gates int) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	x, r := tensorIn(n, 0), tensorIn(n, 2)
	hidden := ir.Unknown
	if !r.NoRank {
		hidden = r.Shape[2]
	}
	if h, ok := n.Attrs.Get("hidden_size").(int64); ok {
		if k, known := hidden.Known(); h < 1 || known && k != h {
			return nil, fmt.Errorf("hidden_size is %d, R is %v", h, r)
		}
		hidden = ir.Const(h)
	}
	dirs := directions(n)
	want := []ir.Dim{ir.Const(int64(dirs)), hidden.Mul(ir.Const(int64(gates)))}
	for i := 1; i <= 2; i++ {
		t := tensorIn(n, i)
		for j, d := range want {
			if t.NoRank {
				continue
			}
			a, ok := d.Known()
			if b, known := t.Shape[j].Known(); ok && known && a != b {
				return nil, fmt.Errorf("input %d is %v: expected %d for axis %d", i, t, a, j)
			}
		}
	}
	out := make([]ir.Type, len(n.Op.Out))
	length, batch := ir.Unknown, ir.Unknown
	if !x.NoRank {
		length, batch = x.Shape[0], x.Shape[1]
	}
	d := ir.Const(int64(dirs))
	y, last := ir.Shape{length, d, batch, hidden}, ir.Shape{d, batch, hidden}
	if getInt(n, "layout") != 0 {
		length, batch = batch, length
		y, last = ir.Shape{batch, length, d, hidden}, ir.Shape{batch, d, hidden}
	}
	out[0] = typed(x.Elem, y)
	for i := 1; i < len(out); i++ {
		out[i] = typed(x.Elem, last)
	}
	return out, nil
}

// CellActivation is an activation of a recurrent layer. A and B are its parameters, if it has any.
type CellActivation struct {
	Name string
	A, B float64
}

// cellDefaults are the activations of recurrent layers that state none, for each direction, and cellParameters the
// parameters of all activations, where a layer states none.
var (
	cellDefaults = map[string][]string{"RNN": {"Tanh"}, "GRU": {"Sigmoid", "Tanh"}, "LSTM": {"Sigmoid", "Tanh", "Tanh"}}

	cellParameters = map[string][]float64{"Relu": nil, "Tanh": nil, "Sigmoid": nil, "Softsign": nil, "Softplus": nil,
		"Affine": {1, 0}, "ScaledTanh": {1, 1}, "HardSigmoid": {f32(0.2), 0.5}, "LeakyRelu": {f32(0.01)},
		"ThresholdedRelu": {1},
		"Elu":             {1}}
)

// CellActivations returns the activations of an RNN, GRU or LSTM, direction by direction. Parameters are listed in
// order, only for activations that have any.
func CellActivations(n *ir.Node) ([]CellActivation, error) {
	standard := cellDefaults[n.Op.Name]
	names, count := n.Attrs.Strs("activations", nil), len(standard)*directions(n)
	if names == nil {
		for range directions(n) {
			names = append(names, standard...)
		}
	}
	if len(names) != count {
		return nil, fmt.Errorf("activations %v: expected %d", names, count)
	}
	lists := [2][]float64{n.Attrs.Floats("activation_alpha", nil), n.Attrs.Floats("activation_beta", nil)}
	var all []CellActivation
	for _, name := range names {
		defaults, known := cellParameters[name]
		if !known {
			return nil, fmt.Errorf("activations: %q is not known", name)
		}
		a := CellActivation{Name: name}
		for j, p := range []*float64{&a.A, &a.B}[:len(defaults)] {
			if *p = defaults[j]; len(lists[j]) > 0 {
				*p, lists[j] = lists[j][0], lists[j][1:]
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// function returns the activation for one number.
func (f CellActivation) function() func(float64) float64 {
	a, b := f.A, f.B
	switch f.Name {
	case "Relu":
		return func(x float64) float64 { return max(x, 0) }
	case "Tanh":
		return math.Tanh
	case "Sigmoid":
		return sigmoid
	case "Softsign":
		return func(x float64) float64 { return x / (1 + math.Abs(x)) }
	case "Softplus":
		return softplus
	case "Affine":
		return func(x float64) float64 { return a*x + b }
	case "ScaledTanh":
		return func(x float64) float64 { return a * math.Tanh(b*x) }
	case "HardSigmoid":
		return func(x float64) float64 { return min(max(a*x+b, 0), 1) }
	case "LeakyRelu":
		return func(x float64) float64 { return max(x, 0) + a*min(x, 0) }
	case "ThresholdedRelu":
		return func(x float64) float64 {
			if x > a {
				return x
			}
			return 0
		}
	}
	return func(x float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) } // Elu
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// recurrentInputs holds the inputs as numbers, with their sizes.
type recurrentInputs struct {
	length, batch, inputs, hidden, dirs int
	batchFirst                          bool
	x                                   []float64
	layers                              []layer
	lens                                []int64
	state                               [2][]float64 // (dirs,batch,hidden): h and c
}

func readRecurrent(c *ir.EvalCtx, in []tensor.Datum, gates int) (*recurrentInputs, error) {
	n := c.Node
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	r, err := need(in, 2, "R")
	if err != nil {
		return nil, err
	}
	if x.Rank() != 3 || r.Rank() != 3 {
		return nil, fmt.Errorf("X %s, R %s: expected three axes each", x, r)
	}
	q := &recurrentInputs{length: x.Dim(0), batch: x.Dim(1), inputs: x.Dim(2), hidden: r.Dim(2), dirs: directions(n),
		batchFirst: getInt(n, "layout") != 0, x: ops.F64(c, in, 0)}
	if q.batchFirst {
		q.length, q.batch = q.batch, q.length
	}
	if h, ok := n.Attrs.Get("hidden_size").(int64); ok && h != int64(q.hidden) {
		return nil, fmt.Errorf("hidden_size is %d, R is %s", h, r)
	}
	gh := gates * q.hidden
	state := []int{q.dirs, q.batch, q.hidden}
	if q.batchFirst {
		state = []int{q.batch, q.dirs, q.hidden}
	}
	want := [][]int{x.Shape(), {q.dirs, gh, q.inputs}, {q.dirs, gh, q.hidden}, {q.dirs, 2 * gh}, {q.batch}, state,
		state, {q.dirs, 3 * q.hidden}}
	data := make([][]float64, len(want))
	for i, p := range n.Op.In {
		t := ops.Tensor(in, i)
		if t == nil {
			if i == 1 {
				return nil, fmt.Errorf("input 1 (W) is missing")
			}
			continue
		}
		if err := ops.SameShape(t.Shape(), want[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		data[i] = ops.F64(c, in, i)
	}
	if q.lens, err = ints(c, in, 4); err != nil {
		return nil, err
	}
	for _, l := range ops.All(c, q.lens) {
		if l < 0 || l > int64(q.length) {
			return nil, fmt.Errorf("sequence_lens: %d of %d steps", l, q.length)
		}
	}
	for i := range q.state {
		q.state[i] = ops.Make[float64](c, q.dirs*q.batch*q.hidden)
		if data[5+i] != nil {
			q.turn(c, q.state[i], data[5+i])
		}
	}
	activations, err := CellActivations(n)
	if err != nil {
		return nil, err
	}
	var f []func(float64) float64
	for _, a := range activations {
		f = append(f, a.function())
	}
	k := len(f) / q.dirs
	part := func(v []float64, d, size int) []float64 {
		if v == nil {
			return nil
		}
		return v[d*size : (d+1)*size]
	}
	for d := range q.dirs {
		l := layer{hidden: q.hidden, inputs: q.inputs, w: part(data[1], d, gh*q.inputs),
			r: part(data[2], d, gh*q.hidden), p: part(data[7], d, 3*q.hidden),
			f: f[d*k : (d+1)*k], clip: n.Attrs.Float("clip", 0), linear: n.Attrs.Bool("linear_before_reset", false),
			couple: n.Attrs.Bool("input_forget", false),
			resetH: ops.Make[float64](c, q.hidden), candidate: ops.Make[float64](c, q.hidden),
			wb: ops.Make[float64](c, gh), rb: ops.Make[float64](c, gh)}
		if b := part(data[3], d, 2*gh); b != nil {
			l.wb, l.rb = b[:gh], b[gh:]
		}
		q.layers = append(q.layers, l)
	}
	return q, nil
}

// turn copies states between the caller's layout and (dirs,batch,hidden). If the batch comes first, these two axes are
// swapped.
func (q *recurrentInputs) turn(c *ir.EvalCtx, dst, src []float64) {
	for d := range q.dirs {
		for b := range ops.Each(c, q.batch) {
			from := d*q.batch + b
			if q.batchFirst {
				from = b*q.dirs + d
			}
			ops.Put(c, dst[(d*q.batch+b)*q.hidden:(d*q.batch+b+1)*q.hidden], src[from*q.hidden:])
		}
	}
}

func evalRecurrent(c *ir.EvalCtx, in []tensor.Datum, gates int, step cell) ([]tensor.Datum, error) {
	q, err := readRecurrent(c, in, gates)
	if err != nil {
		return nil, err
	}
	h, gh := q.hidden, gates*q.hidden
	shape, last := []int{q.length, q.dirs, q.batch, h}, []int{q.dirs, q.batch, h}
	if q.batchFirst {
		shape, last = []int{q.batch, q.length, q.dirs, h}, []int{q.batch, q.dirs, h}
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	y, gx, gr := ops.Make[float64](c, product(shape)), ops.Make[float64](c, gh), ops.Make[float64](c, gh)
	for d := range q.layers {
		l := &q.layers[d]
		backwards := d == 1 || getStr(c.Node, "direction") == "reverse"
		for b := range q.batch {
			c.Step(1)
			hs, cs := q.state[0][(d*q.batch+b)*h:][:h], q.state[1][(d*q.batch+b)*h:][:h]
			steps := q.length
			if q.lens != nil {
				steps = int(q.lens[b])
			}
			for s := range steps {
				c.Step(1)
				t := s
				if backwards {
					t = steps - 1 - s
				}
				xAt, yAt := t*q.batch+b, (t*q.dirs+d)*q.batch+b
				if q.batchFirst {
					xAt, yAt = b*q.length+t, (b*q.length+t)*q.dirs+d
				}
				x := q.x[xAt*q.inputs : (xAt+1)*q.inputs]
				for i := range ops.Each(c, len(gx)) {
					gx[i] = l.wb[i] + dot(c, l.w[i*q.inputs:(i+1)*q.inputs], x)
					gr[i] = l.rb[i] + dot(c, l.r[i*h:(i+1)*h], hs)
				}
				step(c, l, gx, gr, hs, cs)
				ops.Put(c, y[yAt*h:(yAt+1)*h], hs)
			}
		}
	}
	dtype := ops.Tensor(in, 0).DType()
	out, err := ops.One(ops.Real(c, dtype, y, shape...))
	for i := 0; err == nil && len(out) < len(c.Node.Op.Out); i++ {
		v := ops.Clone(c, q.state[i])
		if q.batchFirst {
			for d := range q.dirs {
				for b := range ops.Each(c, q.batch) {
					ops.Put(c, v[(b*q.dirs+d)*h:(b*q.dirs+d+1)*h], q.state[i][(d*q.batch+b)*h:])
				}
			}
		}
		var t *tensor.Tensor
		if t, err = ops.Real(c, dtype, v, last...); err == nil {
			out = append(out, t)
		}
	}
	return out, err
}

// alongRecurrent returns the facts of a recurrent layer. Forward, a step depends on those before it through the state;
// backward, on those after it. Samples are separate.
func alongRecurrent(n *ir.Node, in []ir.Fact) []ir.Fact {
	timeAxis, batchAxis := 0, 1
	yTime, yBatch, lastBatch := 0, 2, 1
	if getInt(n, "layout") != 0 {
		timeAxis, batchAxis, yTime, yBatch, lastBatch = 1, 0, 1, 0, 0
	}
	f := in[0]
	f.State = 0
	others := false
	for _, o := range in[1:] {
		others = others || !o.Constant()
	}
	if !f.Constant() && !f.Global && !others && f.Axis == timeAxis {
		out := spread(n, f)
		y := &out[0]
		y.Axis, y.Cause = yTime, n
		dir := getStr(n, "direction")
		if dir != "reverse" {
			y.Summary = f.Back < ir.Unbounded || f.Summary
			y.Back = ir.Unbounded
			hidden := ir.Unknown
			if r := n.In(2).Shape(); len(r) == 3 {
				hidden = r[2]
			}
			states := ir.Shape{hidden, ir.Const(int64(len(n.Op.Out) - 1))}
			y.State = stateSize(states)
		}
		if dir != "forward" {
			y.Ahead = ir.Unbounded
		}
		for i := 1; i < len(out); i++ {
			out[i] = *y
			out[i].Axis, out[i].State = -1, 0
		}
		return out
	}
	// Batch: the inputs that vary must have samples on the axes where the operator expects them.
	axes := map[int]int{0: batchAxis, 4: 0, 5: lastBatch, 6: lastBatch}
	var joined ir.Fact
	for i, o := range in {
		if o.Constant() {
			continue
		}
		axis, ok := axes[i]
		if !ok || o.Global || o.Axis != axis || !joined.Constant() && joined.Stride != o.Stride {
			return spread(n, ops.Global(n, in))
		}
		o.Axis = 0
		joined = ops.Join(n, []ir.Fact{joined, o}, []int{1, 1}, 1)
	}
	if joined.Constant() {
		return spread(n, joined)
	}
	out := spread(n, joined)
	for i := range out {
		out[i].Axis = lastBatch
	}
	out[0].Axis = yBatch
	return out
}
