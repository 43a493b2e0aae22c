package kernel

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Activation is one of ONNX's activations of recurrent layers, with its parameters.
type Activation struct {
	Name string
	A, B float64
}

// apply computes the activation.
func (a Activation) apply(x ptx.F64) ptx.F64 {
	zero, one := ptx.D(0), ptx.D(1)
	above, below := x.Lt(zero).SelectF64(zero, x), x.Gt(zero).SelectF64(zero, x) // NaN stays
	switch a.Name {
	case "Relu":
		return above
	case "Tanh":
		return tanhF64(x)
	case "Sigmoid":
		return expF64(x.Neg()).Add(one).Rcp()
	case "Softsign":
		return x.Div(x.Abs().Add(one))
	case "Softplus":
		return above.Add(log1pF64(expF64(x.Abs().Neg())))
	case "Affine":
		return x.Mul(ptx.D(a.A)).Add(ptx.D(a.B))
	case "ScaledTanh":
		return tanhF64(x.Mul(ptx.D(a.B))).Mul(ptx.D(a.A))
	case "HardSigmoid":
		y := x.Mul(ptx.D(a.A)).Add(ptx.D(a.B))
		y = y.Lt(zero).SelectF64(zero, y)
		return y.Gt(one).SelectF64(one, y)
	case "LeakyRelu":
		return above.Add(below.Mul(ptx.D(a.A)))
	case "ThresholdedRelu":
		return x.Gt(ptx.D(a.A)).SelectF64(x, zero)
	case "Elu":
		return above.Add(expm1F64(below).Mul(ptx.D(a.A)))
	}
	panic("kernel: no activation " + a.Name)
}

// PlainRecurrent is one direction of a recurrent layer with everything that ONNX allows: any activations,
// non-constant weights, lengths of samples, peepholes. It computes in float64, with states and gates in scratch
// memory.
type PlainRecurrent struct {
	Cell                          Cell
	Batch, Length, Inputs, Hidden int
	Direction, Directions         int
	Backwards, SampleFirst        bool
	Couple                        bool // the gate f of LSTM is 1 - i
	Clip                          float64
	Activations                   []Activation

	X, W, R, Bias, FirstH, FirstC, Peepholes Tensor // the last four may be absent
	Lengths                                  Buffer // int32; if absent, all steps
	Y, LastH, LastC                          Tensor // may be absent
	Fault                                    Buffer // set if a length exceeds Length
}

// ScratchBytes returns the bytes of the scratch memory.
func (r *PlainRecurrent) ScratchBytes() int { return 8 * r.Batch * r.Hidden * (3 + 2*r.Cell.Gates()) }

// Call returns the launch: one block per sample.
func (r *PlainRecurrent) Call(scratch Buffer) (Call, bool) {
	gates := r.Cell.Gates()
	if !fits(r.Length, r.Batch, r.Directions, max(r.Hidden, r.Inputs, 1)) || !fits(r.Directions, gates*r.Hidden, r.Inputs+r.Hidden+2) ||
		!fits(r.Batch, r.Hidden, 16) {
		return Call{}, false
	}
	d := &plain{}
	name := [...]string{"rnn", "gru", "gru_linear", "lstm"}[r.Cell] + "_plain"
	code := New(name, mapThreads, func(k *ptx.Kernel) {
		d.Kernel = k
		r.write(d, scratch)
	})
	return NewCall(code, driver.Dim{X: uint32(r.Batch), Y: 1, Z: 1}, d.args...), true
}

