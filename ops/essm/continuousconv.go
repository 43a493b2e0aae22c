package essm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ContinuousConv is MatrixConv with a kernel that a network of three layers computes, which depends on the length of
// the sequence (CKConv).
var ContinuousConv = ops.Register(&ir.Op{
	Domain: "essm", Name: "ContinuousConv",
	Doc: `MatrixConv with kernels that depend on the length L. They are sampled at L places r from -1 to about 1:
k = w3 f(norm(w2 f(norm(w1 r + b1)) + b2)) + b3, with rows of w3 by output and input. The last place is lag 0. norm, where
given, is over all places and units together, then a scale and an offset for each unit. With train_length T (0: L), places
are those of training at a rate T/L, rounded to a whole number or one over such a number: above 1, kernels are multiplied
with it; below 1 they are also smoothed first, by a Gaussian of deviation 0.5, away from the ends.`,
	In: ops.Sig("v:T[B,L,M]", "w1:float64[Q]", "b1:float64[Q]", "w2:float64[P,Q]", "b2:float64[P]", "w3:float64[O,P]",
		"b3:float64[O]", "norm1:float64[2,Q]?", "norm2:float64[2,P]?"),
	Out: ops.Sig("x:T[B,L,_]"),
	Attrs: []ir.AttrSpec{
		{Name: "activation", Kind: ir.AttrString, Required: true,
			OneOf: []string{"sine", "relu", "leaky_relu", "swish"}, Doc: "f; leaky_relu has the slope 0.01"},
		{Name: "train_length", Kind: ir.AttrInt, Default: int64(0), Doc: "number of places in training, not 1; 0: L"},
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		types, err := b.Outputs(n.Op)
		if err != nil {
			return nil, err
		}
		if t := n.Attrs.Int("train_length", 0); t < 0 || t == 1 || t > ops.MaxElems {
			return nil, fmt.Errorf("train_length: expected 0, or 2 to %d, found %d", ops.MaxElems, t)
		}
		rows, okO := b.At("O").Known()
		inputs, okM := b.At("M").Known()
		out := types[0].(*ir.TensorType)
		if okO && okM {
			if inputs < 1 || rows%inputs != 0 {
				return nil, fmt.Errorf("w3 has %d rows, expected a multiple of %d inputs", rows, inputs)
			}
			out.Shape[2] = ir.Const(rows / inputs)
		}
		return types, nil
	},
	Eval: evalContinuousConv,
	Body: continuousBody,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if f := in[0]; f.Axis == 0 && !f.Global { // samples are apart
			f.State = 0
			return []ir.Fact{f}
		}
		return []ir.Fact{ops.Global(n, in)}
	},
	Tol: ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		l := ops.DimAt(n.In(0), 1, bind)
		w := matrixWork(n, bind, ops.DimAt(n.Outputs[0], 2, bind), l)
		for _, i := range []int{1, 3, 5} {
			w.Flops += ops.Product(2, l, ops.Count(n.In(i), bind))
		}
		return w
	},
})

// KernelNet is the network of a ContinuousConv.
type KernelNet struct {
	W1, B1, W2, B2, W3, B3 []float64
	Norm1, Norm2           []float64 // scales, then offsets; nil: none
	Activation             string
	Train                  int // train_length
}

// Units returns the numbers of units of the two inner layers.
func (k *KernelNet) Units() (first, second int) { return len(k.B1), len(k.B2) }

// normEpsilon is added to variances.
const normEpsilon = 1e-12

// Rate returns the number that kernels of length l are multiplied with, and the last place.
func (k *KernelNet) Rate(l int) (rate, last float64) {
	train := k.Train
	if train == 0 {
		train = l
	}
	step := 2 / math.Max(1, float64(train-1))
	if train > l {
		rate = math.RoundToEven(float64(train) / float64(l))
		return rate, 1 - math.Mod(float64(train-1), rate)*step
	}
	times := math.RoundToEven(float64(l) / float64(train))
	return 1 / times, 1 + math.Mod(float64(l-1), times)*step/times
}

// Hidden computes the units of the second layer, in h2, at all positions for kernels of length l; h1 is for the
// units of the first. step is called with numbers of operations; it may panic.
func (k *KernelNet) Hidden(h1, h2 []float64, l int, step func(n int)) {
	q, p := k.Units()
	_, last := k.Rate(l)
	for t := range l {
		step(q)
		r := -1 + (last+1)*float64(t)/math.Max(1, float64(l-1))
		for i := range q {
			h1[t*q+i] = r*k.W1[i] + k.B1[i]
		}
	}
	k.activate(h1, k.Norm1, l, q, step)
	for t := range l {
		for i := range p {
			step(q)
			sum := k.B2[i]
			for j, w := range k.W2[i*q : (i+1)*q] {
				sum += w * h1[t*q+j]
			}
			h2[t*p+i] = sum
		}
	}
	k.activate(h2, k.Norm2, l, p, step)
}

