package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// lowRank is a system with a diagonal plus low-rank matrix under construction. States are (samples, features, states),
// real and imaginary part.
type lowRank struct {
	*lowerer
	f, g, h, b, c, later, cut [2]*ir.Value // real and imaginary part
}

// lowerDPLRScan lowers essm.DPLRScan to ONNX Scans, one for each direction, with states in float64.
func lowerDPLRScan(l *lowerer, n *ir.Node) []*ir.Value {
	dims, known := n.In(3).Shape().Known()
	if !known {
		l.Fail(fmt.Errorf("expected a system of known sizes, found %v", n.In(3).Shape()))
		return []*ir.Value{failed, failed}
	}
	features, states, window := dims[0], dims[2], int(n.Attrs.Int("window", 0))
	r := &lowRank{lowerer: l}
	for i, part := range []*[2]*ir.Value{&r.f, &r.g, &r.h, &r.b, &r.c, &r.later} {
		part[0], part[1] = n.In(1+2*i), n.In(2+2*i)
	}
	u := l.wide(n.Inputs[0])
	// state before the first step
	var z [2]*ir.Value
	var past *ir.Value // the inputs in the window
	samples := l.with("Gather", []*ir.Value{l.op("Shape", u), l.Ints(0)}, ir.A("axis", 0))
	zeros := func(sizes ...int64) *ir.Value {
		shape := l.with("Concat", []*ir.Value{samples, l.Ints(sizes...)}, ir.A("axis", 0))
		return l.with("ConstantOfShape", []*ir.Value{shape}, ir.A("value", tensor.FromSlice([]float64{0}, 1)))
	}
	size := int64(features * states)
	if state := n.In(13); state != nil {
		sizes := []int64{size, size}
		if window > 0 {
			sizes = append(sizes, int64(window*features))
		}
		parts := l.several("Split", len(sizes), []*ir.Value{l.wide(state), l.Ints(sizes...)}, ir.A("axis", 1))
		for i := range z {
			z[i] = l.op("Reshape", parts[i], l.Ints(-1, int64(features), int64(states)))
		}
		if window > 0 {
			past = l.op("Reshape", parts[2], l.Ints(-1, int64(window), int64(features)))
		}
	} else {
		for i := range z {
			z[i] = zeros(int64(features), int64(states))
		}
		if window > 0 {
			past = zeros(int64(window), int64(features))
		}
	}
	in := []*ir.Value{u}
	var all *ir.Value
	if window > 0 {
		r.cutOff(features, states, window)
		all = l.with("Concat", []*ir.Value{past, u}, ir.A("axis", 1))
		in = append(in, l.op("Slice", all, l.Ints(0), l.Ints(-int64(window)), l.Ints(1)))
	}
	last, y := l.scan(overSteps{states: z[:], in: in,
		step: func(b *ir.Builder, states, in []*ir.Value) ([]*ir.Value, *ir.Value) {
			next := r.advance(b, states, in)
			return next, r.read(b, r.c, next)
		}})
	if r.later[0] != nil {
		back := []*ir.Value{u}
		if window > 0 {
			ahead := l.with("Concat", []*ir.Value{u, zeros(int64(window), int64(features))}, ir.A("axis", 1))
			back = append(back, l.op("Slice", ahead, l.Ints(int64(window)), l.Ints(1<<62), l.Ints(1)))
		}
		_, x := l.scan(overSteps{states: []*ir.Value{zeros(int64(features), int64(states)),
			zeros(int64(features), int64(states))},
			in: back, backward: true, step: func(b *ir.Builder, states, in []*ir.Value) ([]*ir.Value, *ir.Value) {
				return r.advance(b, states, in), r.read(b, r.later, states) // without the input of the step itself
			}})
		y = l.op("Add", y, x)
	}
	outs := []*ir.Value{l.with("Cast", []*ir.Value{y}, ir.A("to", int(n.Outputs[0].Elem()))), nil}
	if v := n.Out(1); v != nil {
		parts := []*ir.Value{l.op("Reshape", last[0], l.Ints(0, -1)), l.op("Reshape", last[1], l.Ints(0, -1))}
		if window > 0 {
			kept := l.op("Slice", all, l.Ints(-int64(window)), l.Ints(1<<62), l.Ints(1))
			parts = append(parts, l.op("Reshape", kept, l.Ints(0, -1)))
		}
		outs[1] = l.with("Cast", []*ir.Value{l.with("Concat", parts, ir.A("axis", 1))}, ir.A("to", int(v.Elem())))
	}
	return outs
}

