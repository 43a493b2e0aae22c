package kernel

import "math"

// QuadFilters are rows of signed bytes, packed for products with panels of unsigned ones: in blocks of rows, with the quads
// of a block's rows adjacent.
type QuadFilters struct {
	M, Quads int
	data     []int8
}

// filterRows is the largest number of rows of a block.
const filterRows = 12

// blocks returns the number of blocks.
func (f *QuadFilters) blocks() int { return (f.M + filterRows - 1) / filterRows }

// block returns the rows of block i, from which the others differ by one at most.
func (f *QuadFilters) block(i int) (from, to int) {
	n := f.blocks()
	return i * f.M / n, (i + 1) * f.M / n
}

// NewQuadFilters packs m rows of k numbers, which set writes.
func NewQuadFilters(m, k int, set func(i int, row []int8)) *QuadFilters {
	f := &QuadFilters{M: m, Quads: QuadsOf(k)}
	f.data = make([]int8, m*4*f.Quads)
	row := make([]int8, 4*f.Quads)
	for b := range f.blocks() {
		from, to := f.block(b)
		for i := from; i < to; i++ {
			set(i, row[:k])
			at := from*4*f.Quads + 4*(i-from)
			for p := range f.Quads {
				*(*[4]int8)(f.data[at+p*4*(to-from):]) = [4]int8(row[4*p:])
			}
		}
	}
	return f
}

// Sums computes the product of each row with the first n columns of panels, which are contiguous. Rows of y have
// stride ldy. Sums wrap around.
func (f *QuadFilters) Sums(y []int32, ldy int, panels []byte, n int) {
	for b := range f.blocks() {
		from, to := f.block(b)
		x := f.data[from*4*f.Quads : to*4*f.Quads]
		if !quadSumsWide(y[from*ldy:], ldy, x, to-from, f.Quads, panels, n) {
			f.sums(y[from*ldy:], ldy, x, to-from, panels, n)
		}
	}
}

func (f *QuadFilters) sums(y []int32, ldy int, x []int8, rows int, panels []byte, n int) {
	for i := range rows {
		for j := range n {
			s := int32(0)
			w := panels[j/PanelWidth*4*f.Quads*PanelWidth+j%PanelWidth*4:]
			for p := range f.Quads {
				for h, v := range x[(p*rows+i)*4:][:4] {
					s += int32(v) * int32(w[p*4*PanelWidth+h])
				}
			}
			y[i*ldy+j] = s
		}
	}
}

// ByteScale turns sums of each row of filters into bytes: (x + Add)·Scale. The sum wraps around, and the product is rounded to
// float32.
type ByteScale struct {
	Add   []int32
	Scale []float32
	Zero  int
}

// NarrowSums reports whether a ByteScale gives the same bytes as float64 for sums of at most most, with biases:
// either float32 represents all of them, or those that it does not represent are far outside the range of bytes. All
// products are 32-bit integers.
func NarrowSums(most, scale float64) bool {
	return float64(float32(scale)) == scale && most*math.Abs(scale) < 1<<31-256 && most < 1<<31-1 &&
		(most <= MostExact || MostExact*math.Abs(scale) >= 1<<10)
}

// Bytes computes bytes of the products of each row with the first n columns of panels, which are contiguous. Rows of
// y have stride ldy.
func (f *QuadFilters) Bytes(y Bytes, ldy int, panels []byte, n int, s *ByteScale) {
	r := y.rangeOf(s.Zero)
	var sums [filterRows]int32
	for b := range f.blocks() {
		from, to := f.block(b)
		x := f.data[from*4*f.Quads : to*4*f.Quads]
		if n == 0 || quadBytesWide(y.Data[from*ldy:], ldy, x, to-from, f.Quads, panels, n, s.Add[from:to], s.Scale[from:to], r) {
			continue
		}
		for j := range n {
			f.sums(sums[:], 1, x, to-from, panels[j/PanelWidth*4*f.Quads*PanelWidth+j%PanelWidth*4:], 1)
			for i, v := range sums[:to-from] {
				y.Data[(from+i)*ldy+j] = r.of(float32(v+s.Add[from+i]) * s.Scale[from+i])
			}
		}
	}
}
