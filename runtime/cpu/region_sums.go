package cpu

import "github.com/essmc/essmc/runtime/cpu/internal/record"

// carry is the state of a running sum: the sum of the previous tiles, in float64, so that errors do not grow with
// the length.
type carry struct {
	record.Sums
	width int
	z     []float64 // per sample
	made  []counter // per sample: finished tiles
}

func (c *carry) bytes(batch int) int64 { return int64(batch) * (8*int64(c.width) + counterBytes) }

func (c *carry) attach(batch int) {
	c.z, c.made = make([]float64, batch*c.width), make([]counter, batch)
}

func (c *carry) start() {
	clear(c.z)
	for i := range c.made {
		c.made[i].n.Store(0)
	}
}

// tile computes the running sum of tile t, after those before it.
func (c *carry) tile(w *worker, y, x []float32, sample, t, rows int) {
	if !c.made[sample].wait(t, w) {
		return
	}
	z := c.z[sample*c.width : (sample+1)*c.width]
	for r := range rows {
		src, dst := x[r*c.width:(r+1)*c.width], y[r*c.width:(r+1)*c.width]
		for i, v := range src {
			sum := z[i] + float64(v)
			if c.Exclusive {
				dst[i] = float32(z[i])
			} else {
				dst[i] = float32(sum)
			}
			z[i] = sum
		}
	}
	c.made[sample].done(t + 1)
}
