package tensor_test

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
)

// %v prints the shape and the elements, shortened; %s only the shape.
func Example() {
	x := tensor.FromSlice([]float32{1, 0.5, -3, 4}, 2, 2)
	fmt.Printf("%v\n%s\n", x, x)
	fmt.Println(tensor.FromStrings([]string{"cat", "dog"}, 2))
	// Output:
	// float32[2,2] [[1 0.5] [-3 4]]
	// float32[2,2]
	// string[2] ["cat" "dog"]
}

// Elements returns an error where Data panics.
func ExampleElements() {
	words := tensor.FromStrings([]string{"cat", "dog"}, 2)
	v, err := tensor.Elements[string](words)
	fmt.Println(v, err)
	_, err = tensor.Elements[float32](words)
	fmt.Println(err)
	// Output:
	// [cat dog] <nil>
	// expected elements of float32, found string[2]; ask for string, or convert the tensor by Tensor.Convert
}

// Arrays of float64, which NumPy makes by default, become the float32 that models expect.
func ExampleTensor_Convert() {
	x := tensor.FromSlice([]float64{0.1, 1e300}, 2)
	y, err := x.Convert(tensor.Float32, false)
	fmt.Println(y, err)
	_, err = x.ConvertExact(tensor.Float32)
	fmt.Println(err)
	// Output:
	// float32[2] [0.1 +Inf] <nil>
	// element 1: 1e+300 does not fit into float32
}
