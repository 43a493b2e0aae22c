// Package record holds the knowledge of the CUDA backend about operators: how a step becomes calls of kernels. Packages beside it
// register records, a package for each kind of operator (elementwise, products, rows, …); the backend looks them up when it
// lowers a graph, and lets them build when shapes are bound.
//
// A record sees a Builder alone: it asks for the buffers of values, of constants and of scratch memory, and adds work in the
// order in which it is done. Nothing is allocated or launched meanwhile, so that records can be tested without a device.
//
// Always: records are registered when packages are initialised, one for each operator, and never change afterwards. What is
// built follows from the step, its shapes and its constants alone: building twice gives the same work.
//
// The package imports ir, ir/tensor, ops, runtime/lowering and runtime/cuda/kernel.
package record
