package products_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestRotary(t *testing.T) {
	r := NewGen(161)
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
				four := Given(r.Floats(1, samples, heads, steps, size))
				three := Given(r.Floats(1, samples, steps, heads*size))
				positions := make([]int64, samples*steps)
				for i := range positions {
					positions[i] = int64(r.IntN(steps + 9))
					if r.IntN(3) == 0 {
						positions[i] -= int64(steps + 9) // from the end
					}
				}
				at := Given(tensor.FromSlice(positions, samples, steps))
				cos, sin := Given(r.Floats(1, steps+9, half)), Given(r.Floats(1, steps+9, half))
				on.Node(t, "RotaryEmbedding", 1, []Operand{four, cos, sin, at}, attrs...)
				more := append(attrs[:2:2], ir.A("num_heads", heads))
				on.Node(t, "RotaryEmbedding", 1, []Operand{three, cos, sin, at}, more...)
				own := []Operand{Given(r.Floats(1, samples, steps, half)), Given(r.Floats(1, samples, steps, half))}
				on.Node(t, "RotaryEmbedding", 1, []Operand{four, own[0], own[1]}, attrs...)
				on.Node(t, "RotaryEmbedding", 1, []Operand{three, own[0], own[1]}, more...)

				for form, place := range []string{"int64[%[2]d,%[3]d]", "int64[1]"} {
					g := ParseWith(t, fmt.Sprintf(`g (float[%[2]d,%[3]d,%[4]d] x, `+place+` p, float[%[5]d,%[6]d] c,
						float[%[5]d,%[6]d] s) => (float[%[2]d,%[3]d,%[4]d] y) {
						y = com.microsoft.RotaryEmbedding <num_heads: int = %[1]d, interleaved: int = %[7]d>(x, p, c, s)
					}`, heads, samples, steps, heads*size, steps+9, half, (i+k)%2), "com.microsoft")
					feed := map[string]tensor.Datum{"x": three.Data, "p": at.Data, "c": cos.Data, "s": sin.Data}
					if form == 1 {
						feed["p"] = tensor.FromSlice([]int64{int64(r.IntN(9))}, 1)
					}
					want := Truth(t, g, feed)
					for _, threads := range []int{1, 3} {
						CloseTo(t, place, Run(t, g, runtime.Options{Backend: cpu.New(), Threads: threads}, feed), want, 1e-6)
					}
				}
			}
		}
	}
}
