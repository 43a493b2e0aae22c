package queue_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/serve/queue"
)

// Requests of many goroutines share a model. Those that wait at the same time are computed together.
func Example() {
	text := `<ir_version: 10, opset_import: ["" : 20]> g (float[B,2] x) => (float[B,2] y) { y = Relu (x) }`
	opened, err := open.Bytes([]byte(text), "text", open.Options{})
	if err != nil {
		log.Fatal(err)
	}
	model, err := opened.Compile(runtime.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	q, err := queue.New(model, queue.Options{Batch: "B"}) // the text does not declare which dimension it is
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	var wg sync.WaitGroup
	answers := make([][]float32, 3)
	for i := range answers {
		wg.Go(func() {
			in := map[string]tensor.Datum{"x": tensor.FromSlice([]float32{float32(i), -1}, 1, 2)}
			res, err := q.Run(context.Background(), in, 0)
			if err != nil {
				log.Fatal(err)
			}
			answers[i], _, err = runtime.Output[float32](res.Out, "y")
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(answers)
	// Output: [[0 0] [1 0] [2 0]]
}