// activate applies the norm, if there is one, and the activation to units of l places.
func (k *KernelNet) activate(h, norm []float64, l, units int, step func(n int)) {
	mean, scale := 0.0, 1.0
	if norm != nil {
		variance := 0.0
		for t := range l {
			step(units)
			for _, x := range h[t*units : (t+1)*units] {
				mean += x
			}
		}
		mean /= float64(len(h))
		for t := range l {
			step(units)
			for _, x := range h[t*units : (t+1)*units] {
				variance += (x - mean) * (x - mean)
			}
		}
		scale = 1 / math.Sqrt(variance/float64(len(h))+normEpsilon)
	}
	for t := range l {
		step(8 * units)
		for i := range units {
			x := h[t*units+i]
			if norm != nil {
				x = (x-mean)*scale*norm[i] + norm[units+i]
			}
			switch {
			case k.Activation == "sine":
				x = math.Sin(x)
			case k.Activation == "swish":
				x /= 1 + math.Exp(-x)
			case x < 0 && k.Activation == "relu":
				x = 0
			case x < 0:
				x *= 0.01
			}
			h[t*units+i] = x
		}
	}
}

// smoothing is one half of the taps that matter: beyond, they are below 1e-21.
const smoothing = 5

// gaussian is the tap at a distance.
func gaussian(x int) float64 {
	return math.Sqrt(2/math.Pi) * math.Exp(-2*float64(x*x))
}

// Row computes row o of the kernels, in dst, whose first number is lag 0. h2 is what Hidden computed; tmp is as long as
// dst.
func (k *KernelNet) Row(dst, tmp, h2 []float64, o int, step func(n int)) {
	l, p := len(dst), len(k.B2)
	rate, _ := k.Rate(l)
	for t := range l {
		step(p)
		sum := k.B3[o]
		for j, w := range k.W3[o*p : (o+1)*p] {
			sum += w * h2[t*p+j]
		}
		tmp[t] = sum
	}
	half := l
	if rate < 1 {
		half = int(math.Round(1 / rate))
	}
	reach := min(half, smoothing)
	for t := range l {
		sum := tmp[t]
		if rate < 1 && t >= half && t < l-half {
			step(reach)
			sum *= gaussian(0)
			for i := 1; i <= reach; i++ {
				sum += gaussian(i) * (tmp[t-i] + tmp[t+i])
			}
		}
		dst[l-1-t] = rate * sum
	}
}

func evalContinuousConv(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	v, n := ops.Tensor(in, 0), c.Node
	net := &KernelNet{W1: ops.F64(c, in, 1), B1: ops.F64(c, in, 2), W2: ops.F64(c, in, 3), B2: ops.F64(c, in, 4),
		W3: ops.F64(c, in, 5), B3: ops.F64(c, in, 6), Norm1: ops.F64(c, in, 7), Norm2: ops.F64(c, in, 8),
		Activation: n.Attrs.Str("activation", ""), Train: int(n.Attrs.Int("train_length", 0))}
	l, m := v.Dim(1), v.Dim(2)
	q, p := net.Units()
	rows := len(net.B3)
	if m == 0 || rows%m != 0 || net.Train == 1 || net.Train < 0 {
		return nil, fmt.Errorf("w3 has %d rows, train_length is %d: expected a multiple of %d rows, and a length of "+
			"0 or at least 2",
			rows, net.Train, m)
	}
	if _, err := ops.Elems([]int{rows, l}); err != nil {
		return nil, err
	}
	step := func(n int) { c.Step(n) }
	k, tmp := ops.Make[float64](c, rows*l), ops.Make[float64](c, l)
	if l > 0 {
		h1, h2 := ops.Make[float64](c, l*q), ops.Make[float64](c, l*p)
		net.Hidden(h1, h2, l, step)
		for o := range rows {
			c.Step(1)
			net.Row(k[o*l:(o+1)*l], tmp, h2, o, step)
		}
	}
	return convolveMatrix(c, v, ops.F64(c, in, 0), k, rows/m, l)
}

