package moves_test

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestPlaces(t *testing.T) {
	r := NewGen(41)
	for _, make := range []func(shape ...int) *tensor.Tensor{
		func(shape ...int) *tensor.Tensor { return r.Floats(1, shape...) },
		func(shape ...int) *tensor.Tensor { return r.Indices([]int{1000}, shape...) },
		func(shape ...int) *tensor.Tensor { return r.Bytes(tensor.Uint8, shape...) },
	} {
		for axis, shape := range [][]int{{4, 5, 3}, {4, 9, 3}, {4, 5, 2}} {
			x, at := make(4, 5, 3), r.Indices([]int{[]int{4, 5, 3}[axis]}, shape...)
			on.Same(t, "GatherElements", 1, []Operand{Given(x), Given(at)}, ir.A("axis", axis))
			on.Same(t, "GatherElements", 1, []Operand{Given(x), Given(Narrowed(at))}, ir.A("axis", axis-3))
			on.Same(t, "ScatterElements", 1, []Operand{Given(x), Given(at), Given(make(shape...))}, ir.A("axis", axis))
		}
		x := make(4, 5, 3)
		for _, c := range []struct{ at, updates []int }{{[]int{7, 1}, []int{7, 5, 3}}, {[]int{2, 6, 2}, []int{2, 6, 3}},
			{[]int{9, 3}, []int{9}}, {[]int{1}, []int{5, 3}}} {
			at := r.Indices([]int{4, 5, 3}[:c.at[len(c.at)-1]], c.at...)
			on.Same(t, "GatherND", 1, []Operand{Given(x), Given(at)})
			on.Same(t, "ScatterND", 1, []Operand{Given(x), Given(at), Given(make(c.updates...))})
		}
		on.Same(t, "GatherND", 1, []Operand{Given(x), Given(r.Indices([]int{5}, 4, 2, 1))}, ir.A("batch_dims", 1))
		on.Same(t, "GatherND", 1, []Operand{Given(x), Given(r.Indices([]int{3}, 4, 5, 1))}, ir.A("batch_dims", 2))
	}
	for _, reduction := range []string{"add", "mul", "max", "min"} {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32,
			tensor.Int64} {
			how, many := ir.A("reduction", reduction), r.Indices([]int{3}, 900, 1)
			rows := []Operand{Given(r.Small(d, 4, 5)), Given(many), Given(r.Small(d, 900, 5))}
			elements := []Operand{Given(r.Small(d, 4, 5)), Given(r.Indices([]int{4}, 500, 5)), Given(r.Small(d, 500, 5))}
			if d == tensor.Float32 && reduction == "mul" {
				on.SameAnyhow(t, "ScatterND", 1, rows, how)
			} else {
				on.Node(t, "ScatterND", 1, rows, how)
				on.Node(t, "ScatterElements", 1, elements, how)
			}
		}
	}
	g, feed := NodeGraph(t, "GatherElements", 1,
		[]Operand{Given(r.Floats(1, 3, 4)), Given(tensor.FromSlice([]int64{0, 3}, 2, 1))})
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewSession().Run(t.Context(), feed); err == nil || !strings.Contains(err.Error(), "3") {
		t.Errorf("an index of 3 of 3: %v", err)
	}
}
