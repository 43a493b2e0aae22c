package cpu

import (
	"math"

	"github.com/essmc/essmc/runtime/lowering"
)

// Functions of one number that have no form in vectors: computed in float64 and rounded once.
func init() {
	for name, f := range map[string]func(x float64) float64{
		"Sin": math.Sin, "Cos": math.Cos, "Tan": math.Tan, "Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan,
		"Sinh": math.Sinh, "Cosh": math.Cosh, "Asinh": math.Asinh, "Acosh": math.Acosh, "Atanh": math.Atanh,
		"Floor": math.Floor, "Ceil": math.Ceil, "Round": math.RoundToEven, "Sign": sign,
	} {
		run := func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(f(float64(v)))
			}
		}
		registerUnaries(map[string]func(*lowering.Step) func(y, x []float32){name: func(*lowering.Step) func(y, x []float32) { return run }})
	}
}

// sign is -1, 0 or 1, and x itself where that is 0 or NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}