// continuousBody computes the kernels by operators of ONNX, for any length.
func continuousBody(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	do := func(op string, in ...*ir.Value) *ir.Value { return b.Op("", op, in) }
	num := func(x float64) *ir.Value { return b.Const("number", tensor.Scalar(x)) }
	double := func(v *ir.Value) *ir.Value { return b.Op("", "Cast", []*ir.Value{v}, ir.A("to", int(tensor.Float64))) }
	mod := func(x, y *ir.Value) *ir.Value { return b.Op("", "Mod", []*ir.Value{x, y}, ir.A("fmod", 1)) }
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	steps := do("Squeeze", b.Op("", "Shape", []*ir.Value{in[0]}, ir.A("start", 1), ir.A("end", 2)))
	length := double(steps)
	train := length
	if t := n.Attrs.Int("train_length", 0); t > 0 {
		train = num(float64(t))
	}
	// The rate, and the last place.
	one := num(1)
	gaps := do("Max", do("Sub", train, one), one)
	step := do("Div", num(2), gaps)
	times, part := do("Max", do("Round", do("Div", length, train)), one),
		do("Max", do("Round", do("Div", train, length)), one)
	fewer := do("Greater", train, length)
	rate := do("Where", fewer, part, do("Div", one, times))
	last := do("Where", fewer, do("Sub", one, do("Mul", mod(gaps, part), step)),
		do("Add", one, do("Div", do("Mul", mod(do("Sub", length, one), times), step), times)))
	places := double(do("Range", b.Const("first", tensor.Scalar(int64(0))), steps,
		b.Const("next", tensor.Scalar(int64(1)))))
	r := do("Div", do("Mul", places, do("Add", last, one)), do("Max", do("Sub", length, one), one))
	r = do("Unsqueeze", do("Sub", r, one), b.Ints(1))
	// The network: rows by place.
	turned := func(v *ir.Value) *ir.Value { return do("Transpose", v) }
	h := do("Add", do("Mul", r, in[1]), in[2])
	h = bodyActivation(b, n, h, arg(7))
	h = bodyActivation(b, n, do("Add", do("MatMul", h, turned(in[3])), in[4]), arg(8))
	k := turned(do("Add", do("MatMul", h, turned(in[5])), in[6]))
	// Smoothing, by taps that are 0 beyond one half of the window.
	taps, reach := make([]float64, 2*smoothing+1), make([]float64, 2*smoothing+1)
	for i := range taps {
		taps[i], reach[i] = gaussian(i-smoothing), math.Abs(float64(i-smoothing))
	}
	vector := func(v []float64) *ir.Value { return b.Const("taps", tensor.FromSlice(v, 1, 1, len(v))) }
	window := do("Mul", vector(taps), double(do("LessOrEqual", vector(reach), times)))
	smooth := b.Op("", "Conv", []*ir.Value{do("Unsqueeze", k, b.Ints(1)), window},
		ir.A("pads", []int64{smoothing, smoothing}))
	away := do("And", do("GreaterOrEqual", places, times), do("Less", places, do("Sub", length, times)))
	away = do("And", away, do("Less", rate, one))
	k = do("Mul", do("Where", away, do("Squeeze", smooth, b.Ints(1)), k), rate)
	inputs := b.Op("", "Shape", []*ir.Value{in[0]}, ir.A("start", 2), ir.A("end", 3))
	size := b.Op("", "Concat", []*ir.Value{b.Ints(-1), inputs, do("Unsqueeze", steps, b.Ints(0))}, ir.A("axis", 0))
	k = do("Slice", do("Reshape", k, size), b.Ints(-1), b.Ints(-1<<62), b.Ints(2), b.Ints(-1))
	return []*ir.Value{b.Op("essm", "MatrixConv", []*ir.Value{in[0], k})}
}

// bodyActivation applies the norm, if there is one, and the activation to rows of units.
func bodyActivation(b *ir.Builder, n *ir.Node, h, norm *ir.Value) *ir.Value {
	do := func(op string, in ...*ir.Value) *ir.Value { return b.Op("", op, in) }
	num := func(x float64) *ir.Value { return b.Const("number", tensor.Scalar(x)) }
	if norm != nil {
		centred := do("Sub", h, do("ReduceMean", h))
		variance := do("ReduceMean", do("Mul", centred, centred))
		part := func(i int64) *ir.Value { return do("Gather", norm, b.Const("part", tensor.Scalar(i))) }
		h = do("Div", centred, do("Sqrt", do("Add", variance, num(normEpsilon))))
		h = do("Add", do("Mul", h, part(0)), part(1))
	}
	switch n.Attrs.Str("activation", "") {
	case "sine":
		return do("Sin", h)
	case "relu":
		return do("Relu", h)
	case "swish":
		return do("Mul", h, do("Sigmoid", h))
	}
	return b.Op("", "LeakyRelu", []*ir.Value{h}, ir.A("alpha", 0.01))
}
