package train_test

import "testing"

// BenchmarkStep is a step of a small model: 16 sequences of 60 steps.
func BenchmarkStep(b *testing.B) {
	tr := newTrainer(b, small(b, 1), options(1))
	x := batch(16, 60, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Step(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}
