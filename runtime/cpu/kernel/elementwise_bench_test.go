package kernel

import "testing"

// BenchmarkRows measures the kernels that run between products, on rows that lie in the first-level cache.
func BenchmarkRows(b *testing.B) {
	const rows, f = 16, 128
	r := newRand()
	x, z, y := random(r, rows*f), random(r, rows*f), make([]float32, rows*f)
	scale, shift := random(r, f), random(r, f)
	gate := NewFused(f, []Operand{{0, f}, {0, f}},
		[]FusedStep{{Op: FusedSigmoid}, {Op: FusedMul, X: 1}, {Op: FusedAdd, X: 0},
			{Op: FusedAffine, X: -1, A: scale, B: shift}})
	operands := [][]float32{x, z}
	for _, k := range []struct {
		name string
		run  func()
	}{
		{"gelu", func() { Gelu(y, x) }},
		{"sigmoid", func() { Sigmoid(y, x) }},
		{"tanh", func() { Tanh(y, x) }},
		{"exp", func() { Exp(y, x) }},
		{"swish", func() { Swish(y, x, 1) }},
		{"relu", func() { Relu(y, x) }},
		{"leaky", func() { LeakyRelu(y, x, 0.25) }},
		{"add", func() { Add(y, x, z) }},
		{"mul", func() { Mul(y, x, z) }},
		{"affine", func() { Affine(y, x, rows, scale, shift) }},
		{"scale", func() { Scale(y, x, rows, scale, f) }},
		{"gate", func() { gate.Run(y, operands, rows) }},
		{"layernorm", func() { LayerNorm(y, x, rows, f, 1e-5, scale, shift) }},
	} {
		b.Run(k.name, func(b *testing.B) {
			for range b.N {
				k.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows*f), "ns/number")
		})
	}
}
