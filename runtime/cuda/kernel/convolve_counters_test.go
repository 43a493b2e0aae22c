package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// Transforms in one kernel read the points of their pieces, write each output, and otherwise access only the
// spectra. With two levels, three kernels move 20 bytes per point besides the tables: 40 per number if a transform
// is twice as long as the sequence. Sectors are whole, shared memory has no conflicts, and the operations are the
// butterflies'.
func TestConvolutionCounters(t *testing.T) {
	for _, c := range []kernel.Convolution{
		{Batch: 2, Length: 500, Inputs: 16, Channels: 16, Taps: 500},
		{Batch: 2, Length: 1200, Inputs: 16, Channels: 16, Taps: 100},
		{Batch: 4, Length: 50, Inputs: 8, Channels: 8, Taps: 30},
		{Batch: 2, Length: 2000, Inputs: 16, Channels: 16, Taps: 2000},
	} {
		n, levels := c.Points()
		t.Run(fmt.Sprintf("%d points", n), func(t *testing.T) {
			r := rand.New(rand.NewPCG(8, 1))
			u, k := numbers(r, c.Batch*c.Length*c.Inputs), kernels(r, c.Channels, c.Taps)
			d := kerneltest.New(t)
			c.U, c.Y = d.In(u), d.Out(4*len(u))
			calls := c.Calls(true, "", ready(func(i int) []float64 { return k[i] }), memory(d))
			d.ResetCounters()
			d.Run(calls...)
			pieces := 1
			if c.Taps < c.Length {
				pieces = (c.Length + n - c.Taps) / (n - c.Taps + 1)
			}
			count := float64(len(u))
			pairs := float64((c.Batch*pieces + 1) / 2)
			points := float64(n*c.Channels) * pairs // complex
			read, written, operations := 0.0, 0.0, 0.0
			for _, q := range d.Counters().Kernels {
				if x := q.Conflicts(); x > 0.05 {
					t.Errorf("%s: conflicts add %.3g to the passes over shared memory", q.Kernel, x)
				}
				if q.ReadMoved > q.ReadWanted*11/10 || q.WrittenMoved > q.WrittenWanted*11/10 {
					t.Errorf("%s: %d bytes are moved for %d that are read, %d for %d that are written", q.Kernel, q.ReadMoved,
						q.ReadWanted, q.WrittenMoved, q.WrittenWanted)
				}
				read, written, operations = read+float64(q.ReadDistinct), written+float64(q.WrittenMoved), operations+float64(q.OpsF32)
			}
			spectra := 8 * float64(n*c.Channels)
			mostRead, mostWritten := 4*count+spectra, 4*count
			// 5 for each bit of a point in a transform, and its turns and the product with the spectrum.
			mostOperations := points * (10*math.Log2(float64(n)) + 36)
			if levels == 2 {
				mostRead += 16*points + 8*float64(n) // and the turns between the levels
				mostWritten += 16 * points
				mostOperations += 12 * points
			}
			const tables = 16 << 10 // roots of butterflies
			if read > mostRead*1.01+tables || written > mostWritten*1.01 {
				t.Errorf("%.3g bytes a number are read, %.3g written, expected at most %.3g and %.3g", read/count, written/count,
					mostRead/count, mostWritten/count)
			}
			if operations > mostOperations {
				t.Errorf("%.3g operations a number, expected at most %.3g", operations/count, mostOperations/count)
			}
			t.Logf("a number: %.3g bytes read, %.3g written, %.3g operations of %.3g", read/count, written/count, operations/count,
				mostOperations/count)
		})
	}
}
