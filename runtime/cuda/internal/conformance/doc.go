// Package conformance compares a card with the emulator, instruction by instruction. Its tests run each instruction that
// package ptx writes on edge values, on both, and products of matrices on random numbers.
//
// With the environment variable ESSMC_CUDA set, and the build tag cuda, the card is the first one of NVIDIA's driver:
//
//	go test -tags cuda -c ./runtime/cuda/internal/conformance     # on any machine
//	ESSMC_CUDA=1 ./conformance.test -test.v                       # on one with a card
//
// Otherwise it is an emulated one of another seed, which shows that the tests themselves work.
//
// The tests import runtime/cuda/driver, driver/libcuda, emu, kernel, ptx and internal/ptxas.
package conformance
