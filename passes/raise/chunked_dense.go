package raise

import (
	"fmt"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"gonum.org/v1/gonum/mat"
)

// denseNumbers reads a system with full matrices from its tables. Ā is in the graph in float64, as its power between
// chunks. B, with Γ in it, is the effect of a chunk's last input on the next chunk. C is the least-squares solution of
// all equations that the outputs give.
func (f *chunks) denseNumbers() (*headSystem, string) {
	s, why := f.start()
	if why != "" {
		return nil, why
	}
	if !f.headForm || f.within == nil {
		return nil, "it has a full matrix, but its groups are not heads"
	}
	base := f.anchor.Attrs.Graph("body").Outputs[0].Def.In(0).Def.In(1)
	for isOp(base, "MatMul") {
		base = base.Def.In(0)
	}
	abar, as, err := constantFloats(f.run, base)
	if err != nil {
		return nil, "the matrix between chunks varies: " + err.Error()
	}
	enter, es, leave, ls, why := f.outerTables()
	if why != "" {
		return nil, why
	}
	within, ws, err := constantFloats(f.run, f.within)
	if err != nil {
		return nil, "the table from a chunk's inputs to its outputs is not a constant: " + err.Error()
	}
	if len(as) != 3 || as[1] != as[2] || len(es) < 3 || len(es) > 4 || len(ls) != len(es) || len(ws) != len(es) {
		return nil, "its tables have other shapes than expected"
	}
	if len(es) == 4 {
		s.c = es[0]
	}
	groups, k := s.c*s.s, as[1]
	rows, cols, width := s.h*f.steps, k*f.directions, ls[len(ls)-1]
	s.k, s.m = k, width/f.steps
	if as[0] != groups || len(enter) != groups*rows*cols || len(leave) != groups*cols*width ||
		len(within) != groups*rows*width ||
		k == 0 || s.m == 0 || width%f.steps != 0 || f.steps < 2 {
		return nil, "its tables have other shapes than expected"
	}
	backward := s.direction == essm.Backward
	for g := range groups {
		a := mat.NewDense(k, k, nil)
		a.Copy(mat.NewDense(k, k, abar[g*k*k:(g+1)*k*k]).T())
		s.abar = append(s.abar, a.RawMatrix().Data...)
		for i := range k * k { // B includes Γ
			one := 0.0
			if i/k == i%k {
				one = 1
			}
			s.gamma = append(s.gamma, one)
		}
		b := mat.NewDense(k, s.h, nil)
		for i := range k {
			for in := range s.h {
				j := f.steps - 1
				if backward {
					j = 0
				}
				b.Set(i, in, enter[(g*rows+in*f.steps+j)*cols+i])
			}
		}
		for _, v := range b.RawMatrix().Data {
			s.in = append(s.in, complex(v, 0))
		}
		c, why := f.denseOutputs(a, b, s.m, func(o, i, t int) float64 {
			return leave[(g*cols+i)*width+o*f.steps+t]
		}, func(o, in, j, t int) float64 {
			return within[(g*rows+in*f.steps+j)*width+o*f.steps+t]
		}, backward)
		if why != "" {
			return nil, why
		}
		s.out = append(s.out, c...)
	}
	return s, ""
}

// denseOutputs solves for C by least squares. C Āˡ is the effect on outputs of the state l ≥ 1 steps before (l ≥ 0 in a
// backward system), and C Āˡ B is the effect of inputs. Components of C that appear in neither are never observed.
func (f *chunks) denseOutputs(a, b *mat.Dense, m int, leave func(o, i, t int) float64,
	within func(o, in, j, t int) float64, backward bool) ([]complex128, string) {
	k, h := b.Dims()
	lags := min(f.steps-1, k)
	rows := int64(k+h) * int64(lags)
	budget := memory(f.run)
	if rows > maxEval {
		return nil, fmt.Sprintf("its matrices give %d equations, expected at most %d", rows, maxEval)
	}
	err := budget.Take(8 * rows * int64(4*k+m))
	if err == nil {
		err = budget.Spend(rows * int64(k) * int64(25*k+m))
	}
	var c []complex128
	var why string
	if err == nil {
		err = passes.Apart(f.run.Done(), func() { c, why = denseOutputs(a, b, m, lags, f.steps, leave, within, backward) })
	}
	if err != nil {
		return nil, "its matrices are not solved for: " + err.Error()
	}
	return c, why
}

func denseOutputs(a, b *mat.Dense, m, lags, steps int, leave func(o, i, t int) float64,
	within func(o, in, j, t int) float64, backward bool) ([]complex128, string) {
	k, h := b.Dims()
	told := mat.NewDense((k+h)*lags, k, nil)       // (Āˡ)ᵀ and (Āˡ B)ᵀ
	seen := mat.NewDense((k+h)*lags, m, nil)       // the same times Cᵀ
	power, row := mat.DenseCopyOf(a), 0            // Āˡ, for the state before the chunk
	input := mat.DenseCopyOf(b)                    // Āˡ⁻¹ B
	at := func(lag int) (t int) { return lag - 1 } // the step of a chunk that is lag steps after the state before it
	if backward {
		at = func(lag int) int { return steps - 1 - lag }
	}
	for lag := 1; lag <= lags; lag++ {
		for i := range k {
			for j := range k {
				told.Set(row, j, power.At(j, i))
			}
			for o := range m {
				seen.Set(row, o, leave(o, i, at(lag)))
			}
			row++
		}
		for in := range h {
			for j := range k {
				told.Set(row, j, input.At(j, in))
			}
			for o := range m {
				if backward { // an input first affects the step before it
					seen.Set(row, o, within(o, in, lag, 0))
				} else {
					seen.Set(row, o, within(o, in, 0, lag-1))
				}
			}
			row++
		}
		power.Mul(a, mat.DenseCopyOf(power))
		input.Mul(a, mat.DenseCopyOf(input))
	}
	var svd mat.SVD
	if !svd.Factorize(told, mat.SVDThin) {
		return nil, "its matrices hold NaN or infinity"
	}
	rank := svd.Rank(1e-7) // tables are float32
	out := make([]complex128, m*k)
	if rank == 0 {
		return out, ""
	}
	var c mat.Dense
	svd.SolveTo(&c, seen, rank)
	for o := range m {
		for i := range k {
			out[o*k+i] = complex(c.At(i, o), 0)
		}
	}
	return out, ""
}
