package kernel

import (
	"math"
	"unsafe"
)

// Int8 is a matrix W (M rows, K columns) in 8 bits, packed for GemmInt8. Each row is a scale times integers. The scale
// makes the largest magnitude of the row 127, and the others are rounded to the nearest, ties to even. A row with NaN
// or infinity has the scale NaN.
type Int8 struct {
	M, K   int
	panel  int // rows of W in a panel; 1 for the portable kernel
	side   int // adjacent columns of a row in a panel
	groups int // groups of four columns; the last one is padded with zeros
	data   []int8
	scale  []float32 // per row of all panels
	init   []int32   // per row of all panels: the initial value of sums; nil for 0
}

// MaxInt8 is the largest K whose sums fit 32 bits on every variant.
const MaxInt8 = 1 << 16

// int8Range is the integer that the largest magnitude is scaled to. A vector whose largest magnitude is below int8Least
// counts as zeros, since its factor would overflow.
const (
	int8Range = 127
	int8Least = 0x1p-119
)

// int8Offset is added to activations for kernels that read them as unsigned bytes.
const int8Offset = 128

// PackInt8 rounds and packs W, whose element (i, k) is w[i*rs+k*cs]. K is at most MaxInt8.
func PackInt8(w []float32, m, k, rs, cs int) *Int8 {
	p := NewInt8(m, k)
	p.Fill(w, rs, cs)
	return p
}

// NewInt8 returns a matrix of m rows and k columns, for Fill.
func NewInt8(m, k int) *Int8 {
	p := &Int8{M: m, K: k, groups: groups(k)}
	p.panel, p.side = machine.int8.panel, machine.int8.side
	panels := (m + p.panel - 1) / p.panel
	p.data, p.scale = make([]int8, panels*p.panel*p.groups*4), make([]float32, panels*p.panel)
	if machine.int8.bytes {
		p.init = make([]int32, panels*p.panel)
	}
	return p
}

// Fill packs another matrix of the same size, as PackInt8 does, in place.
func (p *Int8) Fill(w []float32, rs, cs int) {
	clear(p.init)
	for i := range p.M {
		most := uint32(0)
		for j := range p.K {
			most = max(most, math.Float32bits(w[i*rs+j*cs])&^(1<<31))
		}
		s, f := int8Scale(most)
		p.scale[i] = s
		for j := range p.K {
			q := roundInt8(w[i*rs+j*cs], f)
			p.data[p.at(i, j)] = int8(q)
			if p.init != nil {
				p.init[i] -= int8Offset * int32(q)
			}
		}
	}
}

// at returns the index of element (i, j) in data.
func (p *Int8) at(i, j int) int {
	return i/p.panel*p.panel*p.groups*4 + j/p.side*p.side*p.panel + i%p.panel*p.side + j%p.side
}

// Bytes returns the size of the packed matrix.
func (p *Int8) Bytes() int64 { return int64(len(p.data)) + int64(len(p.scale)+len(p.init))*4 }

func groups(k int) int { return (k + 3) / 4 }

// int8Scale returns the scale of a vector whose largest magnitude has the bits most, and the factor that scales its
// numbers to integers.
func int8Scale(most uint32) (scale, factor float32) {
	switch v := math.Float32frombits(most); {
	case most >= 0x7f800000:
		return float32(math.NaN()), 0
	case v < int8Least:
		return 0, 0
	default:
		return v / int8Range, int8Range / v
	}
}

// roundInt8 returns x·f, rounded; 0 for a factor of 0.
func roundInt8(x, f float32) int16 {
	if f == 0 {
		return 0
	}
	return int16(math.RoundToEven(float64(float32(x * f))))
}

// Int8Words returns the number of float32 that QuantizeInt8 writes for k numbers.
func Int8Words(k int) int {
	if machine.int8.bytes {
		return 1 + groups(k)
	}
	return 1 + 2*groups(k)
}

// QuantizeInt8 rounds n vectors of k numbers, each to a scale and integers as Int8 does, for GemmInt8.
func QuantizeInt8(dst, x []float32, n, k int) {
	words := Int8Words(k)
	for i := 0; i < n; i++ {
		if i += quantizeWide(dst[i*words:], x[i*k:], n-i, k); i == n {
			return
		}
		quantizeInt8(dst[i*words:(i+1)*words], x[i*k:(i+1)*k])
	}
}

func quantizeInt8(dst, x []float32) {
	done, most := largestWide(x)
	for _, v := range x[done:] {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	s, f := int8Scale(most)
	dst[0] = s
	if machine.int8.bytes {
		q := uint8s(dst[1:])
		done = 0
		if f != 0 {
			done = roundUint8Wide(q, x, f)
			for i, v := range x[done:] {
				q[done+i] = uint8(roundInt8(v, f) + int8Offset)
			}
			done = len(x)
		}
		for i := range q[done:] {
			q[done+i] = int8Offset
		}
		return
	}
	q := int16s(dst[1:])
	if f == 0 {
		clear(q)
		return
	}
	done = roundInt16Wide(q, x, f)
	for i, v := range x[done:] {
		q[done+i] = roundInt8(v, f)
	}
	clear(q[len(x):])
}

// int16s, uint16s and uint8s return the memory of v as smaller integers.
func int16s(v []float32) []int16   { return smaller[int16](v) }
func uint16s(v []float32) []uint16 { return smaller[uint16](v) }
func uint8s(v []float32) []uint8   { return smaller[uint8](v) }

func smaller[T int16 | uint16 | uint8](v []float32) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])/unsafe.Sizeof(t)))
}

// GemmInt8 computes y = x Wᵀ + bias for rows of x that QuantizeInt8 has written, of K numbers each. Rows of x have
// stride ldx, and rows of y ldy. Sums are exact. Each is rounded to float32, multiplied by the product of both
// scales, and added to bias, so all variants give the same bits. bias has M numbers, or is nil.
func GemmInt8(y []float32, ldy int, x []float32, ldx int, rows int, w *Int8, bias []float32) {
	if rows == 0 || w.M == 0 {
		return
	}
	if w.panel > 1 && w.K > 0 {
		gemmInt8Wide(y, ldy, x, ldx, rows, w, bias)
		return
	}
	k := w.groups * 4
	for r := range rows {
		row := x[r*ldx:]
		q := int16s(row[1 : 1+2*w.groups])
		out := y[r*ldy : r*ldy+w.M]
		for i := range out {
			s := int32(0)
			for j, v := range w.data[i*k : i*k+len(q)] {
				s += int32(q[j]) * int32(v)
			}
			out[i] = float32(s) * float32(row[0]*w.scale[i])
			if bias != nil {
				out[i] += bias[i]
			}
		}
	}
}
