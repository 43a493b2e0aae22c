package grad_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/opstest"
)

// doubles makes random float64 numbers.
func doubles(lo, hi float64, shape ...int) tensor.Datum {
	d, err := opstest.Inside(lo, hi, shape...).(*tensor.Tensor).Convert(tensor.Float64, false)
	if err != nil {
		panic(err)
	}
	return d
}

// TestSystems compares the gradients of state-space operators with differences for all their attributes.
func TestSystems(t *testing.T) {
	check := func(t *testing.T, name string, s opstest.Sample) {
		t.Helper()
		op := ops.Default.Resolve("essm", name, 1)
		for _, symbols := range []bool{false, true} {
			c := caseOf(t, op, s, symbols)
			if n, err := c.compare(t); err != nil || n == 0 {
				t.Errorf("%s, symbols %v: %d slopes, %v", name, symbols, n, err)
			}
		}
	}
	normal := opstest.Normal
	var samples []opstest.Sample
	opstest.Seeded(5, func() {
		a, b := []tensor.Datum{doubles(-1, -0.1, 1, 2, 2), doubles(-2, 2, 1, 2, 2)}, []tensor.Datum{doubles(-1, 1, 1,
			2, 2), doubles(-1, 1, 1, 2, 2)}
		for _, direction := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
			for _, window := range []int{0, 1, 3, 9} {
				real := opstest.Of(normal(2, 6, 4), a[0], a[1], b[0], b[1]).With(ir.A("direction", direction),
					ir.A("window", window))
				complete := real
				complete.In = append(complete.In[:5:5], normal(2, 6, 4))
				complete.Outs = 2
				samples = append(samples, real, complete)
			}
		}
	})
	for i, s := range samples {
		t.Run(fmt.Sprint("Scan/", i), func(t *testing.T) { check(t, "Scan", s) })
	}
	var re, im, step tensor.Datum
	opstest.Seeded(6, func() {
		re, im, step = doubles(-2, -0.1, 1, 2, 4), doubles(-3, 3, 1, 2, 4), opstest.Inside(-3, -0.5, 1, 2, 1)
	})
	for _, method := range essm.Methods {
		for _, epsilon := range []float64{0, 1e-7, 0.1} {
			s := opstest.Of(re, im, step).With(ir.A("method", method), ir.A("epsilon", epsilon), ir.A("rate",
				0.5)).Gives(4)
			t.Run(fmt.Sprintf("Discretize/%s-%v", method, epsilon), func(t *testing.T) { check(t, "Discretize", s) })
		}
	}
	for _, real := range essm.RealConstraints {
		for _, imag := range essm.ImagConstraints {
			s := opstest.Of(normal(1, 2, 3, 2)).With(ir.A("real", real), ir.A("imag", imag)).Gives(2)
			t.Run("Constrain/"+real+"-"+imag, func(t *testing.T) { check(t, "Constrain", s) })
		}
	}
	layer := []tensor.Datum{normal(2, 6, 6), opstest.Inside(-3, -1, 2, 2, 2), normal(2, 2, 2, 3), normal(2, 2, 3, 2),
		normal(2, 2, 2, 2), nil}
	for i, s := range []opstest.Sample{
		opstest.Of(append(layer[:6:6], normal(2, 2, 3))...).With(ir.A("bidirectional", 1), ir.A("conj_sym", 1)),
		opstest.Of(append(layer[:6:6], normal(2, 2, 3, 3))...).With(ir.A("max_kernel_length", 3), ir.A("method",
			"bilinear")),
		opstest.Of(layer...).With(ir.A("lambda_real", "Gaussian"), ir.A("lambda_imag", "softplus"),
			ir.A("bidirectional", 1)),
	} {
		t.Run(fmt.Sprint("StateSpace/", i), func(t *testing.T) { check(t, "StateSpace", s.Sized(0, 1, 2, 3, 4, 5, 6)) })
	}
	for _, direction := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
		with := ir.A("direction", direction)
		t.Run("LongConv/"+direction, func(t *testing.T) {
			check(t, "LongConv", opstest.Of(normal(2, 5, 3), normal(3, 4)).With(with).Sized(1))
			check(t, "LongConv", opstest.Of(normal(1, 3, 2), normal(2, 7)).With(with).Sized(1))
		})
		t.Run("DenseScan/"+direction, func(t *testing.T) {
			check(t, "DenseScan", opstest.Of(normal(2, 5, 4), doubles(-0.5, 0.5, 1, 2, 2, 2), doubles(-1, 1, 1, 2, 2,
				2)).With(with))
		})
	}
	t.Run("HeadLinear", func(t *testing.T) {
		check(t, "HeadLinear", opstest.Of(normal(2, 5, 6), normal(3, 2, 4, 3)).Sized(0, 1))
		check(t, "HeadLinear", opstest.Of(normal(4, 18), normal(3, 2, 1, 3)).Sized(0, 1))
	})
}

// TestNearZero differentiates zero-order hold where λΔ is small or 0, by its series.
func TestNearZero(t *testing.T) {
	re := tensor.FromSlice([]float64{0, -1e-9, -1e-5, -1e-3, -0.4, -0.6}, 1, 1, 6)
	im := tensor.FromSlice([]float64{0, 0, 1e-6, 0, 0.3, 0.01}, 1, 1, 6)
	s := opstest.Of(re, im, tensor.FromSlice([]float64{0.1}, 1, 1, 1)).Gives(4)
	c := caseOf(t, essm.Discretize, s, false)
	if n, err := c.compare(t); err != nil || n < 6 {
		t.Errorf("%d slopes, %v", n, err)
	}
}
