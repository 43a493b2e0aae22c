// Package kernel computes on slices: products, scans, transforms, norms and activations of float32 numbers, row by row.
//
// Each kernel is portable Go, which is its truth, and where it matters has variants in assembly for AVX2 and AVX-512, written by
// the generator in _asm (go generate). Which variant runs is decided once, when the program starts (see Variant); what has no
// form for AVX-512 runs there as on AVX2. AVX2 leaves the numbers behind the last whole vector to the portable kernel (fused kernels mask
// them); AVX-512 masks them, so that a number comes out the same wherever it stands. _asm/emulate.sh runs tests where no processor has AVX-512.
//
// Products. Weights are packed when they are bound, in panels of 16 rows (AVX2: 6 rows of x by 16) or 32 (AVX-512: 12 by 32; both
// fill the registers with accumulators), what remains in panels of 4, 8 or 16; x is read in place, each number broadcast.
//
// It imports the standard library and x/sys/cpu only, and knows neither graphs nor threads: callers cut the work into tiles and hand out
// scratch. What always holds: no kernel allocates, keeps an argument, or reads beyond the sizes that it is given; answers
// depend on the arguments alone, so tiles may be computed by any thread; NaN and infinities pass through as in IEEE
// arithmetic. The states of recurrences cross tiles in float64: rounding them to float32 once per tile is what makes a
// long scan drift.
//
// Fourier transforms. A transform of n complex numbers is about 5n·log₂ n additions and multiplications, one of n real numbers
// half of that, and each pass reads and writes 8 bytes per number; three passes of radix 8 do the work of nine of radix 2.
// Additions are most of it, so half of what multiply-adds reach is the ceiling: some 55 GFLOP/s on a core whose products
// reach 115. Real transforms of 4,096 numbers come to 40 GFLOP/s there (3.1 µs; FFTW in float32, planned by measuring, 3.5),
// of 16,384 to 2¹⁸ to 27–30, of 2²⁰, which leave the second cache, to 19 (2.7 ms, FFTW 3.0–4.3). Passes go through memory in
// order, so cutting long transforms into rows and columns would save little, and it is not done. Between passes of long ones, and
// while tables are made, callers are asked whether to stop.
//
// Products in low precision. A core that reaches 102 GFLOP/s in float32 multiplies and adds 16 numbers of 16 bits per VPMADDWD
// and VPADDD. On Zen 3 it does 3.2 such instructions per cycle, whatever stands around them, which is 165 GOP/s; int8 comes to
// 155. VPMADDUBSW would take 3 instructions in place of 4, but either side would have to keep to 7 bits, in all variants, or its
// sign would have to move to the other side first, by a fourth. VPDPBUSD, with AVX_VNNI, needs one, and with AVX512_VNNI for
// twice the vector. One row of activations takes what reading the weights takes: half of float32's time. bfloat16 has VDPBF16PS,
// with AVX512_BF16; to widen the weights on AVX2 would cost 5%, so there and elsewhere rounded numbers go through the kernels of
// float32.
//
// Functions. A sigmoid is 9 multiply-adds, an addition, a shift, two bounds and a division for each vector: 4.5 cycles of the two
// units that multiply, 6 of the one that divides. With four vectors side by side, which hides what each waits for, it takes 7
// (0.28 ns a number in AVX2 at 3.2 GHz; with two 11), GELU 8, tanh 9. Coefficients are then read from memory by the
// instructions that need them, since sixteen registers hold no more.
//
// Block-diagonal products. Blocks of 2 to 8 outputs fill no vector with rows of a panel, so eight outputs hold several of them, and
// shuffles bring each its inputs. A shuffle shares a unit with multiply-adds, a load that repeats numbers does not, so loads do
// half of it: blocks of 4 by 4 reach 72 GFLOP/s where products reach 103, of 4 by 8 65, of 8 by 4 and 8 by 6 70, of 6 by 8, whose
// vectors are three quarters full, 54.
//
// Fused kernels. What is done to numbers between two products is bound by loads and stores if each operator goes over them. A
// Fused does it to 32 numbers at a time in four registers: its program is a list of addresses of assembly functions, each of
// which does its work and jumps to the next. An addition is four cycles for 32 numbers, its loads included; a gate of a sigmoid,
// a product, a sum and an affine map 0.41 ns a number out of the second cache, where its parts one by one take 0.56.
//
// Scans. They compute in float64: 3.2 G state-steps/s, bound by six multiply-adds and two conversions a step. In float32, with the states at
// the edges of tiles corrected by what rounded factors make of them, they ran at 7.0–7.5, which saved 3 to 5% of a preset's time,
// but what each step rounds away accumulates: errors of whole presets against float64 rose four to twenty-seven times, to 2e-4.
// Where only the last state is wanted, blocks of eight steps add up in float32 what their inputs give, and the state crosses a block
// in float64: 9 G state-steps/s, and no more rounded than inputs are. With outputs blocks did not pay: 3.5 to 3.8 in the first
// cache, and less beyond it.
//
// Systems of one input and one output, as S4D has them, see each number of theirs n times over. By blocks of eight steps states give
// straight to outputs, and inputs to states, so that nothing of that size is written: 4.5 G state-steps/s for B, scan and C
// together, 1.4 where the three follow each other.
package kernel
