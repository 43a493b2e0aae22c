package cpu

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// TestStateAcross checks that a sequence in pieces, with the state passed on, has the answers of the whole sequence,
// and that the state can be the only output.
func TestStateAcross(t *testing.T) {
	for i, s := range []system{
		{batch: 2, length: 300, ch: 1, heads: 2, n: 5, h: 3, m: 3, direction: "forward", state: true},
		{batch: 2, length: 300, ch: 2, heads: 2, n: 4, h: 3, m: 3, direction: "forward", state: true, window: 9,
			complexB: true, complexC: true},
		{batch: 2, length: 300, ch: 1, heads: 2, n: 5, h: 3, m: 3, direction: "forward", state: true, dense: true,
			window: 3},
	} {
		g, in := s.graph(t, uint64(40+i))
		want := Truth(t, g, in)["y"].(*tensor.Tensor)
		for _, form := range runtime.Kernels() {
			state := in["state"]
			joined := tensor.New(tensor.Float32, want.Shape()...)
			width := want.Dim(2)
			u := in["u"].(*tensor.Tensor)
			for lo, step := 0, 0; lo < s.length; lo += step {
				step = min([]int{1, 70, 4, 129}[(lo+step)%4], s.length-lo)
				part := tensor.New(tensor.Float32, s.batch, step, u.Dim(2))
				for b := range s.batch {
					copy(tensor.Data[float32](part)[b*step*u.Dim(2):],
						tensor.Data[float32](u)[(b*s.length+lo)*u.Dim(2):(b*s.length+lo+step)*u.Dim(2)])
				}
				out := Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 2},
					map[string]tensor.Datum{"u": part, "state": state})
				state = out["state_out"]
				for b := range s.batch {
					copy(tensor.Data[float32](joined)[(b*s.length+lo)*width:],
						tensor.Data[float32](out["y"].(*tensor.Tensor))[b*step*width:(b+1)*step*width])
				}
			}
			CloseTo(t, form+" "+s.String(), map[string]tensor.Datum{"y": joined}, map[string]tensor.Datum{"y": want},
				5e-6)
		}
	}
}

// TestStateAlone tests systems whose state is the only output.
func TestStateAlone(t *testing.T) {
	r := NewGen(6)
	for _, dense := range []bool{false, true} {
		b := ir.NewBuilder("alone", ops.Default, ops.Opsets())
		v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", 4))
		var out *ir.Value
		f := func(x float64, shape ...int) *ir.Value {
			return b.Const("c", r.Doubles(func() float64 { return x * (1 + r.Float64()) }, shape...))
		}
		if dense {
			out = b.Ops("essm", "DenseScan", 2, []*ir.Value{v, f(0.1, 1, 1, 4, 4), f(0.3, 1, 1, 4, 4)})[1]
		} else {
			out = b.Ops("essm", "Scan", 3,
				[]*ir.Value{v, f(-0.1, 1, 1, 4), f(1, 1, 1, 4), f(1, 1, 1, 4), f(0.2, 1, 1, 4)})[2]
		}
		if !dense {
			out.Def.Outputs[1] = nil
		}
		b.Output("state", out)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]tensor.Datum{"v": r.Floats(1, 2, 200, 4)}
		want := Truth(t, g, in)
		for _, form := range runtime.Kernels() {
			CloseTo(t, form, Run(t, g, runtime.Options{Backend: New(), Kernel: form}, in), want, 1e-6)
		}
	}
}
