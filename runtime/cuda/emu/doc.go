// Package emu is an emulated CUDA driver whose cards execute PTX in Go. It lets the CUDA backend be tested on
// machines without a card.
//
// It emulates
//
//   - the text of PTX, parsed completely: an unknown instruction is an error with its line and text
//   - warps of 32 lanes in lockstep, which diverge at branches and reconverge where the paths meet
//   - blocks and warps in an order that depends on a seed, several blocks side by side, so that a missing barrier shows
//   - barriers, shuffles, votes and atomics
//   - global, shared, local and parameter memory
//   - arithmetic with the rounding that PTX specifies; approximate functions have a seeded error within the bounds that
//     NVIDIA documents, so that no kernel relies on better ones
//   - the rules of the real driver: memory in pools with limits, streams in order, capture into graphs, errors that
//     persist after a kernel's fault. A violation is a finding (Driver.Findings)
//
// It checks during the run (see checks): accesses out of bounds or misaligned, reads of memory and registers that
// were never written, copies of such memory to the host, races on shared and global memory, barriers and shuffles
// without all threads, and asynchronous copies that are read too early. Tests of a program that divides its memory
// itself declare where values begin and end (Driver.Guard, Driver.Forget). It counts (Driver.Counters) instructions
// by class, operations, bytes of global memory by sectors, and passes over the banks of shared memory.
//
// It does not emulate time, caches, textures, surfaces, functions called from kernels, clusters, instructions of
// single architectures (wgmma, bulk copies), or the memory order between threads that neither a barrier nor atomics
// between fences order; such accesses are races, which are findings.
//
// The same seed, program and calls give the same answers and findings. A kernel runs on one goroutine.
//
// The package imports runtime/cuda/driver and the standard library. Its only importers are tests, and the command
// with the build tag emulate, with which runtime/cuda/device.sh tries its steps.
package emu
