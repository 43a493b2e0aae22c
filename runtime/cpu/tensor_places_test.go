package cpu

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// indices returns random indices into dimensions of the given sizes: vectors with one for each, or single ones.
func (r gen) indices(sizes []int, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Int64, shape...)
	for i := range tensor.Data[int64](t) {
		k := sizes[i%len(sizes)]
		tensor.Data[int64](t)[i] = int64(r.IntN(2*k) - k)
	}
	return t
}

func narrowed(t *tensor.Tensor) *tensor.Tensor {
	v := tensor.New(tensor.Int32, t.Shape()...)
	for i, k := range tensor.Data[int64](t) {
		tensor.Data[int32](v)[i] = int32(k)
	}
	return v
}

func TestPlaces(t *testing.T) {
	r := newGen(41)
	for _, make := range []func(shape ...int) *tensor.Tensor{
		func(shape ...int) *tensor.Tensor { return r.floats(1, shape...) },
		func(shape ...int) *tensor.Tensor { return r.indices([]int{1000}, shape...) },
		func(shape ...int) *tensor.Tensor { return r.bytes(tensor.Uint8, shape...) },
	} {
		for axis, shape := range [][]int{{4, 5, 3}, {4, 9, 3}, {4, 5, 2}} {
			x, at := make(4, 5, 3), r.indices([]int{[]int{4, 5, 3}[axis]}, shape...)
			sameNode(t, "GatherElements", 1, []operand{given(x), given(at)}, ir.A("axis", axis))
			sameNode(t, "GatherElements", 1, []operand{given(x), given(narrowed(at))}, ir.A("axis", axis-3))
			sameNode(t, "ScatterElements", 1, []operand{given(x), given(at), given(make(shape...))}, ir.A("axis", axis))
		}
		x := make(4, 5, 3)
		for _, c := range []struct{ at, updates []int }{{[]int{7, 1}, []int{7, 5, 3}}, {[]int{2, 6, 2}, []int{2, 6, 3}},
			{[]int{9, 3}, []int{9}}, {[]int{1}, []int{5, 3}}} {
			at := r.indices([]int{4, 5, 3}[:c.at[len(c.at)-1]], c.at...)
			sameNode(t, "GatherND", 1, []operand{given(x), given(at)})
			sameNode(t, "ScatterND", 1, []operand{given(x), given(at), given(make(c.updates...))})
		}
		sameNode(t, "GatherND", 1, []operand{given(x), given(r.indices([]int{5}, 4, 2, 1))}, ir.A("batch_dims", 1))
		sameNode(t, "GatherND", 1, []operand{given(x), given(r.indices([]int{3}, 4, 5, 1))}, ir.A("batch_dims", 2))
	}
	for _, reduction := range []string{"add", "mul", "max", "min"} {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32,
			tensor.Int64} {
			how, many := ir.A("reduction", reduction), r.indices([]int{3}, 900, 1)
			rows := []operand{given(r.small(d, 4, 5)), given(many), given(r.small(d, 900, 5))}
			elements := []operand{given(r.small(d, 4, 5)), given(r.indices([]int{4}, 500, 5)), given(r.small(d, 500, 5))}
			if d == tensor.Float32 && reduction == "mul" {
				sameAnyhow(t, "ScatterND", 1, rows, how)
			} else {
				checkNode(t, "ScatterND", 1, rows, how)
				checkNode(t, "ScatterElements", 1, elements, how)
			}
		}
	}
	g, feed := nodeGraph(t, "GatherElements", 1,
		[]operand{given(r.floats(1, 3, 4)), given(tensor.FromSlice([]int64{0, 3}, 2, 1))})
	m, err := runtime.New(g, runtime.Options{Backend: New()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewSession().Run(t.Context(), feed); err == nil || !strings.Contains(err.Error(), "3") {
		t.Errorf("an index of 3 of 3: %v", err)
	}
}

func TestCumSum(t *testing.T) {
	r := newGen(42)
	for axis := range int64(3) {
		for _, attrs := range [][]ir.Attr{nil, {ir.A("exclusive", 1)}, {ir.A("reverse", 1)},
			{ir.A("exclusive", 1), ir.A("reverse", 1)}} {
			sameNode(t, "CumSum", 1, []operand{given(r.floats(1, 3, 50, 7)), fixed(tensor.Scalar(axis - 3))}, attrs...)
		}
	}
}

func TestTopK(t *testing.T) {
	r := newGen(43)
	for _, k := range []int64{1, 10, 200, 1000} { // heaps, and sorted rows
		for _, largest := range []int{0, 1} {
			for _, d := range []tensor.DType{tensor.Float32, tensor.Int32, tensor.Float64} {
				x := given(r.typed(d, 3, 1000))
				sameNode(t, "TopK", 2, []operand{x, ints(k)}, ir.A("largest", largest))
				sameAnyhow(t, "TopK", 2, []operand{x, given(tensor.FromSlice([]int64{k}, 1))}, ir.A("largest", largest))
			}
		}
	}
	for _, k := range []int64{1, 2, 5, 9} {
		for _, largest := range []int{0, 1} {
			for axis := range 3 {
				x := r.indices([]int{6}, 9, 10, 11) // many are equal
				f := tensor.New(tensor.Float32, 9, 10, 11)
				for i, v := range tensor.Data[int64](x) {
					tensor.Data[float32](f)[i] = float32(v)
				}
				attrs := []ir.Attr{ir.A("largest", largest), ir.A("axis", axis)}
				sameNode(t, "TopK", 2, []operand{given(x), ints(k)}, attrs...)
				sameNode(t, "TopK", 2, []operand{given(narrowed(x)), ints(k)}, attrs...)
				sameNode(t, "TopK", 2, []operand{given(f), ints(k)}, attrs...)
				for _, d := range []tensor.DType{tensor.Float64, tensor.Int8, tensor.Uint8} {
					sameNode(t, "TopK", 2, []operand{given(r.small(d, 9, 10, 11)), ints(k)}, attrs...)
				}
				sameAnyhow(t, "TopK", 2, []operand{given(f), given(tensor.FromSlice([]int64{k}, 1))}, attrs...)
				for i := range 30 {
					tensor.Data[float32](f)[i*17] = float32(nans[i%len(nans)])
				}
				sameNode(t, "TopK", 2, []operand{given(f), ints(k)}, attrs...)
			}
		}
	}
}
