package kernel

// erf32 is the error function, within 3 units in the last place: a quotient of polynomials on [-4, 4], beyond which the
// answer rounds to ±1.
func erf32(x float32) float32 {
	switch {
	case x > 4:
		return 1
	case x < -4:
		return -1
	}
	s := x * x
	p := float32(-2.72614225801306e-10)
	p = p*s + 2.77068142495902e-08
	p = p*s + -2.10102402082508e-06
	p = p*s + -5.69250639462346e-05
	p = p*s + -7.34990630326855e-04
	p = p*s + -2.95459980854025e-03
	p = p*s + -1.60960333262415e-02
	q := float32(-1.45660718464996e-05)
	q = q*s + -2.13374055278905e-04
	q = q*s + -1.68282697438203e-03
	q = q*s + -7.37332916720468e-03
	q = q*s + -1.42647390514189e-02
	return x * p / q
}

// Erf is the error function.
func Erf(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = erf32(v)
	}
}

// Gelu is x times the normal distribution function of x. y may be x.
func Gelu(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		if v < -14 { // x·Φ(x) rounds to 0, and -Inf·0 would be NaN
			y[i] = 0
			continue
		}
		y[i] = 0.5 * v * (1 + erf32(v*0.70710678))
	}
}

// GeluTanh is Gelu by its usual approximation.
func GeluTanh(y, x []float32) {
	const c = 0.7978845608028654
	y = y[:len(x)]
	for i, v := range x {
		a := float64(v)
		y[i] = float32(0.5 * a * (1 + tanh64(c*(a+0.044715*a*a*a))))
	}
}
