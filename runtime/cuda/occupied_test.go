package cuda_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// squaring returns y = exp(x·x).
func squaring(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("squaring", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "N"))
	b.Output("y", b.Op("", "Exp", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, x})}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Another process takes and gives back memory of the card while models run: requests that do not fit then name shape and bytes,
// others are answered.
func TestTwoProcesses(t *testing.T) {
	const total = 64 << 20
	drv := emu.New(emu.Options{Memory: total})
	b, err := cuda.New(drv, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(squaring(t), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) error {
		s := m.NewSession()
		defer s.Close()
		got, err := s.Run(context.Background(), data{"x": tensor.New(tensor.Float32, n)})
		if err == nil && tensor.Data[float32](got["y"].(*tensor.Tensor))[n-1] != 1 {
			t.Errorf("%d numbers: found %v", n, got)
		}
		return err
	}
	const more, many, few = 4 << 20, 1 << 20, 100 // the pool keeps the memory of many, and no other process takes that
	for range 2 {
		if err := run(many); err != nil {
			t.Error(err)
		}
		drv.Occupy(0, total-(3<<20))
		var full *runtime.MemoryError
		if err := run(more); !errors.As(err, &full) || full.Need < 4*more || !strings.Contains(err.Error(), "x float32[4194304]") {
			t.Errorf("found %v, expected an error with shape and bytes", err)
		}
		if err := run(few); err != nil {
			t.Error(err)
		}
		drv.Occupy(0, 2*total) // nothing is left
		if err := run(more + 1); !errors.As(err, &full) {
			t.Errorf("found %v, expected an error of memory", err)
		}
		drv.Occupy(0, 0)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, f := range drv.Close() {
		t.Error(f)
	}
}

// A card that another process uses exclusively is refused with a line that says so, and accepted once it is free.
func TestExclusive(t *testing.T) {
	held := true
	drv := emu.New(emu.Options{Fail: func(call string, _ int) driver.Code {
		if held && call == "cuDevicePrimaryCtxRetain" {
			return driver.DeviceUnavailable
		}
		return driver.Success
	}})
	b, err := cuda.New(drv, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = runtime.New(squaring(t), runtime.Options{Backend: b})
	if err == nil || !strings.Contains(err.Error(), "another process uses it exclusively") || strings.Contains(err.Error(), "\n") {
		t.Errorf("found %v", err)
	}
	held = false
	m, err := runtime.New(squaring(t), runtime.Options{Backend: b})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewSession().Run(context.Background(), data{"x": numbers(3, 1)}); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for _, f := range drv.Close() {
		t.Error(f)
	}
}
