// Package record describes how the CUDA backend runs each operator: how a step becomes calls of kernels. Packages
// beside it register records, one package per kind of operator (elementwise, products, rows, …). Package
// runtime/device looks a record up when it lowers a graph, and calls its Build when shapes are bound.
//
// A record works only through a Builder: it requests the buffers of values, constants and scratch memory, and adds
// work in execution order. Nothing is allocated or launched meanwhile, so records can be tested without a device.
//
// Its invariants: records are registered when packages are initialised, several of an operator with different ranks,
// and never change afterwards. The built work depends only on the step, its shapes and its constants: building twice
// gives the same work. It does not depend on the content of settled values, which changes while executables exist:
// kernels read it from memory, and what is decided by it goes through Builder.Decided.
//
// The package imports ir/tensor, ops, runtime/lowering, runtime/device and runtime/cuda/kernel.
package record
