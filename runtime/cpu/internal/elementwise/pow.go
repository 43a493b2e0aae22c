package elementwise

import "math"

// power is math.Pow for a result that is rounded to float32: where x is a positive number, and the result a normal
// float32, to about 1e-11 of it.
func power(x, y float64) float64 {
	if !(x >= math.SmallestNonzeroFloat32 && x <= math.MaxFloat32) || !(math.Abs(y) <= 1<<12) {
		return math.Pow(x, y)
	}
	t := y * log2(x)
	if !(math.Abs(t) < 125) {
		return math.Pow(x, y)
	}
	return exp2(t)
}

// powerParts is the number of parts of [1, 2) in the tables below.
const powerParts = 32

// powerTable holds for the middle c of each part of [1, 2) 1/c and the logarithm of c, and powers of 2.
var powerTable = func() (t [powerParts]struct{ inverse, log, power float64 }) {
	for i := range t {
		c := 1 + (float64(i)+0.5)/powerParts
		t[i].inverse = 1 / c
		t[i].log = math.Log2(1 / t[i].inverse)
		t[i].power = math.Exp2(float64(i) / powerParts)
	}
	return t
}()

// log2 returns the binary logarithm of a positive normal number.
func log2(x float64) float64 {
	b := math.Float64bits(x)
	e := &powerTable[b>>(52-5)%powerParts]
	m := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	r := m*e.inverse - 1 // at most 1/64
	s := r * r
	// ln(1+r) by its series.
	ln := r + s*(-1./2+r*(1./3)) + s*s*(-1./4+r*(1./5)+s*(-1./6+r*(1./7)))
	return float64(int(b>>52)-1023) + e.log + ln*(1/math.Ln2)
}

// exp2 returns the power of 2 for exponents of normal numbers.
func exp2(t float64) float64 {
	k := math.Floor(t*powerParts + 0.5)
	f := (t - k/powerParts) * math.Ln2 // at most ln 2 / 64
	i := int(k)
	p := 1 + f*(1+f*(1./2+f*(1./6+f*(1./24+f*(1./120)))))
	scale := math.Float64frombits(uint64(1023+i>>5) << 52)
	return powerTable[i&(powerParts-1)].power * p * scale
}

// fourthPower sets y = x⁴.
func fourthPower(y, x []float32) {
	for i, v := range x {
		w := float64(v) * float64(v)
		y[i] = float32(w * w)
	}
}
