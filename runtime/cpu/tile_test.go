package cpu

import (
	"context"
	"log/slog"
	"math"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// TestTileBits checks that rows have the same bits with any number of threads, on which tiles may depend: for each elementwise operator and each row kernel
// without constants, beside numbers that take other paths.
func TestTileBits(t *testing.T) {
	tested := 0
	for _, features := range []int{3, 7, 33} {
		for _, shape := range [][]int{{230, features}, {features}, {230, 1}} { // of the inputs but the first
			tested += testTileBits(t, features, shape)
		}
	}
	if tested < 400 {
		t.Errorf("%d cases", tested)
	}
}

func testTileBits(t *testing.T, features int, other []int) (tested int) {
	const rows = 230
	r := NewGen(8)
	for _, op := range ops.Default.All() {
		needed := 0
		for _, p := range op.In {
			if !p.Optional {
				needed++
			}
		}
		if !ops.Newest(op) || !elementwise.Of(op) && record.For(op).Row.Make == nil || len(op.Out) == 0 {
			continue
		}
		b := ir.NewBuilder("tiles", ops.Default, ops.Opsets())
		var in []tensor.Datum
		var types []ir.Type
		var args []*ir.Value
		for i := range needed {
			shape := []int{rows, features}
			if i > 0 {
				shape = other
			}
			x := r.Floats(4, shape...)
			special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30, 1e-40, 300, -300, 2e5, -2e5}
			for j := range tensor.Data[float32](x) {
				switch j += 11 * i; {
				case j%97 == 0:
					tensor.Data[float32](x)[j-11*i] = float32(special[j/97%len(special)])
				case j%3 == 0:
					tensor.Data[float32](x)[j-11*i] = float32(math.Copysign(0, -1))
				}
			}
			in = append(in, x)
			types = append(types, ir.Of(x))
			args = append(args, b.Input(string(rune('a'+i)), types[i]))
		}
		out := func() (v *ir.Value) {
			defer func() { recover() }() // an operator that does not take these
			return b.Op(op.Domain, op.Name, args)
		}()
		if out == nil {
			continue
		}
		b.Output("y", b.Op("", "Identity", []*ir.Value{out}))
		g, err := b.Build()
		if err != nil {
			continue
		}
		var first []byte
		for _, threads := range []int{1, 2, 3, 4, 7, 16} {
			p, err := compile(g, runtime.Config{Threads: threads, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Bind(runtime.Binding{Inputs: types})
			if err != nil {
				break
			}
			y := []tensor.Datum{nil}
			if err := x.Run(context.Background(), in, y); err != nil {
				t.Fatalf("%s: %v", op.FullName(), err)
			}
			out, ok := y[0].(*tensor.Tensor)
			if !ok {
				break // a sequence, or absent
			}
			got := out.Bytes()
			if first == nil {
				first = got
				tested++
			}
			for i := range got {
				if got[i] != first[i] {
					t.Errorf("%s of %d features and %v: %d threads: number %d is another one than with one thread", op.FullName(),
						features, other, threads, i/4)
					break
				}
			}
			x.Close()
			p.Close()
		}
	}
	return tested
}
