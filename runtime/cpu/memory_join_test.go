package cpu

import (
	"context"
	"math"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// TestJoined checks that inputs of Concat that nobody reads later are written where they belong, and no others.
func TestJoined(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *ir.Builder, x *ir.Value) *ir.Value
		moved int
	}{
		{"both", func(b *ir.Builder, x *ir.Value) *ir.Value {
			return concat(b, 1, pooled(b, x, 1), pooled(b, x, 2))
		}, 2},
		{"read later", func(b *ir.Builder, x *ir.Value) *ir.Value {
			y := pooled(b, x, 1)
			return concat(b, 1, concat(b, 1, y, pooled(b, x, 2)), y)
		}, 3}, // y in the outer result
		{"twice", func(b *ir.Builder, x *ir.Value) *ir.Value {
			y := pooled(b, x, 1)
			return concat(b, 1, y, y, pooled(b, x, 2))
		}, 1},
		{"nested", func(b *ir.Builder, x *ir.Value) *ir.Value {
			return concat(b, 1, pooled(b, x, 1), concat(b, 1, pooled(b, x, 2), pooled(b, x, 3)))
		}, 4},
		{"input", func(b *ir.Builder, x *ir.Value) *ir.Value { return concat(b, 1, x, pooled(b, x, 1)) }, 1},
		{"columns", func(b *ir.Builder, x *ir.Value) *ir.Value {
			return concat(b, 3, pooled(b, x, 1), pooled(b, x, 2))
		}, 0},
	} {
		b := ir.NewBuilder("joined", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float32, 1, 3, 5, 7))
		b.Output("y", b.Op("", "ReduceMax", []*ir.Value{c.build(b, x)})) // which lies in the arena
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := compile(g, runtime.Config{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		bound, err := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Tensor(tensor.Float32, 1, 3, 5, 7)}})
		if err != nil {
			t.Fatal(err)
		}
		e := bound.(*executable)
		in := NewGen(1).Floats(1, 3, 5, 7)
		out := make([]tensor.Datum, 1)
		if err := e.Run(context.Background(), []tensor.Datum{in}, out); err != nil {
			t.Fatal(err)
		}
		want := float32(math.Inf(-1))
		for _, v := range tensor.Data[float32](in) {
			want = max(want, v)
		}
		if found := tensor.Data[float32](out[0].(*tensor.Tensor))[0]; found != want {
			t.Errorf("%s: expected %v, found %v", c.name, want, found)
		}
		moved := 0
		for _, u := range e.units {
			if u.kernel == nil || u.kernel.joins == nil {
				continue
			}
			y := e.PlaceOf(u.steps[0].Out[0])
			for k, v := range u.steps[0].In {
				if x := e.PlaceOf(v); x != nil && &x.Bytes()[0] == &y.Bytes()[u.kernel.joins[k]] {
					moved++
				}
			}
		}
		if moved != c.moved {
			t.Errorf("%s: expected %d inputs in place, found %d", c.name, c.moved, moved)
		}
	}
}

func concat(b *ir.Builder, axis int64, x ...*ir.Value) *ir.Value {
	return b.Op("", "Concat", x, ir.A("axis", axis))
}

// pooled is a node with a kernel of whole tensors.
func pooled(b *ir.Builder, x *ir.Value, reach int64) *ir.Value {
	return b.Op("", "MaxPool", []*ir.Value{x}, ir.A("kernel_shape", []int64{2*reach + 1, 2*reach + 1}),
		ir.A("pads", []int64{reach, reach, reach, reach}))
}
