package essm_test

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// apply evaluates one node of op on the given inputs in the given form, with all outputs wanted that wants says.
func apply(t *testing.T, op *ir.Op, kernel string, outs []bool, in []*tensor.Tensor, attrs ...ir.Attr) []*tensor.Tensor {
	t.Helper()
	b := ir.NewBuilder("test", ops.Default, ops.Opsets())
	vals, data := make([]*ir.Value, len(in)), make([]tensor.Datum, len(in))
	for i, x := range in {
		if x != nil {
			vals[i], data[i] = b.Input(fmt.Sprintf("in%d", i), ir.Of(x)), x
		}
	}
	made := b.Apply(op, len(outs), vals, ir.NewAttrs(attrs...))
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	n := made[0].Def
	types := make([]ir.Type, len(outs))
	for i, want := range outs {
		types[i] = n.Outputs[i].Type
		if !want {
			n.Outputs[i] = nil
		}
	}
	res, err := op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background(), Kernel: kernel}, data)
	if err != nil {
		t.Fatalf("%s in form %q: %v", op.Name, kernel, err)
	}
	got := make([]*tensor.Tensor, len(outs))
	for i := range outs {
		if !outs[i] {
			continue
		}
		got[i] = res[i].(*tensor.Tensor)
		if !ir.Compatible(types[i], ir.Of(got[i])) {
			t.Fatalf("%s output %d: inferred %v, evaluation gave %s", op.Name, i, types[i], got[i])
		}
	}
	return got
}

func random(r *rand.Rand, shape ...int) *tensor.Tensor {
	x := tensor.New(tensor.Float64, shape...)
	for i := range x.Len() {
		tensor.Data[float64](x)[i] = r.NormFloat64()
	}
	return x
}

func differ(a, b *tensor.Tensor) float64 {
	x, y := tensor.Data[float64](a), tensor.Data[float64](b)
	diff, scale := 0.0, 1e-3 // inputs are of size 1; an answer of 0 is 0 to rounding
	for i := range y {
		diff, scale = max(diff, math.Abs(x[i]-y[i])), max(scale, math.Abs(y[i]))
	}
	return diff / scale
}

// TestScanForms: recurrence = convolution = chunks, for random systems of odd and even sizes, and the recurrence is
// what its definition says.
func TestScanForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 60 {
		batch, length := 1+r.IntN(2), []int{1, 2, 7, 63, 64, 65, 130}[r.IntN(7)]
		c, s, n := 1+r.IntN(2), 1+r.IntN(3), 1+r.IntN(4)
		all := c * s * n
		window := []int{0, 0, 1, 5, 200}[r.IntN(5)]
		dir := []string{essm.Forward, essm.Backward, essm.Bidirectional}[trial%3]
		complexInput := r.IntN(2) == 0
		aRe, aIm := random(r, c, s, n), random(r, c, s, n)
		for i, v := range tensor.Data[float64](aRe) {
			tensor.Data[float64](aRe)[i] = -math.Abs(v) * math.Pow(10, -float64(r.IntN(4)))
		}
		in := []*tensor.Tensor{random(r, batch, length, all), aRe, aIm, random(r, c, s, n), random(r, c, s, n), nil, nil}
		per := 1
		if complexInput {
			in[5], per = random(r, batch, length, all), 2
		}
		outs := []bool{true, true}
		if dir == essm.Forward {
			outs = append(outs, true)
			in[6] = random(r, batch, all*(2+window*per))
			if window > 0 {
				warm(t, in, window, per, batch, all)
			}
		}
		attrs := []ir.Attr{ir.A("direction", dir), ir.A("window", window)}
		want := apply(t, essm.Scan, "", outs, in, attrs...)
		name := fmt.Sprintf("trial %d: B=%d L=%d N=%d window=%d %s complex=%v", trial, batch, length, all, window, dir,
			complexInput)
		if in[6] == nil {
			re, im := defined(in, window, dir)
			if d := max(differ(re, want[0]), differ(im, want[1])); !(d <= 1e-10) {
				t.Errorf("%s: scan differs from the definition by %.2g", name, d)
			}
		}
		for _, form := range essm.Forms {
			got := apply(t, essm.Scan, form, outs, in, attrs...)
			for i := range got {
				if d := differ(got[i], want[i]); !(d <= 1e-9) {
					t.Errorf("%s: output %d in form %s differs by %.2g", name, i, form, d)
				}
			}
		}
	}
}

// warm replaces a random state by one that a sequence leaves behind: with a window, z and the delay line belong
// together.
func warm(t *testing.T, in []*tensor.Tensor, window, per, batch, all int) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	first := append([]*tensor.Tensor(nil), in...)
	first[0] = random(r, batch, window+3, all)
	if per == 2 {
		first[5] = random(r, batch, window+3, all)
	}
	first[6] = nil
	in[6] = apply(t, essm.Scan, "", []bool{true, false, true}, first, ir.A("direction", essm.Forward),
		ir.A("window", window))[2]
}

