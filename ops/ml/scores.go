package ml

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

var postTransform = ops.ChoiceSpec("post_transform", "function of the scores", "NONE", "SOFTMAX", "LOGISTIC",
	"SOFTMAX_ZERO", "PROBIT")

// transform applies post_transform to one sample's scores, in place.
func transform(c *ir.EvalCtx, kind string, v []float64) {
	switch kind {
	case "SOFTMAX":
		softmax(c, v)
	case "LOGISTIC":
		for i, x := range ops.All(c, v) {
			v[i] = logistic(x)
		}
	case "SOFTMAX_ZERO":
		softmaxZero(c, v)
	case "PROBIT":
		for i, x := range ops.All(c, v) {
			v[i] = probit(x)
		}
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func top(c *ir.EvalCtx, v []float64) float64 {
	m := math.Inf(-1)
	for _, x := range ops.All(c, v) {
		m = max(m, x)
	}
	return m
}

func softmax(c *ir.EvalCtx, v []float64) {
	m, sum := top(c, v), 0.0
	for i, x := range ops.All(c, v) {
		v[i] = math.Exp(x - m)
		sum += v[i]
	}
	for i := range ops.Each(c, len(v)) {
		v[i] /= sum
	}
}

// softmaxZero computes a softmax without the scores that are (nearly) zero, which stay.
func softmaxZero(c *ir.EvalCtx, v []float64) {
	m, sum := top(c, v), 0.0
	for i, x := range ops.All(c, v) {
		if math.Abs(x) > 1e-7 {
			v[i] = math.Exp(x - m)
			sum += v[i]
		} else {
			v[i] = x * math.Exp(-m)
		}
	}
	if sum == 0 {
		return
	}
	for i := range ops.Each(c, len(v)) {
		v[i] /= sum
	}
}

// probit approximates the inverse of the normal distribution function by Winitzki's formula, with an error of up to
// 2e-3. All engines do, so their answers agree.
func probit(p float64) float64 {
	x := 2*p - 1
	log := math.Log((1 - x) * (1 + x))
	v := 2/(math.Pi*0.147) + 0.5*log
	return math.Copysign(math.Sqrt2*math.Sqrt(-v+math.Sqrt(v*v-log/0.147)), x)
}

// secondScore is the way in which a binary classifier's single score becomes two.
type secondScore int

const (
	alone      secondScore = iota // one score stays one, which only PROBIT transforms
	complement                    // 1-s and s
	opposite                      // -s and s
)

// finish adds the second score of two classes, and applies post_transform. As in ONNX Runtime, a single score, or two
// made from it, are transformed by LOGISTIC (as -s and s if there are two) and PROBIT only.
func finish(c *ir.EvalCtx, kind string, v []float64, second secondScore) []float64 {
	if len(v) != 1 {
		transform(c, kind, v)
		return v
	}
	s := v[0]
	switch {
	case second == alone:
	case second == opposite || kind == "LOGISTIC":
		v = append(v[:0], -s, s)
	default:
		v = append(v[:0], 1-s, s)
	}
	if kind == "PROBIT" || kind == "LOGISTIC" && second != alone {
		transform(c, kind, v)
	}
	return v
}

// argmax returns the index of the first of the largest. It returns 0 if no comparison is true.
func argmax(c *ir.EvalCtx, v []float64) int {
	best := 0
	for i, x := range ops.All(c, v) {
		if x > v[best] {
			best = i
		}
	}
	return best
}
