package moves_test

import (
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestGather tests indices that are inputs, from the beginning and from the end.
func TestGather(t *testing.T) {
	r := NewGen(21)
	bools := tensor.New(tensor.Bool, 3, 4)
	for i := range tensor.Data[bool](bools) {
		tensor.Data[bool](bools)[i] = r.IntN(2) == 0
	}
	for _, x := range []*tensor.Tensor{With(r.Floats(1, 4, 3, 5), 2, math.NaN()), r.Floats(1, 3), bools} {
		for axis := range x.Rank() {
			n := int64(x.Dim(axis))
			for _, at := range []Operand{Given(Number(n - 1)), Given(Number(-n)),
				Given(tensor.FromSlice([]int32{0, -1, 1, 1}, 2, 2)), Given(tensor.New(tensor.Int64, 0))} {
				on.Node(t, "Gather", 1, []Operand{Given(x), at}, ir.A("axis", axis))
			}
		}
	}
	g := Parse(t, `g (float[3,2] x, int64[N] at) => (y) { y = Gather (x, at) }`)
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{3, -4, math.MaxInt64, math.MinInt64} {
		if _, err := m.NewSession().Run(context.Background(),
			map[string]tensor.Datum{"x": r.Floats(1, 3, 2), "at": Whole(0, at)}); err == nil {
			t.Errorf("index %d of 3 is taken", at)
		}
	}
}
