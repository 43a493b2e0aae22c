package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// maxFFT is the maximum length of a transform in a block's shared memory, and maxRadix the greatest prime factor.
const (
	maxFFT   = 4096
	maxRadix = 13
)

// radices returns the factors of n by which a block transforms, or false if it cannot.
func radices(n int) (list []int, ok bool) {
	if n == 1 {
		return []int{1}, true
	}
	rest := n
	for _, r := range []int{13, 11, 7, 5, 3, 8, 4, 2} {
		for rest%r == 0 {
			list = append(list, r)
			rest /= r
		}
	}
	return list, rest == 1 && n <= maxFFT
}

// fftLine describes the layout of the numbers of signals. A number is a pair of float32, or one of them if it is
// real.
type fftLine struct {
	step   int    // between numbers of a signal
	digits [3]int // between signals, per digit of their index
}

// fftPass is one kernel: a transform of many signals in shared memory.
type fftPass struct {
	n       int
	inverse bool // without a factor 1/n
	// sizes are the sizes of the digits of a signal's index, innermost first. Digit sub takes part in the indices
	// below; -1 means none does.
	sizes [3]int
	sub   int

	in, out         fftLine
	realIn, realOut bool
	// Number i of a signal has index i·inStep + sub·inSub among the present numbers; the others are zeros. If
	// before is not 0, it has a complex factor per index. If mirror is not 0, it is the length of a whole signal,
	// whose numbers from mirror/2 + 1 on are conjugates of the first ones.
	inStep, inSub, present int
	before                 Buffer
	mirror                 int
	// Likewise, number i of the result has index i·outStep + sub·outSub, and is written if that is below wanted.
	// after has factors per index or, with turn, per product of i and sub.
	outStep, outSub, wanted int
	after                   Buffer
	turn                    bool
	scale                   float64 // for the results

	roots Buffer // e^(-2πik/n) for all k
}

// columns reports whether signals are interleaved instead of contiguous.
func (f *fftPass) columns() bool { return f.in.step != 1 }

// signals returns the number of signals of a block.
func (f *fftPass) signals() int {
	n, most := 1, 32
	if !f.columns() {
		most = 1024
	}
	for n < most && n*2*f.n <= maxFFT {
		n *= 2
	}
	return n
}

func (f *fftPass) call(y, x Buffer) Call {
	count := f.sizes[0] * f.sizes[1] * f.sizes[2]
	args := []Arg{Ptr(y), Ptr(x), Ptr(f.roots), U32(count), U32(f.sizes[0]), U32(f.sizes[1]), U32(f.present), U32(f.wanted),
		U32(f.inStep), U32(f.inSub), U32(f.outStep), U32(f.outSub), U32(f.mirror), U64(f.in.step / max(1, f.inStep)),
		F32(float32(f.scale)), Ptr(f.before), Ptr(f.after)}
	for _, l := range []fftLine{f.in, f.out} {
		args = append(args, U64(l.step), U64(l.digits[0]), U64(l.digits[1]), U64(l.digits[2]))
	}
	s := f.signals()
	return NewCall(f.code(), driver.Dim{X: uint32((count + s - 1) / s), Y: 1, Z: 1}, args...)
}

// complexF32 is a complex number.
type complexF32 struct{ re, im ptx.F32 }

func (a complexF32) add(b complexF32) complexF32 { return complexF32{a.re.Add(b.re), a.im.Add(b.im)} }
func (a complexF32) sub(b complexF32) complexF32 { return complexF32{a.re.Sub(b.re), a.im.Sub(b.im)} }

func (a complexF32) mul(b complexF32) complexF32 {
	return complexF32{a.re.FMA(b.re, a.im.Mul(b.im).Neg()), a.re.FMA(b.im, a.im.Mul(b.re))}
}

// turned returns a·e^(-2πi·k/r), or with the inverse sign.
func (a complexF32) turned(k, r int, inverse bool) complexF32 {
	if inverse {
		k = -k
	}
	switch k = ((k % r) + r) % r; 8 * k {
	case 0:
		return a
	case 2 * r:
		return complexF32{a.im, a.re.Neg()}
	case 4 * r:
		return complexF32{a.re.Neg(), a.im.Neg()}
	case 6 * r:
		return complexF32{a.im.Neg(), a.re}
	}
	s, c := math.Sincos(-2 * math.Pi * float64(k) / float64(r))
	re, im := ptx.F(float32(c)), ptx.F(float32(s))
	return complexF32{a.re.FMA(re, a.im.Mul(im).Neg()), a.re.FMA(im, a.im.Mul(re))}
}

