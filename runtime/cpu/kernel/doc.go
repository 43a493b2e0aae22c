// Package kernel computes on slices: products, scans, transforms, norms and activations of float32 numbers, row by row.
//
// The package imports the standard library and x/sys/cpu only, and knows neither graphs nor threads. Callers divide the
// work into tiles and provide scratch memory. Kernels do not allocate, keep no argument, and read nothing beyond the
// given sizes. Results depend on the arguments alone, so any thread may compute any tile. NaN and infinities propagate
// as in IEEE arithmetic.
//
// The definition of each kernel is portable Go. Many have variants in assembly for AVX2 and AVX-512, written by the
// generator in _asm (go generate). The variant is chosen once, when the program starts (see Variant). Portable code asks
// a value for its panels, tiles and kernels (description in variant.go). Another instruction set describes itself by such
// a value, in a file of its architecture. The functions of *_amd64.go return how much they have computed; stubs_other.go,
// which is generated, has them return zeros elsewhere.
//
// A kernel without an AVX-512 variant runs its AVX2 variant there. AVX2 leaves the numbers after the last whole vector to
// the portable kernel, except in fused kernels, which mask them. AVX-512 masks them, so a number has the same bits at any
// position. _asm/emulate.sh runs tests on processors without AVX-512.
//
// # Products
//
// Weights are packed once, in panels of 16 rows for AVX2 and of 32 rows for AVX-512. Kernels multiply a panel with 6 or
// 12 rows of x at a time, so that the accumulators fill the registers. The remaining rows are packed in a panel of 4, 8
// or 16. x is read in place, and each number is broadcast.
//
// Blocks of block-diagonal products with 2 to 8 outputs are smaller than a vector, so a vector holds several of them.
// Inputs are distributed partly by shuffles and partly by repeated loads, since shuffles occupy one of the units that
// multiply.
//
// In low precision, products of int8 use VPMADDWD on AVX2, on numbers widened to 16 bits, and VPDPBUSD on bytes with
// AVX_VNNI and AVX512_VNNI. VPMADDUBSW would limit one side to 7 bits. Products of bfloat16 use VDPBF16PS with
// AVX512_BF16. Elsewhere, rounded numbers go through the float32 kernels, which is faster than widening the weights.
//
// # Fused kernels
//
// Elementwise operations between two products take most of their time for loads and stores if each makes a pass of its
// own. A Fused applies all of them to 32 numbers at a time, in four registers. Its program is a list of addresses of
// assembly functions, each of which jumps to the next.
//
// Functions such as sigmoid, tanh and GELU evaluate four vectors at once, to hide the latency of multiply-adds and
// divisions. Instructions read coefficients from memory, since sixteen registers cannot hold them.
//
// # Scans
//
// Scans compute in float64, since rounding errors of states in float32 accumulate over a long sequence. If only the
// last state is wanted, blocks of eight steps sum in float32, and the state between blocks is float64. This adds errors
// no larger than the rounding of the inputs.
//
// Systems of one input and one output, as in S4D, have n states for each number of their input. In blocks of eight
// steps, outputs are computed directly from the state before the block and from the inputs, so no array of states is
// written.
//
// # Fourier transforms
//
// A transform is a sequence of passes of radix 8 and smaller factors, each of which reads memory in order. Lengths with
// a prime factor above 13 become a convolution (Bluestein). A real transform takes half the work of a complex one. Long
// transforms, and the computation of tables, call a Stop from time to time and end early if it returns true.
//
// Convolutions with long kernels transform the features of a group beside each other: a vector holds a number of each, as
// the rows of a sequence do, so no numbers are transposed or shuffled. Passes run in place and leave spectra in the order
// of reversed digits, which the way back undoes. The parts of a spectrum that the first pass leaves are finished,
// multiplied and transformed back while they are in the cache.
package kernel