// defined computes a Scan without state by its definition, a sum over lags (docs/math.md, Directions).
func defined(in []*tensor.Tensor, window int, dir string) (re, im *tensor.Tensor) {
	v := in[0]
	batch, length, n := v.Dim(0), v.Dim(1), v.Dim(2)
	re, im = tensor.New(tensor.Float64, batch, length, n), tensor.New(tensor.Float64, batch, length, n)
	at := func(i int, b, t, j int) float64 {
		if in[i] == nil {
			return 0
		}
		return tensor.Data[float64](in[i])[(b*length+t)*n+j]
	}
	par := func(i, j int) float64 { return tensor.Data[float64](in[i])[j] }
	kernel := func(j, k int) complex128 {
		if window > 0 && k >= window {
			return 0
		}
		return complex(par(3, j), par(4, j)) * cmplx.Exp(complex(float64(k)*par(1, j), float64(k)*par(2, j)))
	}
	for b := range batch {
		for t := range length {
			for j := range n {
				var sum complex128
				for q := range length {
					u := complex(at(0, b, q, j), at(5, b, q, j))
					if q <= t && dir != essm.Backward {
						sum += kernel(j, t-q) * u
					}
					if q > t && dir != essm.Forward {
						sum += kernel(j, q-t-1) * u
					}
				}
				tensor.Data[float64](re)[(b*length+t)*n+j] = real(sum)
				tensor.Data[float64](im)[(b*length+t)*n+j] = imag(sum)
			}
		}
	}
	return re, im
}

// TestDenseScanForms is TestScanForms for full matrices.
func TestDenseScanForms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for trial := range 40 {
		batch, length := 1+r.IntN(2), []int{1, 2, 7, 64, 65, 130}[r.IntN(6)]
		c, s, n := 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(4)
		window := []int{0, 0, 1, 5, 200}[r.IntN(5)]
		dir := []string{essm.Forward, essm.Backward, essm.Bidirectional}[trial%3]
		abar, gamma := random(r, c, s, n, n), random(r, c, s, n, n)
		for i := range abar.Len() {
			tensor.Data[float64](abar)[i] *= 0.4 / float64(n)
		}
		in := []*tensor.Tensor{random(r, batch, length, c*s*n), abar, gamma, nil}
		outs := []bool{true}
		attrs := []ir.Attr{ir.A("direction", dir), ir.A("window", window)}
		if dir == essm.Forward {
			outs = append(outs, true)
			first := append([]*tensor.Tensor(nil), in...)
			first[0] = random(r, batch, window+2, c*s*n)
			in[3] = apply(t, essm.DenseScan, "", outs, first, attrs...)[1]
		}
		want := apply(t, essm.DenseScan, "", outs, in, attrs...)
		for _, form := range essm.Forms {
			got := apply(t, essm.DenseScan, form, outs, in, attrs...)
			for i := range got {
				if d := differ(got[i], want[i]); !(d <= 1e-9) {
					t.Errorf("trial %d: B=%d L=%d n=%d window=%d %s: output %d in form %s differs by %.2g", trial,
						batch, length, n, window, dir, i, form, d)
				}
			}
		}
	}
}

// TestState: a sequence in two parts, the state carried over, is the sequence in one.
func TestState(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	part := func(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
		y := tensor.New(tensor.Float64, 1, hi-lo, x.Dim(2))
		copy(tensor.Data[float64](y), tensor.Data[float64](x)[lo*x.Dim(2):hi*x.Dim(2)])
		return y
	}
	for trial := range 30 {
		length, n, window := 2+r.IntN(40), 1+r.IntN(3), []int{0, 1, 4, 50}[r.IntN(4)]
		cut := 1 + r.IntN(length-1)
		aRe := random(r, 1, 1, n)
		for i, v := range tensor.Data[float64](aRe) {
			tensor.Data[float64](aRe)[i] = -math.Abs(v)
		}
		v, vIm := random(r, 1, length, n), random(r, 1, length, n)
		sys := []*tensor.Tensor{aRe, random(r, 1, 1, n), random(r, 1, 1, n), random(r, 1, 1, n)}
		run := func(v, vIm, state *tensor.Tensor) []*tensor.Tensor {
			in := append(append([]*tensor.Tensor{v}, sys...), vIm, state)
			return apply(t, essm.Scan, essm.Forms[r.IntN(5)], []bool{true, true, true}, in, ir.A("window", window))
		}
		whole := run(v, vIm, nil)
		one := run(part(v, 0, cut), part(vIm, 0, cut), nil)
		two := run(part(v, cut, length), part(vIm, cut, length), one[2])
		for i := range 2 {
			if d := max(differ(part(whole[i], 0, cut), one[i]), differ(two[i], part(whole[i], cut, length))); !(d <= 1e-9) {
				t.Errorf("trial %d: L=%d cut at %d, window %d: output %d differs by %.2g", trial, length, cut, window, i, d)
			}
		}
		if d := differ(two[2], whole[2]); !(d <= 1e-9) {
			t.Errorf("trial %d: final state differs by %.2g", trial, d)
		}
	}
}

// TestLongConvIsScan: Kernel and LongConv, directly and by FFT, are the scan of a real system.
func TestLongConvIsScan(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, dir := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
		for _, length := range []int{1, 5, 32, 33} {
			const n = 3
			aRe := random(r, 1, 1, n)
			for i, v := range tensor.Data[float64](aRe) {
				tensor.Data[float64](aRe)[i] = -math.Abs(v)
			}
			aIm, bRe, bIm, v := random(r, 1, 1, n), random(r, 1, 1, n), random(r, 1, 1, n), random(r, 2, length, n)
			want := apply(t, essm.Scan, "", []bool{true}, []*tensor.Tensor{v, aRe, aIm, bRe, bIm},
				ir.A("direction", dir))[0]
			k := apply(t, essm.Kernel, "", []bool{true, true},
				[]*tensor.Tensor{aRe, aIm, bRe, bIm, tensor.Scalar(int64(length))})[0]
			k, err := k.Reshape(n, length)
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range []string{essm.FormDirect, essm.FormFFT} {
				got := apply(t, essm.LongConv, "", []bool{true}, []*tensor.Tensor{v, k}, ir.A("direction", dir),
					ir.A("form", form))[0]
				if d := differ(got, want); !(d <= 1e-10) {
					t.Errorf("%s, L=%d, %s: differs by %.2g", dir, length, form, d)
				}
			}
		}
	}
}
