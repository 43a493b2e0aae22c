package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// scanSteps returns the kernel that computes a recurrence over a few steps in one launch, in float64. A thread
// computes one state of one sample. It is the step of a stream.
func scanSteps(f ScanForm) *Code {
	return New("scan_steps", scanThreads, func(k *ptx.Kernel) {
		s := newScanFrame(f, k)
		s.vRe, s.vIm = k.PtrParam("v_re"), k.PtrParam("v_im")
		x := [2]ptx.Addr{k.PtrParam("x_re"), k.PtrParam("x_im")}
		table := k.PtrParam("coefficients")
		s.first = k.PtrParam("first")
		last := k.PtrParam("last")
		s.stateSize = k.U32Param("state_size")
		s.j = k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		s.leaveUnless(s.j.Lt(s.states).And(s.sample.Lt(s.batch)))
		var c [scanRows]ptx.F64
		at, stride := table.Index(s.j, 8), s.states.MulWide(ptx.U(8))
		for i := range c {
			c[i] = at.ConstF64(0)
			at = at.Add(stride)
		}
		a, b, cut := complexF64{c[0], c[1]}, complexF64{c[4], c[5]}, complexF64{c[6].Neg(), c[7].Neg()}
		// advance returns ā z plus the weighted inputs of step t.
		advance := func(z complexF64, t ptx.U32, old func(ptx.U32, bool) ptx.F32) complexF64 {
			v := complexF64{s.at(s.vRe, t).LoadF32(0).F64(), ptx.D(0)}
			if f.ComplexIn {
				v.im = s.at(s.vIm, t).LoadF32(0).F64()
			}
			z = b.times(v, f.ComplexIn).plus(a.fma(z, complexF64{ptx.D(0), ptx.D(0)}))
			if f.Window {
				v := complexF64{old(t, false).F64(), ptx.D(0)}
				if f.ComplexIn {
					v.im = old(t, true).F64()
				}
				z = cut.times(v, f.ComplexIn).plus(z)
			}
			return z
		}
		want := [2]bool{f.Re, f.Im}
		if f.Forward {
			z := varComplex(k)
			k.If(s.first.U64().Ne(ptx.L(0)), func() {
				z.re.Set(s.loadState(s.stateAt(s.first, s.j)))
				z.im.Set(s.loadState(s.stateAt(s.first, s.states.Add(s.j))))
			})
			k.For(ptx.U(0), s.length, ptx.U(1), func(t ptx.U32) {
				z.set(advance(z, t, s.leaving))
				for p, part := range []ptx.F64{z.re, z.im} {
					if want[p] {
						s.at(x[p], t).StoreF32(0, part.F32())
					}
				}
			})
			k.If(last.U64().Ne(ptx.L(0)), func() {
				s.storeState(s.stateAt(last, s.j), z.re)
				s.storeState(s.stateAt(last, s.states.Add(s.j)), z.im)
			})
		}
		if f.Backward {
			z := varComplex(k)
			k.For(ptx.U(0), s.length, ptx.U(1), func(i ptx.U32) {
				t := s.length.Sub(ptx.U(1)).Sub(i)
				for p, part := range []ptx.F64{z.re, z.im} {
					if !want[p] {
						continue
					}
					place := s.at(x[p], t)
					if f.Forward {
						part = part.Add(place.LoadF32(0).F64())
					}
					place.StoreF32(0, part.F32())
				}
				z.set(advance(z, t, s.leavingAhead))
			})
		}
	})
}

// times returns p·v; v is real unless complex is set.
func (p complexF64) times(v complexF64, complex bool) complexF64 {
	if !complex {
		return complexF64{p.re.Mul(v.re), p.im.Mul(v.re)}
	}
	return complexF64{p.im.Neg().FMA(v.im, p.re.Mul(v.re)), p.im.FMA(v.re, p.re.Mul(v.im))}
}

func (p complexF64) plus(v complexF64) complexF64 {
	return complexF64{p.re.Add(v.re), p.im.Add(v.im)}
}

// scanHistory writes the last inputs of a scan with a window to its state.
func scanHistory(f ScanForm) *Code {
	f.Re, f.Im, f.Forward, f.Backward = false, false, true, false
	return New("scan_history", scanThreads, func(k *ptx.Kernel) {
		s := newScanFrame(f, k)
		s.vRe, s.vIm = k.PtrParam("v_re"), k.PtrParam("v_im")
		s.first = k.PtrParam("first")
		last := k.PtrParam("last")
		s.stateSize = k.U32Param("state_size")
		q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		row := q.Div(s.states)
		s.j = q.Sub(row.Mul(s.states))
		s.leaveUnless(row.Lt(s.lags).And(s.sample.Lt(s.batch)))
		back := s.lags.Sub(row)
		copyPart := func(v ptx.Addr, im bool) {
			x := k.VarF64(ptx.D(0))
			k.IfElse(back.Le(s.length), func() {
				x.Set(s.at(v, s.length.Sub(back)).LoadF32(0).F64())
			}, func() {
				k.If(s.first.U64().Ne(ptx.L(0)), func() {
					x.Set(s.loadState(s.pastAt(s.first, back.Sub(s.length), im)))
				})
			})
			s.storeState(s.pastAt(last, back, im), x)
		}
		copyPart(s.vRe, false)
		if f.ComplexIn {
			copyPart(s.vIm, true)
		}
	})
}
