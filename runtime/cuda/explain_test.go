package cuda_test

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
)

// Explain names the form of scans and convolutions, the levels of transforms, and the forms that were not chosen.
func TestForms(t *testing.T) {
	const width = 8
	graph := func(op string, taps int) *ir.Graph {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", width))
		constant := func(by float64, shape ...int) *ir.Value {
			n, _ := tensor.Size(shape)
			v := make([]float64, n)
			for i := range v {
				v[i] = by * math.Cos(float64(i))
			}
			return b.Const("c", tensor.FromSlice(v, shape...))
		}
		single := func(by float64, shape ...int) *ir.Value {
			n, _ := tensor.Size(shape)
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(by)
			}
			return b.Const("s", tensor.FromSlice(v, shape...))
		}
		in, outs := []*ir.Value{x}, 1
		switch op {
		case "LongConv":
			in = append(in, single(0.1, width, taps))
		case "SSM", "SSM with a state", "SSM without its state": // of one input and one output; taps states
			a := b.Const("a", tensor.FromSlice(negative(width*taps), 1, width, taps))
			in = append(in, a, constant(1, 1, width, taps), constant(1, 1, width, taps), constant(1, 1, width, taps),
				single(1, 1, width, taps, 1), single(1, 1, width, 1, taps))
			if op != "SSM" {
				in = append(in, nil, nil, nil, b.Input("state", &ir.OptionalType{Elem: ir.Tensor(tensor.Float32, "B", 2*width*taps)}))
			}
		case "Scan":
			in = append(in, b.Const("a", tensor.FromSlice(negative(width), 1, 1, width)), constant(1, 1, 1, width), constant(1, 1, 1, width),
				constant(1, 1, 1, width))
		}
		b.Output("y", b.Ops("essm", strings.Fields(op)[0], outs, in, ir.A("direction", essm.Forward))[0])
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		op           string
		taps, length int
		asked, form  string
		why          string
		not          string // of all other forms
	}{
		{"LongConv", 4, 100, "", "direct", "the smallest estimated time", "fft"},
		{"LongConv", 700, 5000, "", "fft", "points in one level", "direct"},
		{"LongConv", 5000, 9000, "", "fft", "points in two levels", "direct"},
		{"LongConv", 700, 5000, "direct", "direct", "requested", "fft"},
		{"LongConv", 4, 100, "scan", "direct", "scan was requested, but the layer is given as a convolution kernel", "fft"},
		{"SSM", 3, 500, "", "scan", "", ""},
		{"SSM", 3, 500, "fft", "fft", "requested; transforms of", "scan direct"},
		{"SSM", 3, 500, "direct", "direct", "requested", "scan fft"},
		{"SSM with a state", 3, 500, "fft", "scan", "a state before the first or after the last step", ""},
		{"SSM without its state", 3, 500, "fft", "fft", "requested; transforms of", "scan direct"},
		{"Scan", 0, 500, "", "scan", "no other form", ""},
		{"Scan", 0, 500, "fft", "scan", "fft was requested, but", ""},
	} {
		m := load(t, tested(), cuda.Options{}, graph(c.op, c.taps), runtime.Options{Kernel: c.asked})
		var absent []string
		if strings.Contains(c.op, "without") {
			absent = append(absent, "state")
		}
		all, err := m.Explain(map[string]int64{"B": 2, "L": int64(c.length)}, absent...)
		if err != nil {
			t.Fatal(err)
		}
		var not []string
		if len(all) == 1 {
			for _, o := range all[0].Others {
				not = append(not, o.Form)
				if o.Why == "" {
					t.Errorf("%+v: no reason against %s", c, o.Form)
				}
			}
		}
		if len(all) != 1 || all[0].Op != "essm."+strings.Fields(c.op)[0] || all[0].Form != c.form || !strings.Contains(all[0].Why, c.why) ||
			strings.Join(not, " ") != c.not {
			t.Errorf("%+v: found %+v", c, all)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// negative returns n numbers below zero.
func negative(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = -0.01 * float64(1+i)
	}
	return v
}