// butterfly returns the transform of a few numbers.
func butterfly(a []complexF32, inverse bool) []complexF32 {
	r := len(a)
	switch {
	case r == 1:
		return a
	case r == 2:
		return []complexF32{a[0].add(a[1]), a[0].sub(a[1])}
	case r%2 == 0:
		var even, odd []complexF32
		for i := 0; i < r; i += 2 {
			even, odd = append(even, a[i]), append(odd, a[i+1])
		}
		even, odd = butterfly(even, inverse), butterfly(odd, inverse)
		out := make([]complexF32, r)
		for k := range r / 2 {
			t := odd[k].turned(k, r, inverse)
			out[k], out[k+r/2] = even[k].add(t), even[k].sub(t)
		}
		return out
	}
	half := r / 2 // pairs of numbers with conjugate roots
	sums, differences := make([]complexF32, half), make([]complexF32, half)
	out := make([]complexF32, r)
	out[0] = a[0]
	for q := range half {
		sums[q], differences[q] = a[q+1].add(a[r-1-q]), a[q+1].sub(a[r-1-q])
		out[0] = out[0].add(sums[q])
	}
	for p := 1; p <= half; p++ {
		u, v := a[0], complexF32{}
		for q := range half {
			s, c := math.Sincos(-2 * math.Pi * float64(p*(q+1)%r) / float64(r))
			if inverse {
				s = -s
			}
			re, im := ptx.F(float32(c)), ptx.F(float32(s))
			u = complexF32{sums[q].re.FMA(re, u.re), sums[q].im.FMA(re, u.im)}
			if q == 0 {
				v = complexF32{differences[q].im.Mul(im).Neg(), differences[q].re.Mul(im)}
			} else {
				v = complexF32{differences[q].im.FMA(ptx.F(float32(-s)), v.re), differences[q].re.FMA(im, v.im)}
			}
		}
		out[p], out[r-p] = u.add(v), u.sub(v)
	}
	return out
}

func (f *fftPass) code() *Code {
	list, _ := radices(f.n)
	signals, columns := f.signals(), f.columns()
	threads := 256
	for threads > 64 && threads > signals*f.n/list[0] {
		threads /= 2
	}
	name := fmt.Sprintf("fft_%d", f.n)
	for _, x := range []struct {
		is   bool
		text string
	}{{f.inverse, "inverse"}, {columns, "columns"}, {f.realIn, "real_in"}, {f.realOut, "real_out"}, {f.before != 0, "before"},
		{f.after != 0, "after"}, {f.turn, "turn"}, {f.mirror != 0, "mirror"}, {f.sub >= 0, "part"}} {
		if x.is {
			name += "_" + x.text
		}
	}
	return New(name, threads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		y, x, roots, count := k.PtrParam("y"), k.PtrParam("x"), k.PtrParam("roots"), k.U32Param("count")
		size0, size1, present, wanted := k.U32Param("size0"), k.U32Param("size1"), k.U32Param("present"), k.U32Param("wanted")
		inStep, inSub, outStep, outSub := k.U32Param("in_step"), k.U32Param("in_sub"), k.U32Param("out_step"), k.U32Param("out_sub")
		mirror, unit, scale := k.U32Param("mirror"), k.U64Param("unit"), k.F32Param("scale")
		before, after := k.PtrParam("before"), k.PtrParam("after")
		type line struct {
			step   ptx.U64
			digits [3]ptx.U64
		}
		read := func(name string) (l line) {
			l.step = k.U64Param(name + "_stride")
			for i := range l.digits {
				l.digits[i] = k.U64Param(fmt.Sprintf("%s_stride%d", name, i))
			}
			return l
		}
		in, out := read("in"), read("out")
		bytes := 8 * signals * f.n
		var shared [2]ptx.Shared
		if len(list) > 1 {
			all := k.DynamicShared(bytes * min(2, len(list)-1))
			shared = [2]ptx.Shared{all, all}
			if len(list) > 2 {
				shared[1] = all.Add(ptx.U(bytes))
			}
		}
		// place returns the index of number i of a signal in shared memory.
		place := func(signal, i ptx.U32) ptx.U32 {
			if columns {
				return i.MAD(ptx.U(signals), signal)
			}
			return signal.MAD(ptx.U(f.n), i)
		}
		done := 1 // the product of the previous radices
		for pass, r := range list {
			items := signals * f.n / r
			each := func(i ptx.U32) {
				var signal, b ptx.U32
				if columns {
					b = i.Div(ptx.U(signals))
					signal = i.Sub(b.Mul(ptx.U(signals)))
				} else {
					signal = i.Div(ptx.U(f.n / r))
					b = i.Sub(signal.Mul(ptx.U(f.n / r)))
				}
				// The index of the signal among all, by digits.
				var sub ptx.U32
				var real ptx.Pred
				offset := func(l line) ptx.U64 {
					all := k.BlockX().MAD(ptx.U(signals), signal)
					real = all.Lt(count)
					q := all.Div(size0)
					d0 := all.Sub(q.Mul(size0))
					d2 := q.Div(size1)
					d1 := q.Sub(d2.Mul(size1))
					if f.sub >= 0 {
						sub = []ptx.U32{d0, d1, d2}[f.sub]
					}
					return d0.Wide().MAD(l.digits[0], d1.Wide().MAD(l.digits[1], d2.Wide().Mul(l.digits[2])))
				}
				index := func(i, step, of ptx.U32) ptx.U32 {
					if f.sub < 0 {
						return i.Mul(step)
					}
					return i.MAD(step, sub.Mul(of))
				}
				a := make([]complexF32, r)
				if pass == 0 {
					at := offset(in)
					for q := range a {
						i := b.Add(ptx.U(q * f.n / r))
						a[q] = f.load(k, x, before, at.Add(i.Wide().Mul(in.step)), unit, index(i, inStep, inSub), present, mirror, real)
					}
				} else {
					for q := range a {
						v := shared[(pass-1)%2].Index(place(signal, b.Add(ptx.U(q*f.n/r))), 8).LoadF32s(0, 2)
						a[q] = complexF32{v[0], v[1]}
					}
				}
				low := b // position within the transforms so far
				if done < f.n/r {
					low = b.Rem(ptx.U(done))
				}
				if done > 1 {
					for q := 1; q < r; q++ {
						w := roots.Index(low.Mul(ptx.U(q*f.n/(done*r))), 8).ConstF32s(0, 2)
						if f.inverse {
							w[1] = w[1].Neg()
						}
						a[q] = a[q].mul(complexF32{w[0], w[1]})
					}
				}
				a = butterfly(a, f.inverse)
				if pass == len(list)-1 {
					at := offset(out)
					for p := range a {
						i := b.Add(ptx.U(p * f.n / r))
						f.store(k, y, after, at.Add(i.Wide().Mul(out.step)), i, sub, index(i, outStep, outSub), wanted, scale, real, a[p])
					}
					return
				}
				first := b.Sub(low).MAD(ptx.U(r), low)
				for p := range a {
					to := shared[pass%2].Index(place(signal, first.Add(ptx.U(p*done))), 8)
					to.StoreF32s(0, a[p].re, a[p].im)
				}
			}
			if items == threads {
				each(k.ThreadX())
			} else {
				k.For(k.ThreadX(), ptx.U(items), ptx.U(threads), each)
			}
			if pass < len(list)-1 {
				k.Barrier()
			}
			done *= r
		}
	})
}

