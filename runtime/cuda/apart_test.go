package cuda_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/device"
)

// dividing is an emulated driver that is told where values are, and when they end (see device.Backend.Apart).
type dividing struct{ *emu.Driver }

func (d dividing) Fill(dst driver.Ptr, value byte, bytes uint64, s driver.Stream) error {
	switch value {
	case device.Forgotten:
		return d.Driver.Forget(dst, bytes, s)
	case device.Guarded:
		return d.Driver.Guard(dst, bytes)
	}
	return d.Driver.Fill(dst, value, bytes, s)
}

// The suite with all values apart, in the long mode whole: nobody reads or writes beyond a value, or one
// that has ended.
func TestApart(t *testing.T) {
	skip := map[string]string{
		"memory":        "values that share no memory take more than their account",
		"memory_bounds": "values that share no memory take more than their account",
	}
	if os.Getenv("ESSMC_LONG") == "" {
		for _, name := range []string{"ops", "samples", "forms", "networks", "parameters/networks", "sequences", "outputs", "sessions", "shapes", "threads",
			"options", "cancel", "close", "unsupported"} {
			skip[name] = "takes long: ESSMC_LONG=1 runs it"
		}
	}
	backendtest.Run(t, apart(t, cuda.Options{Fallback: "cpu"}), backendtest.Options{Must: []string{"*"}, Refuses: refuses, Seeds: 1,
		Graphs: someGraphs(), Small: !longMode(), Skip: hurried(skip), Networks: productError})
}

// The reference cases with all values apart.
func TestApartReference(t *testing.T) {
	if os.Getenv("ESSMC_LONG") == "" {
		t.Skip("takes long: ESSMC_LONG=1 runs it")
	}
	backendtest.Reference(t, apart(t, cuda.Options{}), backendtest.Options{})
}

// apart is emulated with values apart.
func apart(t *testing.T, o cuda.Options) func() runtime.Backend {
	return emulatedBy(t, func(d *emu.Driver) runtime.Backend { return cuda.Apart(backend(t, dividing{d}, o), 0, 0) })
}

// Values that end too early, or that are too short, are found.
func TestApartFinds(t *testing.T) {
	b := ir.NewBuilder("values", ops.Default, map[string]int{"": ops.Opsets()[""]})
	x := b.Input("x", ir.Tensor(tensor.Float32, 7, 9))
	y := b.Op("", "Softmax", []*ir.Value{x})
	z := b.Op("", "Transpose", []*ir.Value{b.Op("", "Softmax", []*ir.Value{b.Op("", "Exp", []*ir.Value{y})})})
	b.Output("z", b.Op("", "Softmax", []*ir.Value{z}))
	b.Output("w", b.Op("", "Mul", []*ir.Value{y, y}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		early, short int
		want         string
	}{{0, 0, ""}, {1, 0, "nobody wrote"}, {0, 4, "where a guard is"}, {0, 1, "where a guard is"}} {
		d := emu.New(emu.Options{})
		m, err := runtime.New(g, runtime.Options{Backend: cuda.Apart(backend(t, dividing{d}, cuda.Options{}), c.early, c.short)})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		in := data{"x": tensor.New(tensor.Float32, 7, 9)}
		var text strings.Builder
		for range 3 { // the third one is a graph
			if _, err := s.Run(context.Background(), in); err != nil {
				text.WriteString(err.Error())
			}
		}
		if err := m.Close(); err != nil && c.want == "" {
			t.Error(err)
		}
		for _, f := range d.Close() {
			text.WriteString(f.String() + "\n")
		}
		if got := text.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%d units early, %d bytes short: %s", c.early, c.short, got)
		}
	}
}
