package kernel_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// indicesOf returns n indices of a dimension. Some are negative and, if wild is set, some out of range.
func indicesOf(r *rand.Rand, t tensor.DType, n, dim int, wild bool) (*tensor.Tensor, []int) {
	x, place := make([]float64, n), make([]int, n)
	for i := range x {
		place[i] = r.IntN(dim)
		if x[i] = float64(place[i]); r.IntN(2) == 0 {
			x[i] -= float64(dim)
		}
		if wild && r.IntN(5) == 0 {
			x[i], place[i] = []float64{float64(dim), -float64(dim) - 1, 2e9}[r.IntN(3)], -1
		}
	}
	y, err := tensor.FromFloat64s(t, x, n)
	if err != nil {
		panic(err)
	}
	return y, place
}

func random(r *rand.Rand, t tensor.DType, n int) *tensor.Tensor {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(r.IntN(200) - 100)
		if t == tensor.Bool {
			x[i] = float64(r.IntN(2))
		}
	}
	y, err := tensor.FromFloat64s(t, x, n)
	if err != nil {
		panic(err)
	}
	return y
}

// TestGather checks gathers of slices, with one and two columns of indices.
func TestGather(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, d := range []tensor.DType{tensor.Float32, tensor.Int8, tensor.Float16, tensor.Int64} {
		for _, c := range []struct{ outer, dim, dim2, n, inner int }{{1, 11, 1, 7, 64}, {3, 5, 1, 9, 3}, {2, 4, 3, 300, 1}, {1, 3, 2, 1, 12}} {
			size := d.Bits() / 8
			x := random(r, d, c.outer*c.dim*c.dim2*c.inner)
			i, at := indicesOf(r, tensor.Int64, c.n, c.dim, true)
			j, at2 := indicesOf(r, tensor.Int32, c.n, c.dim2, false)
			data := Operand{Buffer: 2, Type: d, Strides: []int{c.dim * c.dim2 * c.inner, 0, 1}}
			column := func(b Buffer, t tensor.DType) Operand { return Operand{Buffer: b, Type: t, Strides: []int{0, 1, 0}} }
			calls, ok := Gather([]int{c.outer, c.n, c.inner}, 5, Dense(1, d), data,
				Index{column(3, tensor.Int64), c.dim, c.dim2 * c.inner}, Index{column(4, tensor.Int32), c.dim2, c.inner})
			if !ok {
				t.Fatalf("%v is not gathered", d)
			}
			got := run(t, calls, c.outer*c.n*c.inner*size, []*tensor.Tensor{x, i, j, tensor.New(tensor.Int32, 1)})
			var want []byte
			for o := range c.outer {
				for k := range c.n {
					if at[k] < 0 {
						want = append(want, make([]byte, c.inner*size)...)
						continue
					}
					from := ((o*c.dim+at[k])*c.dim2 + at2[k]) * c.inner * size
					want = append(want, x.Bytes()[from:from+c.inner*size]...)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v, %+v: wrong", d, c)
			}
		}
	}
	if _, ok := Gather([]int{1}, 0, Dense(1, tensor.Float32), Dense(2, tensor.Float32), Index{Operand: Dense(3, tensor.Float32), Dim: 1}); ok {
		t.Error("indices are floats")
	}
}

// TestScatter checks updates in their order, some of the same place.
func TestScatter(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	join := map[Combination]func(a, b float64) float64{Replace: func(_, b float64) float64 { return b },
		AddTo: func(a, b float64) float64 { return a + b }, MulBy: func(a, b float64) float64 { return a * b },
		MaxWith: func(a, b float64) float64 { return max(a, b) }, MinWith: func(a, b float64) float64 { return min(a, b) }}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Int64, tensor.Float64, tensor.Int32} {
		for reduction, f := range join {
			const steps, dim, inner = 13, 5, 37
			x, up := random(r, d, dim*inner), random(r, d, steps*inner)
			i, at := indicesOf(r, tensor.Int64, steps*inner, dim, true)
			out := Operand{Buffer: 1, Type: d, Strides: []int{0, 1}}
			from := Operand{Buffer: 2, Type: d, Strides: []int{inner, 1}}
			index := Operand{Buffer: 3, Type: tensor.Int64, Strides: []int{inner, 1}}
			before, ok := Move([]int{dim * inner}, Dense(1, d), Dense(4, d))
			calls, ok2 := Scatter([]int{steps, inner}, reduction, 0, out, from, Index{index, dim, inner})
			if !ok || !ok2 {
				t.Fatalf("%v is not scattered by %s", d, reduction)
			}
			w, _ := x.Float64s()
			u, _ := up.Float64s()
			bits, err := tensor.FromBytes(d, []int{dim * inner}, run(t, append(before, calls...), dim*inner*d.Bits()/8, []*tensor.Tensor{up, i, x}))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := bits.Float64s()
			for s := range steps {
				for c := range inner {
					if k := at[s*inner+c]; k >= 0 {
						y, _ := tensor.FromFloat64s(d, []float64{f(w[k*inner+c], u[s*inner+c])}, 1)
						v, _ := y.Float64s()
						w[k*inner+c] = v[0]
					}
				}
			}
			for k := range w {
				if w[k] != got[k] {
					t.Fatalf("%v by %s, element %d: expected %v, found %v", d, reduction, k, w[k], got[k])
				}
			}
		}
	}
}

// TestCumSum checks sums along axes, by threads and by blocks.
func TestCumSum(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.Float64, tensor.Int64, tensor.Int32} {
		for _, c := range []struct{ outer, n, inner int }{{2, 7, 33}, {3, 1, 1}, {1, 600, 1}, {2, 257, 5}, {0, 3, 1}} {
			for form := range 4 {
				exclusive, reverse := form&1 != 0, form&2 != 0
				x := random(r, d, c.outer*c.n*c.inner)
				calls, ok := CumSum(c.outer, c.n, c.inner, exclusive, reverse, 1, 2, d)
				if !ok {
					t.Fatalf("%v is not summed", d)
				}
				bits, err := tensor.FromBytes(d, []int{x.Len()}, run(t, calls, x.Len()*d.Bits()/8, []*tensor.Tensor{x}))
				if err != nil {
					t.Fatal(err)
				}
				got, _ := bits.Float64s()
				v, _ := x.Float64s()
				for line := range c.outer * c.inner {
					sum := 0.0
					for i := range c.n {
						if reverse {
							i = c.n - 1 - i
						}
						at := (line/c.inner*c.n+i)*c.inner + line%c.inner
						after := sum + v[at]
						want := after
						if exclusive {
							want = sum
						}
						if y, _ := tensor.FromFloat64s(d, []float64{want}, 1); mustFloat(y) != got[at] {
							t.Fatalf("%v, %+v, element %d: expected %v, found %v", d, c, at, want, got[at])
						}
						sum = after
					}
				}
			}
		}
	}
}

func mustFloat(t *tensor.Tensor) float64 {
	v, err := t.Float64s()
	if err != nil {
		panic(err)
	}
	return v[0]
}
