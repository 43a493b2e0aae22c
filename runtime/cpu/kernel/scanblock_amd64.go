//go:build amd64 && !purego

package kernel

// scanBlock advances two vectors of states, each of lanes numbers, over blocks of blockSteps rows.
func scanBlock(lanes, blocks int, v *float32, stride int, give *float32, ar, ai, zr, zi *float64) {
	if lanes == 16 {
		scanBlock32AVX512(blocks, v, stride, give, ar, ai, zr, zi)
	} else {
		scanBlock16AVX2(blocks, v, stride, give, ar, ai, zr, zi)
	}
}
