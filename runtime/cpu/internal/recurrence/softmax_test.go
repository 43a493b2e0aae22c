package recurrence_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestSoftmaxConv compares convolutions with softmax kernels with the interpreter, in both forms, at odd sizes.
func TestSoftmaxConv(t *testing.T) {
	for i, direction := range []string{"forward", "bidirectional"} {
		for _, features := range []int{1, 7, 9} {
			for _, length := range []int{1, 2, 33, 300} {
				r := NewGen(uint64(length + features))
				b := ir.NewBuilder("softmax", ops.Default, ops.Opsets())
				u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", features))
				in := map[string]tensor.Datum{"u": r.Floats(1, 1+i, length, features)}
				args := []*ir.Value{u}
				n := 1 + length%6
				for k := range 6 + 2*i {
					scale := 1.0
					if k < 2 {
						scale = 0.05
					}
					args = append(args, b.Const(fmt.Sprint("c", k),
						r.Doubles(func() float64 { return scale * r.NormFloat64() }, features, n)))
				}
				for k := range n * features { // states grow where the real part of λ is above 0
					a, lambda := tensor.Data[float64](args[1].Const), tensor.Data[float64](args[3].Const)
					a[k] = lambda[k] / 50
				}
				b.Output("y", b.Op("essm", "SoftmaxConv", args, ir.A("direction", direction), ir.A("window", 100*(length%2))))
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				for _, form := range runtime.Kernels() {
					got := Run(t, g, runtime.Options{Backend: cpu.New(), Threads: 2, Kernel: form}, in)
					CloseTo(t, fmt.Sprint(form, direction, features, length), got, Truth(t, g, in), 2e-6)
					on.Parameters(t, fmt.Sprint(form, direction, features, length), g, in, runtime.Options{Kernel: form})
				}
			}
		}
	}
}
