package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Cell is the kind of a recurrent layer.
type Cell int8

// The recurrent layers of ONNX, with their standard activations.
const (
	RNN       Cell = iota // h = tanh(a)
	GRU                   // gates z, r, h
	GRULinear             // GRU with linear_before_reset
	LSTM                  // gates i, o, f, c
)

// Gates returns the number of gates.
func (c Cell) Gates() int { return [...]int{1, 3, 3, 4}[c] }

// Recurrent is a recurrent layer whose steps depend on each other by products: RNN, GRU or LSTM, in float32. A block
// computes the steps of one sample in one direction. It keeps inputs, state and gates in shared memory, or in device
// memory if they do not fit. In each step all blocks read the weights from the caches.
type Recurrent struct {
	Cell                          Cell
	Batch, Length, Inputs, Hidden int
	Directions                    int
	Reverse                       bool // the first direction starts at the last step; the second always does
	// SampleFirst is layout 1. X is (Batch, Length, Inputs), Y (Batch, Length, Directions, Hidden), and states are
	// (Batch, Directions, Hidden), instead of (Length, Batch, Inputs), (Length, Directions, Batch, Hidden) and
	// (Directions, Batch, Hidden).
	SampleFirst bool

	X, Tables      Buffer
	FirstH, FirstC Buffer // zero if absent
	Y, LastH       Buffer // not computed if absent
	LastC          Buffer
	Scratch        Buffer // of ScratchBytes
}

const cellThreads = 256

// recurrentShared is the maximum shared memory per block, in bytes.
const recurrentShared = 96 << 10

// blockBytes returns the memory that a block works in: inputs, state, gates from inputs and from the state, and the
// state after the resets.
func (r *Recurrent) blockBytes() int {
	return 4 * (r.Inputs + r.Hidden*(3+2*r.Cell.Gates()))
}

// ScratchBytes returns the size of the scratch memory for all blocks, or 0 if they use shared memory.
func (r *Recurrent) ScratchBytes() int {
	if r.blockBytes() <= recurrentShared {
		return 0
	}
	return r.Batch * r.Directions * r.blockBytes()
}

// RecurrentTables returns the weights as the kernel reads them. Each direction has W (gates·hidden, inputs), then R
// (gates·hidden, hidden), both column by column, then the biases of W and of R.
func RecurrentTables(directions, rows, inputs, hidden int, w, r, bias []float64) []byte {
	var all []float32
	for d := range directions {
		for c := range inputs {
			for n := range rows {
				all = append(all, float32(w[(d*rows+n)*inputs+c]))
			}
		}
		for c := range hidden {
			for n := range rows {
				all = append(all, float32(r[(d*rows+n)*hidden+c]))
			}
		}
		for n := range 2 * rows {
			b := 0.0
			if bias != nil {
				b = bias[d*2*rows+n]
			}
			all = append(all, float32(b))
		}
	}
	return float32Bytes(all)
}

// Calls returns the launches.
func (r *Recurrent) Calls() []Call {
	if r.Batch == 0 || r.Hidden == 0 {
		return nil
	}
	b, d, h, l := r.Batch, r.Directions, r.Hidden, r.Length
	// strides of steps, samples; directions
	xs, ys, hs := [2]int{b * r.Inputs, r.Inputs}, [3]int{d * b * h, h, b * h}, [2]int{h, b * h}
	if r.SampleFirst {
		xs, ys, hs = [2]int{r.Inputs, l * r.Inputs}, [3]int{d * h, l * d * h, h}, [2]int{d * h, h}
	}
	code := recurrentCode(r, r.ScratchBytes() > 0)
	return []Call{NewCall(code, driver.Dim{X: uint32(b), Y: uint32(d), Z: 1}, U32(l), U64(xs[0]), U64(xs[1]), U64(ys[0]),
		U64(ys[1]), U64(ys[2]), U64(hs[0]), U64(hs[1]), Ptr(r.X), Ptr(r.Tables), Ptr(r.FirstH), Ptr(r.FirstC), Ptr(r.Y),
		Ptr(r.LastH), Ptr(r.LastC), Ptr(r.Scratch))}
}

