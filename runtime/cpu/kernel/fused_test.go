package kernel

import (
	"fmt"
	"math"
	"testing"
)

// truth64 is what an operator means, in float64.
func (l *FusedStep) truth64(v, a, b float64) float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	hard := func(x, alpha, beta float64) float64 { return min(max(alpha*x+beta, 0), 1) }
	param := func(i int) float64 { return float64(l.B[i]) }
	switch l.Op {
	case FusedAdd:
		return v + a
	case FusedSub:
		return v - a
	case FusedSubFrom:
		return a - v
	case FusedMul:
		return v * a
	case FusedDiv:
		return v / a
	case FusedDivInto:
		return a / v
	case FusedMax:
		return max(v, a)
	case FusedMin:
		return min(v, a)
	case FusedAffine:
		return v*a + b
	case FusedAddProduct:
		return v + a*b
	case FusedSigmoid:
		return sigmoid(v)
	case FusedGelu:
		return 0.5 * v * math.Erfc(-v/math.Sqrt2)
	case FusedGeluTanh:
		return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	case FusedTanh:
		return math.Tanh(v)
	case FusedExp:
		return math.Exp(v)
	case FusedErf:
		return math.Erf(v)
	case FusedRelu:
		if v < 0 {
			return 0
		}
		return v
	case FusedLeakyRelu:
		if v < 0 {
			return v * param(0)
		}
		return v
	case FusedSwish:
		return v * sigmoid(param(0)*v)
	case FusedClip:
		return min(max(v, param(0)), param(1))
	case FusedHardSigmoid:
		return hard(v, param(0), param(1))
	case FusedHardSwish:
		return v * hard(v, 1.0/6, 0.5)
	case FusedSqrt:
		return math.Sqrt(v)
	case FusedAbs:
		return math.Abs(v)
	case FusedNeg:
		return -v
	case FusedSquare:
		return v * v
	case FusedSoftplus:
		return softplus64(v)
	case FusedMish:
		return v * math.Tanh(softplus64(v))
	case FusedElu:
		return elu64(v, param(0), param(1))
	case FusedThresholdedRelu:
		if v > param(0) {
			return v
		}
		return 0
	case FusedShrink:
		return shrink64(v, param(0), param(1))
	case FusedFloor:
		return math.Floor(v)
	case FusedCeil:
		return math.Ceil(v)
	case FusedRound:
		return math.RoundToEven(v)
	case FusedFloat16:
		return exactF16(v)
	case FusedBFloat16:
		return float64(roundBF16(float32(v)))
	}
	return math.NaN()
}

// fusedCase is a fused kernel and its inputs.
type fusedCase struct {
	rows, width int
	operands    []Operand
	x           [][]float32
	steps       []FusedStep
}

// truth computes the steps in float64; every number that is not finite stands for itself.
func (c *fusedCase) truth() []float64 {
	y := make([]float64, c.rows*c.width)
	for r := range c.rows {
		for j := range c.width {
			v := float64(c.x[0][c.operands[0].From+r*c.operands[0].Stride+j])
			for i := range c.steps {
				l := &c.steps[i]
				var a, b float64
				if readsA, readsB, _ := l.Op.reads(); readsA {
					if l.X >= 0 {
						a = float64(c.x[l.X][c.operands[l.X].From+r*c.operands[l.X].Stride+j])
					} else {
						a = float64(l.A[j])
					}
					if readsB {
						b = float64(l.B[j])
					}
				}
				v = l.truth64(v, a, b)
			}
			y[r*c.width+j] = v
		}
	}
	return y
}

// check runs the kernel between guards, and in place.
func (c *fusedCase) check(t *testing.T, name string, tol float64) {
	t.Helper()
	want := c.truth()
	n := len(want)
	y := make([]float32, 5+n+9)
	for i := range y {
		y[i] = guard
	}
	k := NewFused(c.width, c.operands, c.steps)
	k.Run(y[5:5+n], c.x, c.rows)
	all := make([]float64, len(y))
	for i := range all {
		all[i] = guard
	}
	copy(all[5:], want)
	name = fmt.Sprintf("%s, %d rows of %d, operands %v", name, c.rows, c.width, c.operands)
	for i, w := range all { // of large numbers the error is relative
		if m := math.Abs(w); m > 1 && m < math.Inf(1) {
			all[i], y[i] = w/m, y[i]/float32(m)
		}
	}
	near(t, name, y, all, tol)
	k.Run(y[5:5+n], c.x, c.rows)
	if c.operands[0] != (Operand{0, c.width}) {
		return
	}
	x := append([][]float32{append([]float32(nil), c.x[0]...)}, c.x[1:]...)
	k.Run(x[0], x, c.rows)
	for i, v := range x[0][:n] {
		if math.Float32bits(v) != math.Float32bits(y[5+i]) {
			t.Fatalf("%s: in place number %d is %g, expected %g", name, i, v, y[5+i])
		}
	}
}

