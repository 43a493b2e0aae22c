// Package train trains models: it makes the graph of a step (loss, gradients, clipping, optimizer, updates of all
// parameters in place) from the graph of a model, and runs it.
//
//	t, err := train.New(ctx, graph, train.Options{Loss: train.CrossEntropy{}, Backend: cpu.New(),
//		Groups: []train.Group{{Rule: optim.NewAdamW(), Rate: 1e-3}}})
//	for batch := range batches {
//		report, err := t.Step(ctx, batch)
//		…
//	}
//	weights, err := t.Weights()
//
// A step is one executable (package runtime), which any backend runs; after the first one it allocates no memory. Equal
// weights, batches and options give equal weights, bit by bit, at any number of threads on one variant of kernels.
//
// It imports ir, ops, passes, passes/grad, runtime, internal/patterns, train/optim and train/schedule. Services that
// only run models do not link it.
package train
