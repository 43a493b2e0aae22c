package kernel

// erfc64 returns 1 - erf(x) with a relative error below 1e-7, also in the tail. It computes e^(-x²) times a polynomial
// in 1/(1+|x|/2) that interpolates e^(x²)·erfc(x) at Chebyshev points.
func erfc64(x float64) float64 {
	z := x
	if z < 0 {
		z = -z
	}
	t := 1 / (1 + 0.5*z)
	p := 0.04317306619941519
	p = p*t + -0.23460549203423398
	p = p*t + 0.49338574494487375
	p = p*t + -0.45456372191543437
	p = p*t + 0.1318500429100169
	p = p*t + -0.059050911224032276
	p = p*t + 0.0934147488228958
	p = p*t + 0.17532407533627248
	p = p*t + 0.24688387983634835
	p = p*t + 0.2820937767893684
	p = p*t + 0.28209479506443297
	p *= t * exp64(-z*z)
	if x < 0 {
		return 2 - p
	}
	return p
}

// erf64 returns the error function with a relative error below 1e-8.
func erf64(x float64) float64 {
	if x < -1 || x > 1 {
		return 1 - erfc64(x)
	}
	// 2/√π·Σ (-1)ⁿ x²ⁿ⁺¹ / (n!·(2n+1))
	s := x * x
	p := 1.0 / 76204800
	p = p*s - 1.0/6894720
	p = p*s + 1.0/685440
	p = p*s - 1.0/75600
	p = p*s + 1.0/9360
	p = p*s - 1.0/1320
	p = p*s + 1.0/216
	p = p*s - 1.0/42
	p = p*s + 1.0/10
	p = p*s - 1.0/3
	return 1.1283791670955126 * (x + x*s*p)
}

// Erf computes the error function with an error of at most six units in the last place. The portable variant rounds
// once. y may be x.
func Erf(y, x []float32) {
	y = y[:len(x)]
	for i := erfWide(y, x); i < len(x); i++ {
		y[i] = float32(erf64(float64(x[i])))
	}
}

// Gelu computes x times the normal distribution function of x, with an error of at most 2e-7·|x|. The portable variant
// rounds once. y may be x.
func Gelu(y, x []float32) {
	y = y[:len(x)]
	for i := geluWide(y, x); i < len(x); i++ {
		a := float64(x[i])
		y[i] = float32(0.5 * a * erfc64(a*-0.7071067811865476))
	}
}

// GeluTanh computes the approximation of Gelu by tanh, as x/(1 + e^-2u), in which nothing cancels. y may be x.
func GeluTanh(y, x []float32) {
	const c = 0.7978845608028654
	y = y[:len(x)]
	for i := geluTanhWide(y, x); i < len(x); i++ {
		a := float64(x[i])
		y[i] = float32(a / (1 + exp64(-2*c*(a+0.044715*a*a*a))))
	}
}
