package essm_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestConvolutionBodies compares the bodies of convolutions over pairs of features with their definition.
func TestConvolutionBodies(t *testing.T) {
	for _, op := range []*ir.Op{essm.MatrixConv, essm.ContinuousConv} {
		for i, s := range samples.Of(op) {
			bodyIsEval(t, fmt.Sprint(op.Name, " ", i), op, s)
		}
	}
	// Lengths around those of training, and their multiples.
	for _, s := range samples.Of(essm.ContinuousConv) {
		for _, l := range []int{1, 2, 3, 7, 8, 9, 14, 26, 33, 64} {
			s.In[0] = opstest.Normal(1, l, 3)
			bodyIsEval(t, fmt.Sprint(s.Attrs, l), essm.ContinuousConv, s)
		}
	}
}

func bodyIsEval(t *testing.T, what string, op *ir.Op, s opstest.Sample) {
	t.Helper()
	n := opstest.Plain(t, op, s)
	in := make([]tensor.Datum, len(s.In))
	for i, d := range s.In {
		x, err := d.(*tensor.Tensor).Convert(tensor.Float64, false)
		if err != nil {
			t.Fatal(err)
		}
		in[i] = x
	}
	want, err := opstest.Eval(n, in, true)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got, err := opstest.EvalBody(&ir.EvalCtx{Node: n, Ctx: context.Background(), Wide: true}, in)
	if err != nil {
		t.Fatalf("%s: body: %v", what, err)
	}
	if err := opstest.Near(got[0], want[0], 1e-9, 1e-9); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