// load reads the number at address at of x, if its index is one of the present ones. Numbers of neighbouring indices
// are unit apart.
func (f *fftPass) load(k *ptx.Kernel, x, before ptx.Addr, at, unit ptx.U64, index, present, mirror ptx.U32,
	real ptx.Pred) complexF32 {
	a := complexF32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
	sign, number := ptx.F(1), index
	if f.mirror != 0 {
		behind := index.Gt(mirror.Shr(ptx.U(1)))
		real = real.And(index.Lt(mirror)) // otherwise mirror - index is not a valid index
		other := mirror.Sub(index)
		at = behind.SelectU64(at.Sub(index.Sub(other).Wide().Mul(unit)), at)
		index = behind.SelectU32(other, index)
		sign = behind.SelectF32(ptx.F(-1), ptx.F(1))
	}
	ok := real.And(index.Lt(present))
	k.Guard(ok, func() {
		if f.realIn {
			a.re.Set(x.Index64(at, 4).LoadF32(0))
			return
		}
		v := x.Index64(at, 8).LoadF32s(0, 2)
		a.re.Set(v[0])
		a.im.Set(v[1])
		if f.mirror != 0 {
			a.im.Set(a.im.Mul(sign))
		}
	})
	if f.before == 0 {
		return a
	}
	// Zeros need no factor.
	b := complexF32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
	k.Guard(ok, func() {
		w := before.Index(number, 8).ConstF32s(0, 2)
		z := a.mul(complexF32{w[0], w[1]})
		b.re.Set(z.re)
		b.im.Set(z.im)
	})
	return b
}

// store writes number i of a signal's result.
func (f *fftPass) store(k *ptx.Kernel, y, after ptx.Addr, at ptx.U64, i, sub, index, wanted ptx.U32, scale ptx.F32, real ptx.Pred,
	a complexF32) {
	k.Guard(real.And(index.Lt(wanted)), func() {
		if f.after != 0 {
			if f.turn {
				index = i.Mul(sub)
			}
			w := after.Index(index, 8).ConstF32s(0, 2)
			if f.turn && f.inverse {
				w[1] = w[1].Neg()
			}
			a = a.mul(complexF32{w[0], w[1]})
		}
		if f.realOut {
			y.Index64(at, 4).StoreF32(0, a.re.Mul(scale))
		} else {
			y.Index64(at, 8).StoreF32s(0, a.re.Mul(scale), a.im.Mul(scale))
		}
	})
}
