// Package conformance compares a card with the emulator, instruction by instruction. Its tests run each instruction
// that package ptx writes on both, on edge values, and matrix products on random numbers.
//
// With the environment variable ESSMC_CUDA set, and the build tag cuda, the card is the first one that NVIDIA's
// driver lists:
//
//	go test -tags cuda -c ./runtime/cuda/internal/conformance     # on any machine
//	ESSMC_CUDA=1 ./conformance.test -test.v                       # on one with a card
//
// Otherwise it is an emulated card with another seed, which shows that the tests themselves work.
//
// The tests import runtime/cuda/driver, driver/libcuda, emu, kernel, ptx and internal/ptxas.
package conformance
