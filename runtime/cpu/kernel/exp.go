package kernel

import "math"

// exp64 returns eˣ with a relative error below 1e-10; 0 below -708, and infinity above 709.
func exp64(x float64) float64 {
	const (
		log2e = 1.44269504088896338700
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		round = 1<<52 + 1<<51 // adding it rounds to an integer
	)
	switch {
	case x != x:
		return x
	case x < -708:
		return 0
	case x > 709:
		return math.Inf(1)
	}
	n := x*log2e + round
	k := math.Float64bits(n)
	n -= round
	r := x - n*ln2Hi - n*ln2Lo
	p := 1.0 / 40320
	p = p*r + 1.0/5040
	p = p*r + 1.0/720
	p = p*r + 1.0/120
	p = p*r + 1.0/24
	p = p*r + 1.0/6
	p = p*r + 0.5
	p = p*r + 1
	p = p*r + 1
	return p * math.Float64frombits((k+1023)<<52)
}

// Exp computes y = eˣ with an error of at most two units in the last place, 0 for results below the normal numbers, and
// infinity for x above 88.72. The portable variant rounds once. y may be x.
func Exp(y, x []float32) {
	y = y[:len(x)]
	for i := expWide(y, x); i < len(x); i++ {
		y[i] = float32(exp64(float64(x[i])))
	}
}

// Sigmoid computes y = 1/(1 + e⁻ˣ) with an error of at most five units in the last place. The portable variant rounds
// once.
func Sigmoid(y, x []float32) {
	y = y[:len(x)]
	for i := sigmoidWide(y, x); i < len(x); i++ {
		y[i] = float32(1 / (1 + exp64(-float64(x[i]))))
	}
}

// Swish computes y = x/(1 + exp(-alpha·x)) with an error of at most five units in the last place where alpha is 1, and of
// 80 otherwise, since alpha·x is rounded. The portable variant rounds once. y may be x.
func Swish(y, x []float32, alpha float64) {
	y = y[:len(x)]
	for i := swishWide(y, x, float32(alpha)); i < len(x); i++ {
		a := float64(x[i])
		y[i] = float32(a / (1 + exp64(-alpha*a)))
	}
}
