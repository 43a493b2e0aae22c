package kernel_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// TestNarrow checks conversions from and to all types of few bits against the operator Cast: of all numbers of these types, and
// at odd lengths of numbers around the limits of their formats.
func TestNarrow(t *testing.T) {
	var numbers []float64
	for _, d := range tensor.DTypes() { // each float of 8 bits, those halfway, and their neighbours
		if d.IsFloat() && d.Bits() == 8 {
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			x, err := tensor.FromBytes(d, []int{256}, all)
			if err != nil {
				t.Fatal(err)
			}
			v, err := x.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(v)
			for i, x := range v {
				numbers = append(numbers, x)
				if i > 0 {
					half := (x + v[i-1]) / 2
					numbers = append(numbers, half, half*(1+0x1p-22), half*(1-0x1p-22), half*(1+0x1p-40))
				}
			}
		}
	}
	numbers = append(numbers, math.Copysign(0, -1), 1e30, -1e30, math.Inf(1), math.Inf(-1), 0x1p-149, 0x1.8p-127, 0x1.4p-127, 6, 7,
		-8.5, 15.9, 3.4e38)
	pairs := 0
	for _, from := range tensor.DTypes() {
		for _, to := range tensor.DTypes() {
			if from == to || !Narrows(from, to) {
				continue
			}
			pairs++
			v := numbers
			if from.IsInt() || from == tensor.Bool {
				v = []float64{0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 14, 15, 16, 17, 100, 120, 127}
				if from.Bits() > 8 {
					v = append(v, 447, 448, 449, 464, 465, 1000, 30000, 32767)
				}
			}
			if to.IsInt() { // beyond the range of 64 bits they are undefined
				v = slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return !(math.Abs(x) < 1000) })
			}
			if len(v)%2 == 0 {
				v = v[1:]
			}
			x, err := tensor.FromFloat64s(from, v, len(v))
			if err != nil {
				t.Fatal(err)
			}
			for _, saturate := range []bool{false, true} {
				for _, mode := range []Rounding{Up, Down, Nearest} {
					if mode != Up && to != tensor.Float8E8M0 || saturate && to.Bits() != 8 {
						continue
					}
					want := castOf(t, x, to, saturate, mode)
					calls, ok := Narrow(len(v), saturate, mode, 1, to, 2, from)
					if !ok {
						t.Fatalf("%v to %v: not converted", from, to)
					}
					got, err := tensor.FromBytes(to, []int{len(v)}, run(t, calls, len(want.Bytes()), []*tensor.Tensor{x}))
					if err != nil {
						t.Fatal(err)
					}
					before, _ := x.Float64s()
					w, _ := want.Float64s()
					g, _ := got.Float64s()
					for i := range w {
						if math.Float64bits(w[i]) != math.Float64bits(g[i]) && !(w[i] != w[i] && g[i] != g[i]) {
							t.Errorf("%v %v to %v, saturate %v, %v: expected %v, found %v", from, before[i], to, saturate, mode, w[i], g[i])
						}
					}
				}
			}
		}
	}
	if pairs < 200 {
		t.Errorf("%d pairs of types", pairs)
	}
	if _, ok := Narrow(3, false, Up, 1, tensor.Float32, 2, tensor.Float64); ok {
		t.Error("types of whole words are narrow")
	}
}

// castOf returns x in another type, as the interpreter has it.
func castOf(t *testing.T, x *tensor.Tensor, to tensor.DType, saturate bool, mode Rounding) *tensor.Tensor {
	t.Helper()
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	in := b.Input("x", &ir.TensorType{Elem: x.DType(), Shape: ir.Shape{ir.Const(int64(x.Len()))}})
	s := int64(0)
	if saturate {
		s = 1
	}
	attrs := ir.Attrs{}.With("to", int64(to)).With("saturate", s).With("round_mode", string(mode))
	b.Output("y", b.Op("", "Cast", []*ir.Value{in}, attrs...))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	n := g.Nodes[0]
	out, err := n.Op.Eval(&ir.EvalCtx{Ctx: context.Background(), Node: n}, []tensor.Datum{x})
	if err != nil {
		t.Fatal(fmt.Errorf("%v to %v: %w", x.DType(), to, err))
	}
	return out[0].(*tensor.Tensor)
}
