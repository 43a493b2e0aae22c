package data_test

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// Example makes the batches of two epochs, and those after a stored position again.
func Example() {
	ctx := context.Background()
	inputs := tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5, 6, 7}, 4, 2, 1) // four samples of two steps with one feature
	set, err := data.Arrays(inputs, tensor.FromSlice([]int64{0, 1, 0, 1}, 4), nil, data.ArrayOptions{Classes: 2})
	if err != nil {
		panic(err)
	}
	options := data.Options{Batch: 2, Seed: 1, Shuffle: true}
	loader, err := data.NewLoader(set, options)
	if err != nil {
		panic(err)
	}
	var stored data.Position
	for range 2 {
		for batch, err := range loader.Epoch(ctx) {
			if err != nil {
				panic(err)
			}
			fmt.Println("epoch", batch.Epoch, "samples", batch.Samples, batch.Input)
			if batch.Epoch == 1 && batch.Number == 0 {
				stored = loader.Position()
			}
		}
	}
	again, err := data.NewLoader(set, options)
	if err == nil {
		err = again.Seek(stored)
	}
	if err != nil {
		panic(err)
	}
	batch, err := again.Next(ctx)
	fmt.Println("epoch", batch.Epoch, "samples", batch.Samples, batch.Input, err)
	// Output:
	// epoch 0 samples [0 1] float32[2,2,1] [[[0] [1]] [[2] [3]]]
	// epoch 0 samples [2 3] float32[2,2,1] [[[4] [5]] [[6] [7]]]
	// epoch 1 samples [1 2] float32[2,2,1] [[[2] [3]] [[4] [5]]]
	// epoch 1 samples [3 0] float32[2,2,1] [[[6] [7]] [[0] [1]]]
	// epoch 1 samples [3 0] float32[2,2,1] [[[6] [7]] [[0] [1]]] <nil>
}
