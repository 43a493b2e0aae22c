package essm_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// TestStepMask checks what stays of a chunk, sample by sample.
func TestStepMask(t *testing.T) {
	x := tensor.FromSlice([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)
	attrs := func(a ...ir.Attr) []ir.Attr { return append(a, ir.A("axis", 1), ir.A("value", -1.0)) }
	for _, c := range []struct {
		name       string
		steps, end []int64
		attrs      []ir.Attr
		want       []float64
	}{
		{"all", []int64{0, 3}, nil, attrs(), []float64{1, 2, 3, 4, 5, 6, 7, 8}},
		{"delay", []int64{0, 1}, nil, attrs(ir.A("delay", 2)), []float64{-1, -1, 3, 4, -1, 6, 7, 8}},
		{"end", []int64{2, 0}, []int64{4, 9}, attrs(), []float64{1, 2, -1, -1, 5, 6, 7, 8}},
		{"one for all", []int64{2}, []int64{5}, attrs(), []float64{1, 2, 3, -1, 5, 6, 7, -1}},
		{"rate", []int64{4, 0}, []int64{9, 3}, attrs(ir.A("rate", 2), ir.A("offset", 1), ir.A("delay", 1)),
			[]float64{1, 2, 3, 4, -1, 6, 7, -1}},
		{"no batch", []int64{0}, nil, attrs(ir.A("batch_axis", -1), ir.A("delay", 1)), []float64{-1, 2, 3, 4, -1, 6, 7, 8}},
	} {
		in := []*tensor.Tensor{x, tensor.FromSlice(c.steps, len(c.steps))}
		if c.end != nil {
			in = append(in, tensor.FromSlice(c.end, len(c.end)))
		}
		if got := tensor.Data[float64](apply(t, essm.StepMask, "", []bool{true}, in, c.attrs...)[0]); !slices.Equal(got,
			c.want) {
			t.Errorf("%s: found %v, expected %v", c.name, got, c.want)
		}
	}
	inf := apply(t, essm.StepMask, "", []bool{true}, []*tensor.Tensor{x, tensor.FromSlice([]int64{0, 9}, 2)},
		ir.A("axis", 1), ir.A("delay", 9), ir.A("value", math.Inf(-1)))
	if got := tensor.Data[float64](inf[0]); !math.IsInf(got[3], -1) || got[4] != 5 {
		t.Errorf("found %v", got)
	}
}

// TestPickStep feeds lengths with the first chunk, with the last one, and where they cannot be met.
func TestPickStep(t *testing.T) {
	chunks := [][]float64{{1, 2, 3}, {4}, {5, 6}}
	feed := func(mode string, lengthsAt int, length int64) (y float64, err error) {
		sum, count := tensor.New(tensor.Float64, 1, 1), tensor.New(tensor.Int64, 1, 2)
		for i, c := range chunks {
			in := []tensor.Datum{tensor.FromSlice(slices.Clone(c), 1, len(c), 1), sum, count}
			vals := []*ir.Value{{Name: "x"}, {Name: "s"}, {Name: "c"}}
			if i == lengthsAt {
				in, vals = append(in, tensor.FromSlice([]int64{length}, 1)), append(vals, &ir.Value{Name: "l"})
			}
			for k := range in {
				vals[k].Type = ir.Of(in[k].(*tensor.Tensor))
			}
			n := &ir.Node{Op: essm.PickStep, Inputs: vals, Outputs: make([]*ir.Value, 3),
				Attrs: ir.NewAttrs(ir.A("mode", mode))}
			out, err := essm.PickStep.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background()}, in)
			if err != nil {
				return 0, err
			}
			y = tensor.Data[float64](out[0].(*tensor.Tensor))[0]
			sum, count = out[1].(*tensor.Tensor), out[2].(*tensor.Tensor)
		}
		return y, nil
	}
	for _, c := range []struct {
		mode      string
		lengthsAt int
		length    int64
		want      float64
		err       string
	}{
		{"pool", -1, 0, 3.5, ""}, {"sum", -1, 0, 21, ""}, {"last", -1, 0, 6, ""}, {"first", -1, 0, 1, ""},
		{"pool", 0, 2, 1.5, ""}, {"sum", 0, 5, 15, ""}, {"last", 0, 4, 4, ""}, {"last", 0, 9, 6, ""},
		{"pool", 2, 5, 3, ""}, {"last", 2, 5, 5, ""}, {"last", 2, 4, 4, ""},
		{"sum", 2, 3, 0, "lengths[0]: length 3 is below the 4 steps"}, {"sum", 0, 0, 0, "lengths[0]: length 0 is below 1"},
		{"sum", 1, -1, 0, "lengths[0]: expected 0 or more"},
	} {
		got, err := feed(c.mode, c.lengthsAt, c.length)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: found %v", c, err)
			}
		case err != nil || got != c.want:
			t.Errorf("%+v: found %v, %v", c, got, err)
		}
	}
}

// TestWideState checks that a state is handed on in the type in which it is given.
func TestWideState(t *testing.T) {
	v := tensor.FromSlice([]float32{1, 2}, 1, 2, 1)
	p := func(x float64) *tensor.Tensor { return tensor.FromSlice([]float64{x}, 1, 1, 1) }
	in := []*tensor.Tensor{v, p(-1e-3), p(0), p(1), p(0), nil, tensor.FromSlice([]float64{1e9 + 1e-3, 0}, 1, 2)}
	out := apply(t, essm.Scan, "", []bool{true, false, true}, in)
	e := math.Exp(-1e-3)
	if want, got := e*(e*(1e9+1e-3)+1)+2, tensor.Data[float64](out[2])[0]; !(math.Abs(got-want) <= 1e-6) {
		t.Errorf("found %v, expected %v", got, want)
	}
	b := ir.NewBuilder("test", ops.Default, ops.Opsets())
	vals := make([]*ir.Value, len(in))
	for i, x := range in {
		if x != nil {
			vals[i] = b.Input(string(rune('a'+i)), ir.Of(x))
		}
	}
	vals[6].Type = ir.Tensor(tensor.Float16, 1, 2)
	if b.Apply(essm.Scan, 1, vals, nil); b.Err() == nil ||
		!strings.Contains(b.Err().Error(), "state: expected float32 or float64, found float16") {
		t.Errorf("found %v", b.Err())
	}
}
