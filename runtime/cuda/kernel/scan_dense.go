package kernel

import (
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// DenseScan runs systems with full matrices, x[t] = Ā x[t-1] + Γ v[t] for each head, as essm.DenseScan defines
// them. A block computes the steps of one head of one sample, in float64, with the state in shared memory; a thread
// computes some rows.
//
// Sequences are laid out (Batch, Length, Heads·States) in float32. A state has as many numbers for each sample,
// then the last Lags inputs, oldest first.
type DenseScan struct {
	Batch, Length, Heads, States int
	Lags                         int // of the window; 0 for none
	Backward                     bool
	// Add adds the states to the existing ones, from the scan in the other direction.
	Add     bool
	State32 bool // states before the first and after the last step are float32 instead of float64

	V, X        Buffer
	First, Last Buffer // if absent: zero, not wanted
	Tables      Buffer // DenseTables
}

// MaxDenseStates is the maximum number of states of a head.
const MaxDenseStates = 1024

// DenseTables returns the matrices as kernels read them, in float64. For each head: the matrix of states, of inputs
// and, with a window of lags steps, of the inputs that leave it, each column by column.
func DenseTables(heads, states, lags int, abar, gamma []float64) []byte {
	n := states * states
	var all []float64
	for h := range heads {
		a, g := abar[h*n:(h+1)*n], gamma[h*n:(h+1)*n]
		parts := [][]float64{a, g}
		if lags > 0 {
			left := squareProduct(squarePower(a, states, lags), g, states)
			for i := range left {
				left[i] = -left[i]
			}
			parts = append(parts, left)
		}
		for _, m := range parts {
			for j := range states {
				for i := range states {
					all = append(all, m[i*states+j])
				}
			}
		}
	}
	return float64Bytes(all)
}

// squareProduct returns the product of two square matrices.
func squareProduct(a, b []float64, n int) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		for k, x := range a[i*n : (i+1)*n] {
			for j, y := range b[k*n : (k+1)*n] {
				out[i*n+j] += x * y
			}
		}
	}
	return out
}

// squarePower returns a power of a square matrix.
func squarePower(a []float64, n, exponent int) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		out[i*n+i] = 1
	}
	for ; exponent > 0; exponent /= 2 {
		if exponent%2 == 1 {
			out = squareProduct(out, a, n)
		}
		a = squareProduct(a, a, n)
	}
	return out
}

// Bounded reports whether no power of a matrix, up to about the exponent, has grown much. Other matrices are useless
// in a convolution.
func Bounded(a []float64, n, exponent int) bool {
	for {
		for _, x := range a {
			if !(math.Abs(x) < 1e3) {
				return false
			}
		}
		if exponent <= 1 {
			return true
		}
		a, exponent = squareProduct(a, a, n), exponent/2
	}
}

// DenseResponse returns the responses of states to inputs, Āᵗ Γ for t below length: by state, input and t.
func DenseResponse(abar, gamma []float64, n, length int) []float64 {
	out, p := make([]float64, n*n*length), gamma
	for t := range length {
		for i, v := range p {
			out[i*length+t] = v
		}
		p = squareProduct(abar, p, n)
	}
	return out
}

// StateSize returns the number of elements of a state, per sample.
func (s *DenseScan) StateSize() int { return s.Heads * s.States * (1 + s.Lags) }

// Calls returns the launches.
func (s *DenseScan) Calls() []Call {
	all := s.Heads * s.States
	if s.Batch*all == 0 || s.Length == 0 && s.Last == 0 {
		return nil
	}
	y, z := gridBatch(s.Batch)
	calls := []Call{NewCall(denseSteps(denseForm{s.States, s.Backward, s.Add, s.State32, s.Lags > 0}),
		driver.Dim{X: uint32(s.Heads), Y: y, Z: z}, U32(s.Batch), U32(s.Length), U32(s.Heads), U32(s.Lags), Ptr(s.V), Ptr(s.X),
		Ptr(s.Tables), Ptr(s.First), Ptr(s.Last))}
	if s.Last != 0 && s.Lags > 0 {
		calls = append(calls, pastCall(s.Batch, s.Length, all, s.Lags, all, s.State32, s.V, s.First, s.Last))
	}
	return calls
}

// pastCall returns the launch that writes the last inputs, of features numbers each, after the first numbers
// elements of states.
func pastCall(batch, length, features, lags, numbers int, state32 bool, v, first, last Buffer) Call {
	// The kernel requires states that start with two rows of as many numbers as there are inputs.
	at := (numbers - 2*features) * 8
	if state32 {
		at /= 2
	}
	past := func(b Buffer) Arg {
		if b == 0 {
			return Ptr(0)
		}
		return PtrAt(b, at)
	}
	y, z := gridBatch(batch)
	return NewCall(scanHistory(ScanForm{State32: state32}), driver.Dim{X: uint32(ceilDiv(lags*features, scanThreads)), Y: y, Z: z},
		U32(batch), U32(length), U32(features), U32(lags), Ptr(v), Ptr(0), past(first), past(last), U32(numbers+lags*features))
}

// denseForm is what is compiled into the kernel.
type denseForm struct {
	states                         int
	backward, add, state32, window bool
}

