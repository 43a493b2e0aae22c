// Package kernel computes on slices: products, scans, transforms, norms and activations of float32 numbers, row by row.
//
// Each kernel is portable Go, which is its truth, and where it matters has a variant in assembly for AVX2, written by the
// generator in _asm (go generate). Which variant runs is decided once, when the program starts (see Variant).
//
// It imports the standard library and x/sys/cpu only, and knows neither graphs nor threads: callers cut the work into tiles and hand out
// scratch. What always holds: no kernel allocates, keeps an argument, or reads beyond the sizes that it is given; answers
// depend on the arguments alone, so tiles may be computed by any thread; NaN and infinities pass through as in IEEE
// arithmetic. The states of recurrences cross tiles in float64: rounding them to float32 once per tile is what makes a
// long scan drift.
package kernel
