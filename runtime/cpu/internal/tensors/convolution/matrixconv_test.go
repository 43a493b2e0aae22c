package convolution_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestMatrixConv tests convolutions over pairs of features, with as many taps as steps, fewer and more.
func TestMatrixConv(t *testing.T) {
	r := NewGen(41)
	for _, c := range []struct{ batch, length, m, n, taps int }{{1, 1, 1, 1, 1}, {2, 7, 3, 9, 7}, {1, 100, 9, 2, 3}, {3, 33, 17, 5, 40},
		{1, 300, 1, 8, 300}} {
		on.Node(t, "essm.MatrixConv", 1, []Operand{Given(r.Floats(1, c.batch, c.length, c.m)), Fixed(r.Floats(1, c.n, c.m, c.taps))})
	}
}

// TestContinuousConv tests kernels at all rates, with norms and without.
func TestContinuousConv(t *testing.T) {
	r := NewGen(42)
	for i, length := range []int{1, 2, 13, 40, 79, 130, 301} {
		m, n := 1+i%3, 1+i*2
		in := append([]Operand{Given(r.Floats(1, 1+i%2, length, m))}, network(r, 7, 5, m*n, i%2 == 1)...)
		for _, train := range []int{0, 2, 40, 130, 1000} {
			f := []string{"sine", "relu", "swish", "leaky_relu"}[i%4]
			on.Node(t, "essm.ContinuousConv", 1, in, ir.A("activation", f), ir.A("train_length", train))
		}
	}
}

func network(r Gen, q, p, rows int, norms bool) []Operand {
	wide := func(shape ...int) Operand {
		x, err := r.Floats(1, shape...).Convert(tensor.Float64, false)
		if err != nil {
			panic(err)
		}
		return Fixed(x)
	}
	in := []Operand{wide(q), wide(q), wide(p, q), wide(p), wide(rows, p), wide(rows)}
	if norms {
		in = append(in, wide(2, q), wide(2, p))
	}
	return in
}

// TestContinuousConvEnds checks that a first run that is cancelled leaves nothing half made.
func TestContinuousConvEnds(t *testing.T) {
	r := NewGen(43)
	in := append([]Operand{Given(r.Floats(1, 1, 2000, 8))}, network(r, 16, 16, 8*16, true)...)
	g, feed := NodeGraph(t, "essm.ContinuousConv", 1, in, ir.A("activation", "sine"))
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	ctx, cancel := context.WithCancel(context.Background())
	ends := &ending{Context: ctx, cancel: cancel}
	if _, err := s.Run(ends, feed); !errors.Is(err, context.Canceled) {
		t.Fatalf("found %v", err)
	}
	got, err := s.Run(context.Background(), feed)
	if err != nil {
		t.Fatal(err)
	}
	CloseTo(t, "after it", got, Truth(t, g, feed), 2e-6)
}

// ending is a context that ends when it is asked for the fifth time.
type ending struct {
	context.Context
	cancel context.CancelFunc
	asked  atomic.Int64
}

// Err counts.
func (e *ending) Err() error {
	if e.asked.Add(1) == 5 {
		e.cancel()
	}
	return e.Context.Err()
}
