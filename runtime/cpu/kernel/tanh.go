package kernel

// tanh64 returns the hyperbolic tangent with a relative error below 1e-9.
func tanh64(x float64) float64 {
	if x > -0.3 && x < 0.3 { // the quotient below cancels near zero
		s := x * x
		p := -1382.0 / 155925
		p = p*s + 62.0/2835
		p = p*s - 17.0/315
		p = p*s + 2.0/15
		p = p*s - 1.0/3
		return x + x*s*p
	}
	if x > 20 {
		return 1
	}
	e := exp64(2 * x)
	return (e - 1) / (e + 1)
}

// Tanh computes y = tanh x with an error of at most eight units in the last place. The portable variant rounds once.
func Tanh(y, x []float32) {
	y = y[:len(x)]
	for i := tanhWide(y, x); i < len(x); i++ {
		y[i] = float32(tanh64(float64(x[i])))
	}
}
