package runtime_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // the operators that the graph uses
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// A graph made with the builder is run as a plan file is: a model, a session for each goroutine, and inputs by name. With a
// plan file, runtime.Load takes the place of runtime.New.
func Example() {
	// x[t] = ½ x[t-1] + v[t], for every sample of the batch.
	number := func(v float64) *tensor.Tensor { return tensor.FromSlice([]float64{v}, 1, 1, 1) }
	b := ir.NewBuilder("decay", ops.Default, ops.Opsets())
	v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", 1))
	x := b.Op("essm", "Scan", []*ir.Value{v,
		b.Const("a_re", number(math.Log(0.5))), b.Const("a_im", number(0)),
		b.Const("b_re", number(1)), b.Const("b_im", number(0))})
	b.Output("x", x)
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	model, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	session := model.NewSession() // holds working memory: one for each goroutine
	out, err := session.Run(context.Background(), map[string]tensor.Datum{
		"v": tensor.FromSlice([]float32{1, 0, 0, 8}, 1, 4, 1),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.Data[float32](out["x"].(*tensor.Tensor)))

	_, err = session.Run(context.Background(), map[string]tensor.Datum{
		"v": tensor.FromSlice([]float32{1, 0, 0, 8}, 2, 2),
	})
	fmt.Println(err)
	// Output:
	// [1 0.5 0.25 8.125]
	// input "v": expected 3 dimensions [B,L,1], found 2: float32[2,2]
}

// Model.Run needs no sessions, and may be called from any goroutine. Output returns elements and shape, or an error.
func ExampleModel_Run() {
	b := ir.NewBuilder("double", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "N"))
	b.Output("y", b.Op("", "Add", []*ir.Value{x, x}))
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	model, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	ctx := context.Background()
	out, err := model.Run(ctx, map[string]tensor.Datum{"x": tensor.FromSlice([]float32{1, 2, 3}, 3)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runtime.Output[float32](out, "y"))
	_, _, err = runtime.Output[int64](out, "y")
	fmt.Println(err)
	_, err = model.Run(ctx, map[string]tensor.Datum{"X": tensor.New(tensor.Float32, 3)})
	fmt.Println(err)
	// Output:
	// [2 4 6] [3] <nil>
	// output "y": expected elements of int64, found float32[3]; ask for float32, or convert the tensor by Tensor.Convert
	// input "X": the model has no such input; it has x; did you mean "x"?
}
