package kernel_test

import (
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestEmbedding(t *testing.T) {
	for _, width := range []int{1, 3, 128, 200} {
		table := make([]float32, 5*width)
		for i := range table {
			table[i] = float32(i)
		}
		for _, test := range []struct {
			wide   []int64
			narrow []int32
			fault  int32
		}{
			{wide: []int64{0, 4, 2, 2}}, {narrow: []int32{4, 0, 1}}, {wide: []int64{1, 5}, fault: 1}, {wide: []int64{-1, 1}, fault: 1},
			{wide: []int64{1 << 32}, fault: 1}, {narrow: []int32{3, -1}, fault: 1}, {wide: []int64{-1, 7, 2}, fault: 1},
		} {
			b := kerneltest.New(t)
			tokens := test.wide
			for _, k := range test.narrow {
				tokens = append(tokens, int64(k))
			}
			in := b.In(test.wide)
			if test.narrow != nil {
				in = b.In(test.narrow)
			}
			y, fault := b.Out(4*len(tokens)*width), b.In([]int32{0})
			c, ok := kernel.Embedding{Y: y, Tokens: in, Table: b.In(table), Fault: fault, Count: len(tokens), Rows: 5, Width: width,
				Narrow: test.narrow != nil}.Call()
			if !ok {
				t.Fatal("no launch")
			}
			b.Run(c)
			want := make([]float32, len(tokens)*width)
			for i, k := range tokens {
				if k >= 0 && k < 5 {
					copy(want[i*width:], table[int(k)*width:][:width])
				}
			}
			if got := b.Float32s(y); !slices.Equal(got, want) || b.Int32s(fault)[0] != test.fault {
				t.Errorf("width %d, tokens %v: found %v (fault %v), expected %v", width, tokens, got, b.Int32s(fault), want)
			}
		}
	}
	count := math.MaxInt32
	count++
	if _, ok := (kernel.Embedding{Count: count, Rows: 1, Width: 1}).Call(); ok {
		t.Error("a grid of 2^31 blocks")
	}
}
