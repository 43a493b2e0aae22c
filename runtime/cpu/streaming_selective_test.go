package cpu

import (
	"context"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

// TestSelectiveTimeChunks checks that answers in chunks do not depend on the time chunks of a stretch.
func TestSelectiveTimeChunks(t *testing.T) {
	const length, heads, per, n = 500, 2, 16, 4
	r := NewGen(15)
	b := ir.NewBuilder("layers", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	input := func(name string, width int) *ir.Value {
		return b.Input(name, ir.Tensor(tensor.Float32, "B", "L", width))
	}
	x, steps, give, take := input("x", heads*per), input("steps", heads), input("b", n), input("c", n)
	rates := b.Const("rates", tensor.FromSlice([]float32{-0.01, -1}, heads, 1))
	for range 2 {
		x = b.Op("essm", "SelectiveScan", []*ir.Value{x, steps, rates, give, take})
	}
	b.Output("y", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := []tensor.Datum{r.Floats(1, 2, length, heads*per), r.Floats(1, 2, length, heads), r.Floats(1, 2, length, n),
		r.Floats(1, 2, length, n)}
	for i, v := range tensor.Data[float32](in[1].(*tensor.Tensor)) {
		tensor.Data[float32](in[1].(*tensor.Tensor))[i] = max(v, -v)
	}
	var want []byte
	for _, rows := range []int{1 << 20, 192, 400, 2} {
		e := bindConfig(t, g, runtime.Config{Kernel: essm.FormChunked, Threads: 2}, rows, in)
		if chunked := rows < 1<<20; chunked != (len(e.stretches) > 0) {
			t.Errorf("%d rows: %d stretches", rows, len(e.stretches))
		}
		out := make([]tensor.Datum, 1)
		if err := e.Run(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		got := out[0].(*tensor.Tensor).Bytes()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("time chunks of %d rows change the answer", rows)
		}
	}
}
