// Package emu is an emulated CUDA driver with cards that execute PTX in Go: the CUDA backend is tested on it, on machines
// without a card.
//
// It models the text of PTX, parsed whole (an unknown instruction is an error that names line and text); warps of 32
// lanes in lockstep, which part at branches and meet again where the branches' paths do; blocks and warps in an order that a
// seed chooses, several blocks side by side, so that a missing barrier shows; barriers, shuffles, votes, atomics; global,
// shared, local and parameter memory; arithmetic with the rounding that PTX states. Approximate functions are off by a
// seeded error within the bounds that NVIDIA documents, so that no kernel rests on more. The driver keeps the rules of the
// real one: memory in pools with limits, streams in order, capture into graphs, errors that stay after a kernel's fault. What
// a program does against the rules is a finding (Driver.Findings).
//
// It checks as it runs (see checks): accesses out of bounds or not aligned, reads of memory and registers that nobody wrote,
// copies of such memory to the host, races on shared and global memory, barriers and shuffles without all threads, asynchronous
// copies that are read too early. Tests of a program that divides its memory itself tell where values begin and end
// (Driver.Guard, Driver.Forget). It counts
// (Driver.Counters): instructions by class, operations, bytes of global memory by sectors, passes over the banks of shared memory.
//
// It does not model time, caches, the order of memory between threads that neither a barrier nor atomics between fences order
// (races are findings instead), textures, surfaces, functions called from kernels, clusters, and instructions of single architectures (wgmma,
// bulk copies).
//
// The same seed, program and calls give the same answers and findings. A kernel runs on one goroutine.
//
// The package imports runtime/cuda/driver and the standard library. Only tests import it, and the command with the build tag
// emulate, by which runtime/cuda/device.sh tries its steps.
package emu