// recurrentCode returns the kernel. If apart is set, blocks work in device memory.
func recurrentCode(r *Recurrent, apart bool) *Code {
	cell, inputs, hidden, reverse, directions, bytes := r.Cell, r.Inputs, r.Hidden, r.Reverse, r.Directions, r.blockBytes()
	name := [...]string{"rnn", "gru", "gru_linear", "lstm"}[cell]
	if apart {
		name += "_apart"
	}
	return New(name, cellThreads, func(k *ptx.Kernel) {
		rows := cell.Gates() * hidden
		length := k.U32Param("length")
		xStep, xSample := k.U64Param("x_step"), k.U64Param("x_sample")
		yStep, ySample, yDirection := k.U64Param("y_step"), k.U64Param("y_sample"), k.U64Param("y_direction")
		hSample, hDirection := k.U64Param("h_sample"), k.U64Param("h_direction")
		x, table, firstH, firstC := k.PtrParam("x"), k.PtrParam("table"), k.PtrParam("first_h"), k.PtrParam("first_c")
		y, lastH, lastC := k.PtrParam("y"), k.PtrParam("last_h"), k.PtrParam("last_c")
		sample, direction, thread := k.BlockX(), k.BlockY(), k.ThreadX()

		scratch := k.PtrParam("scratch")
		in := cellNumbers{apart: apart}
		if apart {
			in.device = scratch.Index64(sample.MAD(ptx.U(directions), direction).Wide(), bytes)
		} else {
			in.shared = k.DynamicShared(bytes)
		}
		h := in.add(inputs)
		c := h.add(hidden)
		reset := c.add(hidden)
		byX := reset.add(hidden)
		byH := byX.add(rows)

		table = table.Index(direction, 4*(rows*(inputs+hidden)+2*rows))
		x = x.Index64(sample.Wide().Mul(xSample), 4)
		y2 := y.Index64(sample.Wide().MAD(ySample, direction.Wide().Mul(yDirection)), 4)
		state := sample.Wide().MAD(hSample, direction.Wide().Mul(hDirection))
		// each calls body for the thread's numbers below n
		each := func(n int, body func(i ptx.U32)) { k.For(thread, ptx.U(n), ptx.U(cellThreads), body) }

		each(hidden, func(i ptx.U32) {
			for _, s := range []struct {
				from ptx.Addr
				to   cellNumbers
			}{{firstH, h}, {firstC, c}} {
				v := k.VarF32(ptx.F(0))
				k.If(s.from.U64().Ne(ptx.L(0)), func() { v.Set(s.from.Index64(state.Add(i.Wide()), 4).LoadF32(0)) })
				s.to.at(i).store(v)
			}
		})
		// dot adds the product of a matrix row (column by column from at on) and a vector to sum
		dot := func(sum ptx.F32, at ptx.Addr, columns int, v cellNumbers) ptx.F32 {
			place, from := k.VarAddr(at), v.variable(k)
			// several accumulators, so that sums need not wait for each other
			acc := [4]ptx.F32{k.VarF32(sum), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
			const together = 8
			one := func(n int) {
				for i := range n {
					a := acc[i%len(acc)]
					a.Set(place.ConstF32(4*rows*i).FMA(from.load(i), a))
				}
				place.Set(place.Add(ptx.L(uint64(4 * rows * n))))
				from.set(from.add(n))
			}
			k.For(ptx.U(0), ptx.U(columns/together), ptx.U(1), func(ptx.U32) { one(together) })
			one(columns % together)
			return acc[0].Add(acc[1]).Add(acc[2].Add(acc[3]))
		}
		biases := table.Add(ptx.L(uint64(4 * rows * (inputs + hidden))))
		recurrent := table.Add(ptx.L(uint64(4 * rows * inputs)))

		k.For(ptx.U(0), length, ptx.U(1), func(step ptx.U32) {
			back := length.Sub(ptx.U(1)).Sub(step)
			t := back
			if !reverse {
				t = direction.Eq(ptx.U(1)).SelectU32(back, step)
			}
			each(inputs, func(i ptx.U32) {
				in.at(i).store(x.Index64(t.Wide().MAD(xStep, i.Wide()), 4).LoadF32(0))
			})
			k.Barrier()
			each(rows, func(n ptx.U32) {
				byX.at(n).store(dot(biases.Index(n, 4).ConstF32(0), table.Index(n, 4), inputs, in))
				byH.at(n).store(dot(biases.Index(n, 4).ConstF32(4*rows), recurrent.Index(n, 4), hidden, h))
			})
			k.Barrier()
			// gate returns the sum of gate g of unit i
			gate := func(g int, i ptx.U32) (a, b ptx.F32) {
				return byX.at(i).load(g * hidden), byH.at(i).load(g * hidden)
			}
			sum := func(g int, i ptx.U32) ptx.F32 {
				a, b := gate(g, i)
				return a.Add(b)
			}
			if cell == GRU {
				each(hidden, func(i ptx.U32) {
					reset.at(i).store(sigmoidF32(sum(1, i)).Mul(h.at(i).load(0)))
				})
				k.Barrier()
				each(hidden, func(i ptx.U32) {
					n := i.Add(ptx.U(2 * hidden))
					byH.at(n).store(dot(biases.Index(n, 4).ConstF32(4*rows), recurrent.Index(n, 4), hidden, reset))
				})
				k.Barrier()
			}
			each(hidden, func(i ptx.U32) {
				old := h.at(i)
				var next ptx.F32
				switch cell {
				case RNN:
					next = tanhF32(sum(0, i))
				case LSTM:
					cell := sigmoidF32(sum(2, i)).Mul(c.at(i).load(0))
					cell = sigmoidF32(sum(0, i)).FMA(tanhF32(sum(3, i)), cell)
					c.at(i).store(cell)
					next = sigmoidF32(sum(1, i)).Mul(tanhF32(cell))
				default:
					a, b := gate(2, i)
					if cell == GRULinear {
						b = sigmoidF32(sum(1, i)).Mul(b)
					}
					candidate, z := tanhF32(a.Add(b)), sigmoidF32(sum(0, i))
					next = z.FMA(old.load(0).Sub(candidate), candidate)
				}
				old.store(next)
				k.If(y.U64().Ne(ptx.L(0)), func() { y2.Index64(t.Wide().MAD(yStep, i.Wide()), 4).StoreF32(0, next) })
			})
			k.Barrier()
		})
		each(hidden, func(i ptx.U32) {
			for _, s := range []struct {
				to   ptx.Addr
				from cellNumbers
			}{{lastH, h}, {lastC, c}} {
				k.If(s.to.U64().Ne(ptx.L(0)), func() {
					s.to.Index64(state.Add(i.Wide()), 4).StoreF32(0, s.from.at(i).load(0))
				})
			}
		})
	})
}
