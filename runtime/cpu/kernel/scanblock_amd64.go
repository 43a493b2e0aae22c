//go:build amd64 && !purego

package kernel

// scanLanes returns the number of states in a vector; 0 if scans are not computed in blocks.
func scanLanes() int {
	switch {
	case avx512():
		return 16
	case wide():
		return 8
	}
	return 0
}

// scanBlock advances two vectors of states, each of lanes numbers, over blocks of blockSteps rows.
func scanBlock(lanes, blocks int, v *float32, stride int, give *float32, ar, ai, zr, zi *float64) {
	if lanes == 16 {
		scanBlock32AVX512(blocks, v, stride, give, ar, ai, zr, zi)
	} else {
		scanBlock16AVX2(blocks, v, stride, give, ar, ai, zr, zi)
	}
}
