package std

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/opstest"
)

// TestElement compares the operators' expressions with plain Go.
func TestElement(t *testing.T) { suite.Element(t, answers, noElement) }

// noElement are the elementwise operators without an expression, with the reasons.
var noElement = map[string]string{
	"Bernoulli":          "draws",
	"Cast":               "element types change, which is evaluated by type",
	"Loop":               "does what its body does",
	"QuantizeLinear":     "element types change",
	"OptionalGetElement": "takes a tensor out of an optional",
	"Trilu":              "clears by place",
}

var answers = map[string]opstest.Answer{}

func init() {
	for name, f := range map[string]func(x float64) float64{
		"Exp": math.Exp, "Log": logOf, "Sqrt": math.Sqrt, "Sin": math.Sin, "Cos": math.Cos, "Tan": math.Tan,
		"Asin": math.Asin, "Acos": math.Acos, "Atan": math.Atan,
		"Sinh": math.Sinh, "Cosh": math.Cosh, "Tanh": math.Tanh, "Asinh": math.Asinh, "Acosh": math.Acosh,
		"Atanh": math.Atanh, "Erf": math.Erf,
		"Floor": math.Floor, "Ceil": math.Ceil, "Round": math.RoundToEven, "Abs": math.Abs, "Sigmoid": sigmoid,
		"Softplus":   softplus,
		"Identity":   func(x float64) float64 { return x },
		"Neg":        func(x float64) float64 { return -x },
		"Reciprocal": func(x float64) float64 { return 1 / x },
		"Softsign":   func(x float64) float64 { return x / (1 + math.Abs(x)) },
		"HardSwish":  func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) },
		"Mish":       func(x float64) float64 { return x * math.Tanh(softplus(x)) },
		"Sign": func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x // zero, or NaN
		},
		"Relu": func(x float64) float64 {
			if x < 0 {
				return 0
			}
			return x
		},
		"IsNaN": func(x float64) float64 { return truth(math.IsNaN(x)) },
		"Not":   func(x float64) float64 { return truth(x == 0) },
	} {
		answers[name] = func(_ *ir.Node, x []float64) float64 { return f(x[0]) }
	}
	for name, f := range map[string]func(x, y float64) float64{
		"Add": func(x, y float64) float64 { return x + y }, "Sub": func(x, y float64) float64 { return x - y },
		"Mul": func(x, y float64) float64 { return x * y }, "Div": func(x, y float64) float64 { return x / y },
		"Pow":            powOf,
		"Equal":          func(x, y float64) float64 { return truth(x == y) },
		"Less":           func(x, y float64) float64 { return truth(x < y) },
		"LessOrEqual":    func(x, y float64) float64 { return truth(x <= y) },
		"Greater":        func(x, y float64) float64 { return truth(x > y) },
		"GreaterOrEqual": func(x, y float64) float64 { return truth(x >= y) },
		"And":            func(x, y float64) float64 { return truth(x != 0 && y != 0) },
		"Or":             func(x, y float64) float64 { return truth(x != 0 || y != 0) },
		"Xor":            func(x, y float64) float64 { return truth(x != y) },
		"PRelu":          leaky,
	} {
		answers[name] = func(_ *ir.Node, x []float64) float64 { return f(x[0], x[1]) }
	}
	for name, f := range map[string]func(x, y float64) float64{
		"Sum": func(x, y float64) float64 { return x + y }, "Max": func(x, y float64) float64 { return max(x, y) },
		"Min": func(x, y float64) float64 { return min(x, y) },
	} {
		answers[name] = func(_ *ir.Node, x []float64) float64 {
			v := x[0]
			for _, y := range x[1:] {
				v = f(v, y)
			}
			return v
		}
	}
	answers["SwiGLU"] = func(n *ir.Node, x []float64) float64 { return x[0] * sigmoid(getFloat(n, "alpha")*x[0]) * x[1] }
	answers["Mean"] = func(n *ir.Node, x []float64) float64 { return answers["Sum"](n, x) / float64(len(x)) }
	answers["Where"] = func(_ *ir.Node, x []float64) float64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	}
	answers["IsInf"] = func(n *ir.Node, x []float64) float64 {
		return truth(getInt(n, "detect_positive") != 0 && math.IsInf(x[0], 1) || getInt(n,
			"detect_negative") != 0 && math.IsInf(x[0], -1))
	}
	answers["Mod"] = func(n *ir.Node, x []float64) float64 {
		r := math.Mod(x[0], x[1])
		if getInt(n, "fmod") == 0 && r != 0 && (r < 0) != (x[1] < 0) {
			r += x[1]
		}
		return r
	}
	answers["Clip"] = func(n *ir.Node, x []float64) float64 {
		v := x[0]
		if n.In(1) != nil {
			v = max(v, x[1])
		}
		if n.In(2) != nil {
			v = min(v, x[2])
		}
		return v
	}
	for name, f := range map[string]func(x, alpha float64) float64{
		"LeakyRelu": leaky,
		"Elu": func(x, alpha float64) float64 {
			if x < 0 {
				return alpha * math.Expm1(x)
			}
			return x
		},
		"Celu": func(x, alpha float64) float64 { return max(0, x) + min(0, alpha*math.Expm1(x/alpha)) },
		"ThresholdedRelu": func(x, alpha float64) float64 {
			if x > alpha {
				return x
			}
			return 0
		},
		"Swish": func(x, alpha float64) float64 { return x * sigmoid(alpha*x) },
	} {
		answers[name] = func(n *ir.Node, x []float64) float64 { return f(x[0], getFloat(n, "alpha")) }
	}
	answers["Selu"] = func(n *ir.Node, x []float64) float64 {
		alpha, gamma := getFloat(n, "alpha"), getFloat(n, "gamma")
		if x[0] <= 0 {
			return gamma * alpha * math.Expm1(x[0])
		}
		return gamma * x[0]
	}
	answers["HardSigmoid"] = func(n *ir.Node, x []float64) float64 {
		return max(0, min(1, getFloat(n, "alpha")*x[0]+getFloat(n, "beta")))
	}
	answers["Shrink"] = func(n *ir.Node, x []float64) float64 {
		bias, lambd := getFloat(n, "bias"), getFloat(n, "lambd")
		switch {
		case x[0] < -lambd:
			return x[0] + bias
		case x[0] > lambd:
			return x[0] - bias
		}
		return 0
	}
	answers["Gelu"] = func(n *ir.Node, x []float64) float64 {
		x0 := x[0]
		if getStr(n, "approximate") == "tanh" {
			return x0 * sigmoid(2*math.Sqrt(2/math.Pi)*(x0+0.044715*x0*x0*x0)) // 0.5·(1 + tanh) cancels
		}
		return 0.5 * x0 * math.Erfc(-x0/math.Sqrt2)
	}
}

func leaky(x, slope float64) float64 {
	if x < 0 {
		return slope * x
	}
	return x
}

func truth(c bool) float64 {
	if c {
		return 1
	}
	return 0
}

// logOf and powOf are math.Log and math.Pow, which are wrong for subnormal numbers on amd64.
func logOf(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

func powOf(x, y float64) float64 {
	if x > 0 && x < 0x1p-1022 && math.Abs(y) < 1024 {
		return math.Pow(x*0x1p54, y) * math.Exp2(-54*y)
	}
	return math.Pow(x, y)
}
