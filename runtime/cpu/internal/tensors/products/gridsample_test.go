package products_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestGridSample(t *testing.T) {
	r := NewGen(52)
	for _, mode := range []string{"linear", "nearest", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for corners := range 2 {
				attrs := []ir.Attr{ir.A("mode", mode), ir.A("padding_mode", padding), ir.A("align_corners", corners)}
				on.Same(t, "GridSample", 1, []Operand{Given(r.Odd(2, 3, 7, 9)), Given(r.Odd(2, 40, 30, 2))}, attrs...)
				if mode != "cubic" {
					on.Same(t, "GridSample", 1,
						[]Operand{Given(r.Floats(1, 1, 2, 4, 5, 6)), Given(r.Floats(0.7, 1, 3, 4, 5, 3))}, attrs...)
				}
			}
		}
	}
}

// TestGridSampleByDefinition compares the kernel with an independent computation, axis by axis and element by element,
// since the kernel and the operator's evaluation share the code that finds the interpolated elements.
func TestGridSampleByDefinition(t *testing.T) {
	r := NewGen(53)
	for _, shape := range [][]int{{7}, {1}, {7, 9}, {2, 1}, {5, 4, 3}} {
		for _, mode := range []string{"linear", "nearest", "cubic"} {
			for _, padding := range []string{"zeros", "border", "reflection"} {
				for _, corners := range []bool{false, true} {
					x := r.Floats(1, append([]int{2, 3}, shape...)...)
					places := []int{5, 3, 2}[:len(shape)]
					grid := r.Floats(1.3, append(append([]int{2}, places...), len(shape))...) // a third lies outside
					copy(tensor.Data[float32](grid), []float32{-1, 1, 0, -0.5, 30, -17, 1e4})
					attrs := ir.NewAttrs(ir.A("mode", mode), ir.A("padding_mode", padding),
						ir.A("align_corners", map[bool]int{true: 1}[corners]))
					b := ir.NewBuilder("sample", ops.Default, ops.Opsets())
					op := ops.Default.Resolve("", "GridSample", 22)
					b.Output("y", b.Apply(op, 1, []*ir.Value{b.Input("x", ir.Of(x)), b.Input("grid", ir.Of(grid))},
						attrs)[0])
					g, err := b.Build()
					if err != nil {
						t.Fatal(err)
					}
					got := Run(t, g, runtime.Options{Backend: cpu.New()},
						map[string]tensor.Datum{"x": x, "grid": grid})["y"]
					want := sampled{mode, padding, corners}.sample(x, grid)
					if d := backendtest.Diff(got, want, Bound(op)); d != "" {
						t.Errorf("%v, %s, padding %s, corners %v: %s", shape, mode, padding, corners, d)
					}
				}
			}
		}
	}
}

// sampled computes GridSample as the standard defines it.
type sampled struct {
	mode, padding string
	corners       bool
}

func (s sampled) sample(x, grid *tensor.Tensor) *tensor.Tensor {
	sizes, axes := x.Shape()[2:], x.Rank()-2
	v, coords := tensor.Data[float32](x), tensor.Data[float32](grid)
	channels, size, places := x.Dim(1), product(sizes), product(grid.Shape()[1:axes+1])
	y := tensor.New(tensor.Float64, append(slices.Clone(x.Shape()[:2]), grid.Shape()[1:axes+1]...)...)
	for i := range tensor.Data[float64](y) {
		plane, p := i/places, i/(channels*places)*places+i%places
		at := make([]float64, axes) // in elements, first axis first; the grid has the last one first
		for a := range at {
			at[a] = s.place(float64(coords[p*axes+axes-1-a]), sizes[a])
		}
		tensor.Data[float64](y)[i] = s.value(v[plane*size:(plane+1)*size], sizes, at)
	}
	return y
}

// place returns a coordinate in elements of an axis, moved into the axis if the padding says so.
func (s sampled) place(u float64, size int) float64 {
	first, last := -0.5, float64(size)-0.5 // the edges
	at := first + (u+1)/2*(last-first)
	if s.corners {
		first, last = 0, float64(size-1)
		at = (u + 1) / 2 * last
	}
	if s.mode == "nearest" {
		at = math.RoundToEven(at)
	}
	if at >= first && at <= last {
		return at
	}
	switch s.padding {
	case "border":
		if s.mode != "cubic" { // there the elements are moved, as torch does
			at = math.Max(0, math.Min(at, float64(size-1)))
		}
	case "reflection":
		at = mirrored(at, first, last)
	}
	return at
}

// mirrored reflects a coordinate at two ends until it lies between them.
func mirrored(at, first, last float64) float64 {
	if first == last {
		return first
	}
	way := math.Mod(at-first, 2*(last-first))
	if way < 0 {
		way += 2 * (last - first)
	}
	return first + math.Min(way, 2*(last-first)-way)
}

// value interpolates along the first axis between the values along the others.
func (s sampled) value(v []float32, sizes []int, at []float64) float64 {
	if len(sizes) == 0 {
		return float64(v[0])
	}
	inner := product(sizes[1:])
	element := func(k float64) float64 { // the elements at an integer position of the first axis
		n := float64(sizes[0])
		switch s.padding {
		case "border":
			k = math.Max(0, math.Min(k, n-1))
		case "reflection":
			if s.corners {
				k = mirrored(k, 0, n-1)
			} else {
				k = mirrored(k, -0.5, n-0.5)
			}
		}
		if k < 0 || k >= n {
			return 0
		}
		return s.value(v[int(k)*inner:], sizes[1:], at[1:])
	}
	low := math.Floor(at[0])
	t := at[0] - low
	switch s.mode {
	case "nearest":
		return element(at[0])
	case "linear":
		return (1-t)*element(low) + t*element(low+1)
	case "cubic": // Keys, with a = -3/4
		const a = -0.75
		near := func(d float64) float64 { return ((a+2)*d-(a+3))*d*d + 1 }
		far := func(d float64) float64 { return ((a*d-5*a)*d+8*a)*d - 4*a }
		return far(1+t)*element(low-1) + near(t)*element(low) + near(1-t)*element(low+1) + far(2-t)*element(low+2)
	}
	panic(fmt.Sprintf("mode %q", s.mode))
}

// product returns the product of sizes.
func product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}
