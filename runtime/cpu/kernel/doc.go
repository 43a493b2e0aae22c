// Package kernel computes on slices: products, scans, transforms, norms and activations of float32 numbers, row by row.
//
// It imports the standard library and x/sys/cpu only, and knows neither graphs nor threads. Callers divide the work into
// tiles and provide scratch memory. Kernels do not allocate, keep no argument, and read nothing beyond the given sizes.
// Results depend on the arguments alone, so any thread may compute any tile. NaN and infinities propagate as in IEEE
// arithmetic.
//
// The definition of each kernel is portable Go. Many have variants in assembly for AVX2 and AVX-512, written by the
// generator in _asm (go generate). The variant is chosen once, when the program starts (see Variant). A kernel without an
// AVX-512 variant runs its AVX2 variant there. AVX2 leaves the numbers after the last whole vector to the portable kernel,
// except in fused kernels, which mask them. AVX-512 masks them, so a number has the same bits at any position.
// _asm/emulate.sh runs tests on processors without AVX-512.
//
// # Products
//
// Weights are packed when they are bound, in panels of 16 rows (AVX2: 6 rows of x by 16) or 32 (AVX-512: 12 by 32), so
// that the accumulators fill the registers. The rest goes into panels of 4, 8 or 16. x is read in place, and each number
// is broadcast.
//
// Blocks of block-diagonal products have 2 to 8 outputs, fewer than a vector, so a vector holds several of them. Shuffles
// and repeating loads distribute the inputs. They share the work, since shuffles use a unit of the multiply-adds.
//
// In low precision, int8 products are two 16-bit products per instruction (VPMADDWD) on AVX2. VPMADDUBSW would need one
// side of 7 bits, in all variants. VPDPBUSD has 8-bit products, with AVX_VNNI and AVX512_VNNI. bfloat16 products need
// AVX512_BF16 (VDPBF16PS). Elsewhere rounded numbers go through the float32 kernels, which is faster than widening the
// weights.
//
// # Fused kernels
//
// Elementwise operations between two products are bound by loads and stores if each makes its own pass. A Fused does them
// for 32 numbers at a time in four registers. Its program is a list of addresses of assembly functions, each of which jumps
// to the next.
//
// Functions such as sigmoid, tanh and GELU evaluate four vectors side by side, to hide the latency of multiply-adds and
// divisions. Instructions then read coefficients from memory, since sixteen registers cannot hold them.
//
// # Scans
//
// Scans compute in float64, and the states between tiles are float64. Scans in float32 with corrected states were faster,
// but their rounding errors accumulate over a long sequence. Where only the last state is wanted, blocks of eight steps sum
// up in float32, and the state between blocks is float64: this rounds no more than the inputs do.
//
// Systems of one input and one output, as in S4D, use each number n times. In blocks of eight steps their states contribute
// directly to outputs, and inputs to states, so no array of states is written.
//
// # Fourier transforms
//
// A transform is a sequence of passes of radix 8 and smaller factors, each of which goes through memory in order. Lengths
// with a prime factor above 13 become a convolution (Bluestein). A real transform takes half the work of a complex one. Long
// transforms ask callers between passes whether to stop, and so does the making of tables.
package kernel