var fusedWidths = []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 96, 100, 127, 128, 129, 200,
	255, 256, 257, 300}

// TestFusedOps checks each operator of fused kernels against its meaning, between whole and masked vectors, with
// operands and constants.
func TestFusedOps(t *testing.T) { eachVariant(t, testFusedOps) }

func testFusedOps(t *testing.T) {
	r := newRand()
	for op := FusedAdd; op < fusedOps; op++ {
		for _, width := range fusedWidths {
			for _, rows := range []int{0, 1, 2, 3, 7, 65} {
				if rows == 65 && width > 9 {
					continue
				}
				for _, gap := range []int{0, 3} {
					c := &fusedCase{rows: rows, width: width, operands: []Operand{{gap, width + gap}, {0, width + 2*gap}}}
					for _, o := range c.operands {
						x := random(r, o.From+max(0, rows-1)*o.Stride+min(rows, 1)*width+1)
						c.x = append(c.x, x[1:]) // not where vectors begin
					}
					for k, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -20} {
						for i := range c.x {
							if at := 7*k + 3*i; at < len(c.x[i]) {
								c.x[i][at] = float32(special)
							}
						}
					}
					l := FusedStep{Op: op, X: 1, B: []float32{-0.25, 0.75}}
					if op == FusedSwish {
						l.B = []float32{1.5}
					}
					a, b, _ := op.reads()
					if b {
						l.B = random(r, width)
					}
					c.steps = []FusedStep{l}
					c.check(t, fmt.Sprint("operator ", op), 4e-7)
					if a {
						l.X, l.A = -1, random(r, width)
						c.steps = []FusedStep{l}
						c.check(t, fmt.Sprint("constant operator ", op), 4e-7)
					}
				}
			}
		}
	}
}

// TestFused runs what layers have between their products.
func TestFused(t *testing.T) { eachVariant(t, testFused) }

func testFused(t *testing.T) {
	r := newRand()
	for _, width := range fusedWidths {
		for _, rows := range []int{1, 2, 5, 40} {
			row := func() []float32 { return random(r, width) }
			for name, steps := range map[string][]FusedStep{
				"gate": {{Op: FusedSigmoid}, {Op: FusedMul, X: 1}, {Op: FusedAdd, X: 2},
					{Op: FusedAffine, X: -1, A: row(), B: row()}},
				"throughput": {{Op: FusedAddProduct, X: 1, B: row()}, {Op: FusedGelu}},
				"bias": {{Op: FusedAdd, X: -1, A: row()}, {Op: FusedLeakyRelu, B: []float32{0.125}},
					{Op: FusedAdd, X: 0}},
				"copy": nil,
				"many": {{Op: FusedMul, X: 1}, {Op: FusedTanh}, {Op: FusedSub, X: 2}, {Op: FusedErf},
					{Op: FusedSubFrom, X: -1, A: row()}, {Op: FusedClip, B: []float32{-1, 1}},
					{Op: FusedMax, X: 0}, {Op: FusedSwish, B: []float32{1}}, {Op: FusedMin, X: 2}, {Op: FusedAbs},
					{Op: FusedSquare}, {Op: FusedNeg}},
			} {
				c := &fusedCase{rows: rows, width: width, steps: steps}
				for i := range 3 {
					o := Operand{0, width}
					if name == "gate" && i < 2 { // halves of a wide product
						o = Operand{i * width, 2 * width}
					}
					c.operands = append(c.operands, o)
					c.x = append(c.x, random(r, rows*o.Stride))
				}
				c.check(t, name, 2e-6)
			}
		}
	}
}

// A fused kernel allocates nothing.
func TestFusedAllocates(t *testing.T) {
	c := NewFused(5, []Operand{{0, 5}, {0, 5}}, []FusedStep{{Op: FusedAdd, X: 1}, {Op: FusedGelu}})
	x, y := [][]float32{make([]float32, 30), make([]float32, 30)}, make([]float32, 30)
	if n := testing.AllocsPerRun(10, func() { c.Run(y, x, 6) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
