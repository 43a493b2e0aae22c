package cpu

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func TestRotary(t *testing.T) {
	r := newGen(161)
	for i, steps := range []int{1, 2, 7, 65, 300} {
		for j, size := range []int{2, 6, 16, 34, 64} {
			for k, turned := range []int{0, 2, size / 4 * 2, size} {
				heads, samples := 1+(i+j)%3, 1+k%2
				half := size / 2
				if turned != 0 {
					half = turned / 2
				}
				if half == 0 {
					continue
				}
				attrs := []ir.Attr{ir.A("interleaved", (i+k)%2), ir.A("rotary_embedding_dim", turned)}
				four := given(r.floats(1, samples, heads, steps, size))
				three := given(r.floats(1, samples, steps, heads*size))
				positions := make([]int64, samples*steps)
				for i := range positions {
					positions[i] = int64(r.IntN(steps + 9))
					if r.IntN(3) == 0 {
						positions[i] -= int64(steps + 9) // from the end
					}
				}
				at := given(tensor.FromSlice(positions, samples, steps))
				cos, sin := given(r.floats(1, steps+9, half)), given(r.floats(1, steps+9, half))
				checkNode(t, "RotaryEmbedding", 1, []operand{four, cos, sin, at}, attrs...)
				more := append(attrs[:2:2], ir.A("num_heads", heads))
				checkNode(t, "RotaryEmbedding", 1, []operand{three, cos, sin, at}, more...)
				own := []operand{given(r.floats(1, samples, steps, half)), given(r.floats(1, samples, steps, half))}
				checkNode(t, "RotaryEmbedding", 1, []operand{four, own[0], own[1]}, attrs...)
				checkNode(t, "RotaryEmbedding", 1, []operand{three, own[0], own[1]}, more...)

				for form, place := range []string{"int64[%[2]d,%[3]d]", "int64[1]"} {
					g := parseWith(t, fmt.Sprintf(`g (float[%[2]d,%[3]d,%[4]d] x, `+place+` p, float[%[5]d,%[6]d] c,
						float[%[5]d,%[6]d] s) => (float[%[2]d,%[3]d,%[4]d] y) {
						y = com.microsoft.RotaryEmbedding <num_heads: int = %[1]d, interleaved: int = %[7]d>(x, p, c, s)
					}`, heads, samples, steps, heads*size, steps+9, half, (i+k)%2), "com.microsoft")
					feed := map[string]tensor.Datum{"x": three.data, "p": at.data, "c": cos.data, "s": sin.data}
					if form == 1 {
						feed["p"] = tensor.FromSlice([]int64{int64(r.IntN(9))}, 1)
					}
					want := truth(t, g, feed)
					for _, threads := range []int{1, 3} {
						closeTo(t, place, run(t, g, runtime.Options{Backend: New(), Threads: threads}, feed), want, 1e-6)
					}
				}
			}
		}
	}
}