func denseSteps(f denseForm) *Code {
	threads := min(256, ceilDiv(f.states, 32)*32)
	return New("dense_steps", threads, func(k *ptx.Kernel) {
		batch, length, heads, lags := k.U32Param("batch"), k.U32Param("length"), k.U32Param("heads"), k.U32Param("lags")
		v, x, table, first, last := k.PtrParam("v"), k.PtrParam("x"), k.PtrParam("table"), k.PtrParam("first"), k.PtrParam("last")
		sample := k.BlockZ().MAD(k.GridY(), k.BlockY())
		k.If(sample.Ge(batch), k.Return)
		n, rows, parts := f.states, ceilDiv(f.states, threads), 2
		if f.window {
			parts = 3
		}
		operand := k.SharedArray(8*parts*n, 16) // the state, inputs, and those that leave the window
		all := heads.Mul(ptx.U(n))
		matrix := table.Index64(k.BlockX().MulWide(ptx.U(parts*n*n)), 8)
		size := 8
		if f.state32 {
			size = 4
		}
		stateSize := all.Wide()
		if f.window {
			stateSize = all.MulWide(lags.Add(ptx.U(1)))
		}
		// number returns the address of a number of the sample's state.
		number := func(state ptx.Addr, i ptx.U64) ptx.Addr { return state.Index64(sample.Wide().MAD(stateSize, i), size) }
		load := func(a ptx.Addr) ptx.F64 {
			if f.state32 {
				return a.LoadF32(0).F64()
			}
			return a.LoadF64(0)
		}
		// each calls body for the thread's rows: i within the head, j among all.
		each := func(body func(i, j ptx.U32)) {
			for r := range rows {
				i := k.ThreadX().Add(ptx.U(r * threads))
				if (r+1)*threads <= n {
					body(i, k.BlockX().MAD(ptx.U(n), i))
				} else {
					k.If(i.Lt(ptx.U(n)), func() { body(i, k.BlockX().MAD(ptx.U(n), i)) })
				}
			}
		}
		at := func(x ptx.Addr, t, j ptx.U32) ptx.Addr {
			return x.Index64(sample.MulWide(length).Add(t.Wide()).MAD(all.Wide(), j.Wide()), 4)
		}
		state := func(i ptx.U32) ptx.Shared { return operand.Index(i, 8) }
		each(func(i, j ptx.U32) {
			z := k.VarF64(ptx.D(0))
			k.If(first.U64().Ne(ptx.L(0)), func() { z.Set(load(number(first, j.Wide()))) })
			state(i).StoreF64(0, z)
		})
		k.For(ptx.U(0), length, ptx.U(1), func(step ptx.U32) {
			t := step
			if f.backward {
				t = length.Sub(ptx.U(1)).Sub(step)
			}
			write := func(j ptx.U32, z ptx.F64) {
				to := at(x, t, j)
				if f.add {
					z = z.Add(to.LoadF32(0).F64())
				}
				to.StoreF32(0, z.F32())
			}
			each(func(i, j ptx.U32) {
				state(i.Add(ptx.U(n))).StoreF64(0, at(v, t, j).ConstF32(0).F64())
				if f.backward {
					write(j, state(i).LoadF64(0))
				}
				if !f.window {
					return
				}
				old := k.VarF64(ptx.D(0))
				if f.backward {
					k.If(t.Wide().Add(lags.Wide()).Lt(length.Wide()), func() { old.Set(at(v, t.Add(lags), j).ConstF32(0).F64()) })
				} else {
					k.IfElse(t.Ge(lags), func() { old.Set(at(v, t.Sub(lags), j).ConstF32(0).F64()) }, func() {
						k.If(first.U64().Ne(ptx.L(0)), func() {
							old.Set(load(number(first, all.MulWide(t.Add(ptx.U(1))).Add(j.Wide()))))
						})
					})
				}
				state(i.Add(ptx.U(2*n))).StoreF64(0, old)
			})
			k.Barrier()
			var sums []ptx.F64
			for range rows {
				sums = append(sums, k.VarF64(ptx.D(0)))
			}
			// A thread's rows beyond the last one recompute the last one, and do not write it.
			for r := range rows {
				row := k.ThreadX().Add(ptx.U(r * threads)).Min(ptx.U(n - 1))
				const together = 4
				body := func(q ptx.U32, count int) {
					from := matrix.Index(q.MAD(ptx.U(n), row), 8)
					for c := range count {
						sums[r].Set(from.ConstF64(8*n*c).FMA(operand.Index(q, 8).LoadF64(8*c), sums[r]))
					}
				}
				whole := parts * n / together * together
				k.For(ptx.U(0), ptx.U(whole), ptx.U(together), func(q ptx.U32) { body(q, together) })
				if rest := parts*n - whole; rest > 0 {
					body(ptx.U(whole), rest)
				}
			}
			k.Barrier()
			r := 0
			each(func(i, j ptx.U32) {
				state(i).StoreF64(0, sums[r])
				if !f.backward {
					write(j, sums[r])
				}
				r++
			})
		})
		k.If(last.U64().Ne(ptx.L(0)), func() {
			each(func(i, j ptx.U32) {
				z := state(i).LoadF64(0)
				if f.state32 {
					number(last, j.Wide()).StoreF32(0, z.F32())
				} else {
					number(last, j.Wide()).StoreF64(0, z)
				}
			})
		})
	})
}
