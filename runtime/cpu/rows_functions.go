package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// More operators that compute each element by itself.
func init() {
	for name, f := range map[string]func(y, x []float32){"HardSwish": kernel.HardSwish, "Log": kernel.Log, "Reciprocal": kernel.Reciprocal} {
		registerUnaries(map[string]func(*lowering.Step) func(y, x []float32){name: func(*lowering.Step) func(y, x []float32) { return f }})
	}
	registerUnaries(map[string]func(*lowering.Step) func(y, x []float32){"HardSigmoid": func(s *lowering.Step) func(y, x []float32) {
		alpha, beta := float32(s.Node.Attrs.Float("alpha", float64(float32(0.2)))), float32(s.Node.Attrs.Float("beta", 0.5))
		return func(y, x []float32) { kernel.HardSigmoid(y, x, alpha, beta) }
	}})
	rows["Pow"] = rowPow
	rows["Softmax"] = rowSoftmax
	rows["LogSoftmax"] = rowSoftmax
}

// rowPow raises to a constant power that has a function of its own.
func rowPow(s *lowering.Step) rowMaker {
	p := s.Constant(1)
	if len(p) != 1 || !s.Float32Input(0) {
		return nil
	}
	switch p[0] {
	case 1:
		return elementwise(func(y, x []float32) { copy(y, x) })
	case 2:
		return elementwise(kernel.Square)
	case 0.5:
		return elementwise(kernel.Sqrt)
	case -1:
		return elementwise(kernel.Reciprocal)
	}
	return nil
}

// rowSoftmax is over the last axis.
func rowSoftmax(s *lowering.Step) rowMaker {
	axis := s.Node.Attrs.Int("axis", -1)
	log := s.Node.Op.Name == "LogSoftmax"
	return func(in [][]int, out []int) *rowOp {
		if len(out) == 0 || axis != -1 && axis != int64(len(out)-1) || !lowering.SameRows(in[0], out) || in[0][len(out)-1] != out[len(out)-1] {
			return nil
		}
		f := out[len(out)-1]
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			for r := range rows {
				dst, src := y[r*f:(r+1)*f], x[0][r*f:(r+1)*f]
				if log {
					kernel.LogSoftmax(dst, src)
				} else {
					kernel.Softmax(dst, src)
				}
			}
		}}
	}
}