// advance returns f∘z - Σ g Re(Σ h∘z) + b u, less the input that leaves the window. in is u, and that input if there is
// a window.
func (r *lowRank) advance(b *ir.Builder, z, in []*ir.Value) []*ir.Value {
	op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
	// (samples, features, rank, states)
	product := op("Sub", op("Mul", r.h[0], op("Unsqueeze", z[0], b.Ints(2))),
		op("Mul", r.h[1], op("Unsqueeze", z[1], b.Ints(2))))
	low := op("ReduceSum", product, b.Ints(3)) // keeps the axis
	turned := []*ir.Value{op("Sub", op("Mul", r.f[0], z[0]), op("Mul", r.f[1], z[1])),
		op("Add", op("Mul", r.f[0], z[1]), op("Mul", r.f[1], z[0]))}
	var next []*ir.Value
	for i, v := range turned {
		v = op("Sub", v, b.Op("", "ReduceSum", []*ir.Value{op("Mul", r.g[i], low), b.Ints(2)}, ir.A("keepdims", 0)))
		v = op("Add", v, op("Mul", r.b[i], op("Unsqueeze", in[0], b.Ints(2))))
		if len(in) > 1 {
			v = op("Sub", v, op("Mul", r.cut[i], op("Unsqueeze", in[1], b.Ints(2))))
		}
		next = append(next, v)
	}
	return next
}

// cutOff computes Āˡ b, the weight of the input that leaves the window: from constants as constants, else in a Scan of
// as many steps.
func (r *lowRank) cutOff(features, states, window int) {
	if z, ok := r.response(features, states, window); ok {
		for i, imaginary := range []bool{false, true} {
			r.cut[i] = r.number([]string{"cut_re", "cut_im"}[i], tensor.Float64, component(z, imaginary), features,
				states)
		}
		return
	}
	one := r.number("zero", tensor.Float64, make([]float64, window), 1, window, 1)
	first := []*ir.Value{r.op("Unsqueeze", r.b[0], r.Ints(0)), r.op("Unsqueeze", r.b[1], r.Ints(0))}
	last, _ := r.scan(overSteps{states: first, in: []*ir.Value{one},
		step: func(b *ir.Builder, states, in []*ir.Value) ([]*ir.Value, *ir.Value) {
			return r.advance(b, states, in), in[0]
		}})
	for i, v := range last {
		r.cut[i] = r.op("Squeeze", v, r.Ints(0))
	}
}

// response returns Āˡ b of every feature, and whether the system is constant.
func (r *lowRank) response(features, states, steps int) ([]complex128, bool) {
	var parts [4][]complex128
	for i, p := range [][2]*ir.Value{r.f, r.g, r.h, r.b} {
		if p[0].Const == nil || p[1].Const == nil {
			return nil, false
		}
		re, err := p[0].Const.Float64s()
		if err != nil {
			r.Fail(err)
			return nil, false
		}
		im, err := p[1].Const.Float64s()
		if err != nil {
			r.Fail(err)
			return nil, false
		}
		for j := range re {
			parts[i] = append(parts[i], complex(re[j], im[j]))
		}
	}
	f, g, h, z := parts[0], parts[1], parts[2], parts[3]
	rank := len(g) / len(z)
	for i := range features {
		z, f := z[i*states:(i+1)*states], f[i*states:(i+1)*states]
		low := make([]float64, rank)
		for range steps {
			for k := range low {
				low[k] = 0
				for j, x := range z {
					low[k] += real(h[(i*rank+k)*states+j] * x)
				}
			}
			for j := range z {
				z[j] *= f[j]
				for k, x := range low {
					z[j] -= g[(i*rank+k)*states+j] * complex(x, 0)
				}
			}
		}
	}
	return z, true
}

// read returns Re(Σ c∘z).
func (r *lowRank) read(b *ir.Builder, c [2]*ir.Value, z []*ir.Value) *ir.Value {
	op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, slices.Clone(in)) }
	return b.Op("", "ReduceSum", []*ir.Value{op("Sub", op("Mul", c[0], z[0]), op("Mul", c[1], z[1])), b.Ints(2)},
		ir.A("keepdims", 0))
}
