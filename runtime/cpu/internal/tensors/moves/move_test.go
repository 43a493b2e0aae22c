package moves_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestMove(t *testing.T) {
	r := NewGen(9)
	whole := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.Int64, shape...)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = int64(r.IntN(1000))
		}
		return x
	}
	for _, x := range []*tensor.Tensor{r.Floats(1, 2, 4, 6, 10), whole(2, 4, 6, 10)} {
		in := Given(x)
		fill := Fixed(tensor.Scalar(float32(7)))
		if x.DType() == tensor.Int64 {
			fill = Fixed(tensor.Scalar(int64(7)))
		}
		on.Node(t, "Slice", 1, []Operand{in, Ints(1, -1), Ints(3, -99), Ints(1, 3), Ints(1, -2)})
		on.Node(t, "Slice", 1, []Operand{in, Ints(0), Ints(0), Ints(1)})
		on.Node(t, "Slice", 1, []Operand{in, Ints(1, 3), Ints(2, 9)})
		on.Node(t, "Slice", 1, []Operand{in, Ints(-3, 9, 1), Ints(99, -99, 6), Ints(-1, -2, 0), Ints(1, -1, 1<<40)})
		on.Node(t, "Slice", 1, []Operand{in, Ints(-1), Ints(-1 << 62), Ints(2), Ints(-1 << 62)})
		on.Node(t, "Expand", 1, []Operand{Given(tensor.FromSlice([]int64{4, 5, 6}, 3, 1)), Ints(2, 3, 5)})
		on.Node(t, "Tile", 1, []Operand{in, Ints(1, 2, 1, 3)})
		on.Node(t, "Gather", 1, []Operand{in, Fixed(tensor.FromSlice([]int64{3, 0, -1, 0, 2, 2}, 2, 3))},
			ir.A("axis", 1))
		on.Node(t, "Gather", 1, []Operand{in, Fixed(tensor.Scalar(int64(1)))}, ir.A("axis", 2))
		on.Node(t, "DepthToSpace", 1, []Operand{in}, ir.A("blocksize", 2))
		on.Node(t, "DepthToSpace", 1, []Operand{in}, ir.A("blocksize", 2), ir.A("mode", "CRD"))
		on.Node(t, "SpaceToDepth", 1, []Operand{in}, ir.A("blocksize", 2))
		on.Node(t, "Reshape", 1, []Operand{in, Ints(8, -1)})
		on.Node(t, "Unsqueeze", 1, []Operand{in, Ints(0, 3)})
		on.Node(t, "Transpose", 1, []Operand{in}, ir.A("perm", []int64{2, 0, 3, 1}))
		on.Node(t, "Transpose", 1, []Operand{in})
		for _, mode := range []string{"constant", "reflect", "edge", "wrap"} {
			on.Node(t, "Pad", 1, []Operand{in, Ints(0, 1, 2, 3, 1, 0, 0, 2)}, ir.A("mode", mode))
		}
		on.Node(t, "Pad", 1, []Operand{in, Ints(0, 1, -2, 3, 1, 0, 0, -2), fill})
		on.Node(t, "Pad", 1, []Operand{in, Ints(-1, -1, 0, 2), fill, Ints(1, 3)})
		if x.DType() == tensor.Float32 {
			on.Node(t, "Resize", 1, []Operand{in, {}, Fixed(tensor.FromSlice([]float32{1, 1, 2, 1.5}, 4))},
				ir.A("coordinate_transformation_mode", "asymmetric"), ir.A("nearest_mode", "floor"))
		}
	}
}

func TestMovesOfNumbers(t *testing.T) {
	r := NewGen(185)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
		for axis := range int64(3) {
			for i := range 4 {
				on.Same(t, "CumSum", 1, []Operand{Given(r.Small(d, 3, 50, 7)), Fixed(tensor.Scalar(axis - 3))},
					ir.A("exclusive", i&1), ir.A("reverse", i>>1))
			}
		}
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64} {
		for axis := range 3 {
			at := r.Indices([]int{9}, 5, 7)
			on.Same(t, "OneHot", 1, []Operand{Given(at), Ints(9), Given(r.Small(d, 2))}, ir.A("axis", axis))
			on.Same(t, "Split", 2, []Operand{Given(r.Small(d, 4, 6, 8)), Ints(1, int64(3+2*axis))}, ir.A("axis", axis))
		}
		on.Same(t, "Split", 3, []Operand{Given(r.Small(d, 7, 5))}, ir.A("num_outputs", 3))
	}
}

func TestMovesOfTypes(t *testing.T) {
	r := NewGen(173)
	for _, d := range append([]tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Uint64}, NumberTypes...) {
		x, y := r.Typed(d, 2, 3, 5), r.Typed(d, 2, 1, 5)
		on.Same(t, "Concat", 1, []Operand{Given(x), Given(y), Given(x)}, ir.A("axis", 1))
		on.Same(t, "Concat", 1, []Operand{Given(x), Given(x)}, ir.A("axis", -1))
		on.Same(t, "Transpose", 1, []Operand{Given(x)}, ir.A("perm", []int{2, 0, 1}))
		on.Same(t, "Expand", 1, []Operand{Given(y), Ints(2, 4, 5)})
		on.Same(t, "Tile", 1, []Operand{Given(y), Ints(1, 2, 3)})
		on.Same(t, "Slice", 1, []Operand{Given(x), Ints(0, 1), Ints(2, 5), Ints(0, 2), Ints(1, 2)})
	}
}