func (r *PlainRecurrent) write(d *plain, scratch Buffer) {
	gates := r.Cell.Gates()
	sample, thread := d.BlockX(), d.ThreadX()
	batch, length, inputs, hidden := d.size(r.Batch), d.size(r.Length), d.size(r.Inputs), d.size(r.Hidden)
	direction, directions := d.size(r.Direction), d.size(r.Directions)
	rows := hidden.Mul(ptx.U(gates))
	x, w, wh := d.tensor(r.X), d.tensor(r.W), d.tensor(r.R)
	memory := d.vector(scratch, tensor.Float64)
	base := sample.Mul(hidden).Mul(ptx.U(3 + 2*gates))
	part := func(first int, i ptx.U32) ptx.U64 { return hidden.MAD(ptx.U(first), i).Add(base).Wide() }
	h := func(i ptx.U32) ptx.U64 { return part(0, i) }
	c := func(i ptx.U32) ptx.U64 { return part(1, i) }
	reset := func(i ptx.U32) ptx.U64 { return part(2, i) }
	byX := func(g int, i ptx.U32) ptx.U64 { return part(3+g, i) }
	byH := func(g int, i ptx.U32) ptx.U64 { return part(3+gates+g, i) }
	each := func(n ptx.U32, body func(i ptx.U32)) { d.For(thread, n, ptx.U(mapThreads), body) }

	state := direction.MAD(batch, sample)
	if r.SampleFirst {
		state = sample.MAD(directions, direction)
	}
	for _, s := range []struct {
		from Tensor
		to   func(i ptx.U32) ptx.U64
	}{{r.FirstH, h}, {r.FirstC, c}} {
		if s.from.Buffer == 0 {
			each(hidden, func(i ptx.U32) { memory.set(s.to(i), d.VarF64(ptx.D(0))) })
			continue
		}
		from := d.tensor(s.from)
		each(hidden, func(i ptx.U32) { memory.set(s.to(i), from.get(state.MAD(hidden, i).Wide())) })
	}
	steps := d.VarU32(length)
	if r.Lengths != 0 {
		steps.Set(d.vector(r.Lengths, tensor.Int32).read(sample.Wide()).integer.Low())
		fault := d.address(r.Fault)
		d.If(steps.Gt(length), func() {
			fault.SetBits(0, ptx.U(1))
			steps.Set(length)
		})
	}
	var y, bias, peep vector
	if r.Y.Buffer != 0 {
		y = d.tensor(r.Y)
	}
	yRow := func(t ptx.U32) ptx.U32 {
		if r.SampleFirst {
			return sample.MAD(length, t).MAD(directions, direction)
		}
		return t.MAD(directions, direction).MAD(batch, sample)
	}
	if r.Y.Buffer != 0 { // zeros follow the end of a sample
		d.For(steps, length, ptx.U(1), func(t ptx.U32) {
			each(hidden, func(i ptx.U32) { y.set(yRow(t).MAD(hidden, i).Wide(), d.VarF64(ptx.D(0))) })
		})
	}
	if r.Bias.Buffer != 0 {
		bias = d.tensor(r.Bias)
	}
	if r.Peepholes.Buffer != 0 {
		peep = d.tensor(r.Peepholes)
	}
	act := func(i int, x ptx.F64) ptx.F64 {
		if r.Clip > 0 {
			x = x.Lt(ptx.D(-r.Clip)).SelectF64(ptx.D(-r.Clip), x)
			x = x.Gt(ptx.D(r.Clip)).SelectF64(ptx.D(r.Clip), x)
		}
		return r.Activations[i].apply(x)
	}
	// row returns the sum of bias n and the product of a matrix row with a vector.
	row := func(of vector, second int, n, columns ptx.U32, at func(j ptx.U32) ptx.F64) ptx.F64 {
		sum := d.VarF64(ptx.D(0))
		if r.Bias.Buffer != 0 {
			sum.Set(bias.get(direction.MAD(rows.Add(rows), n).Add(rows.Mul(ptx.U(second))).Wide()))
		}
		from := direction.MAD(rows, n).Mul(columns)
		dot := d.VarF64(ptx.D(0))
		d.loop(columns, func(j ptx.U32) { dot.Set(of.get(from.Add(j).Wide()).FMA(at(j), dot)) })
		return sum.Add(dot)
	}
	d.Barrier()
	d.loop(steps, func(s ptx.U32) {
		t := s
		if r.Backwards {
			t = steps.Sub(ptx.U(1)).Sub(s)
		}
		from := t.MAD(batch, sample)
		if r.SampleFirst {
			from = sample.MAD(length, t)
		}
		each(rows, func(n ptx.U32) {
			memory.set(part(3, n), row(w, 0, n, inputs, func(j ptx.U32) ptx.F64 { return x.get(from.MAD(inputs, j).Wide()) }))
			memory.set(part(3+gates, n), row(wh, 1, n, hidden, func(j ptx.U32) ptx.F64 { return memory.get(h(j)) }))
		})
		d.Barrier()
		sum := func(g int, i ptx.U32) ptx.F64 { return memory.get(byX(g, i)).Add(memory.get(byH(g, i))) }
		if r.Cell == GRU {
			each(hidden, func(i ptx.U32) { memory.set(reset(i), act(0, sum(1, i)).Mul(memory.get(h(i)))) })
			d.Barrier()
			each(hidden, func(i ptx.U32) {
				n := hidden.MAD(ptx.U(2), i)
				memory.set(byH(2, i), row(wh, 1, n, hidden, func(j ptx.U32) ptx.F64 { return memory.get(reset(j)) }))
			})
			d.Barrier()
		}
		each(hidden, func(i ptx.U32) {
			var next ptx.F64
			switch r.Cell {
			case RNN:
				next = act(0, sum(0, i))
			case LSTM:
				old := memory.get(c(i))
				with := func(g, k int, old ptx.F64) ptx.F64 {
					v := sum(g, i)
					if r.Peepholes.Buffer != 0 {
						p := peep.get(direction.Mul(ptx.U(3)).Add(ptx.U(k)).MAD(hidden, i).Wide())
						v = p.FMA(old, v)
					}
					return v
				}
				in := act(0, with(0, 0, old))
				forget := ptx.D(1).Sub(in)
				if !r.Couple {
					forget = act(0, with(2, 2, old))
				}
				cell := in.FMA(act(1, sum(3, i)), forget.Mul(old))
				memory.set(c(i), cell)
				next = act(0, with(1, 1, cell)).Mul(r.Activations[2].apply(cell))
			default:
				a, b := memory.get(byX(2, i)), memory.get(byH(2, i))
				if r.Cell == GRULinear {
					b = act(0, sum(1, i)).Mul(b)
				}
				z := act(0, sum(0, i))
				next = ptx.D(1).Sub(z).Mul(act(1, a.Add(b))).Add(z.Mul(memory.get(h(i))))
			}
			memory.set(h(i), next)
			if r.Y.Buffer != 0 {
				y.set(yRow(t).MAD(hidden, i).Wide(), next)
			}
		})
		d.Barrier()
	})
	for _, s := range []struct {
		to   Tensor
		from func(i ptx.U32) ptx.U64
	}{{r.LastH, h}, {r.LastC, c}} {
		if s.to.Buffer != 0 {
			to := d.tensor(s.to)
			each(hidden, func(i ptx.U32) { to.set(state.MAD(hidden, i).Wide(), memory.get(s.from(i))) })
		}
	}
}
