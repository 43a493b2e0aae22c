package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// The precision of products is lowered where an option asks for it, and Explain reports where; without the option it
// reports nothing.
func TestPrecision(t *testing.T) {
	hurry(t)
	r := rand.New(rand.NewPCG(1, 1))
	matrix := func(n int) string {
		x := make([]string, n)
		for i := range x {
			x[i] = fmt.Sprintf("%.6g", r.NormFloat64())
		}
		return "{" + strings.Join(x, ", ") + "}"
	}
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]> g (float[20,32] x) => (y) <float[32,40] w = `+
		matrix(32*40)+`, float[40,8] v = `+matrix(40*8)+`> { h = MatMul (x, w) y = MatMul (h, v) }`), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    runtime.Options
		form string
	}{{runtime.Options{}, ""}, {runtime.Options{TF32: true}, "tf32"}, {runtime.Options{Precision: tensor.BFloat16}, "bf16"}} {
		d := emu.New(emu.Options{})
		m := load(t, d, cuda.Options{}, g, c.o)
		choices, err := m.Explain(nil)
		if err != nil {
			t.Fatal(err)
		}
		var forms []string
		for _, x := range choices {
			forms = append(forms, x.Form+" "+x.Why)
		}
		want := c.form + " , float32 matrices of 8 × 40 are smaller than 32 × 32"
		if c.form == "" {
			want = ""
		}
		if got := strings.Join(forms, ", "); got != want {
			t.Errorf("%v: found %q, expected %q", c.o.TF32, got, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		d.Close()
	}
	for _, b := range []runtime.Backend{cpu.New(), ref.New()} {
		var refused *runtime.OptionError
		if _, err := runtime.New(g, runtime.Options{Backend: b, TF32: true}); !errors.As(err, &refused) || refused.Option != "TF32" {
			t.Errorf("%s: found %v, expected a refusal of TF32", b.Name(), err)
		}
	}
	var refused *runtime.OptionError
	if _, err := runtime.New(g, runtime.Options{Backend: backend(t, emu.New(emu.Options{}), cuda.Options{}), TF32: true,
		Precision: tensor.BFloat16}); !errors.As(err, &refused) || refused.Option != "TF32" {
		t.Errorf("found %v, expected a refusal of two precisions", err)
	}
}
