package kernel

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestQuads(t *testing.T) { eachVariant(t, testQuads) }

func testQuads(t *testing.T) {
	r := newRand()
	for _, k := range []int{0, 4, 8, 12, 36, 132} {
		for _, rows := range []int{0, 1, 2, 5, 11, 12, 13, 25} {
			name := fmt.Sprintf("k %d rows %d", k, rows)
			x, w := bytesOf(r, 400, r.IntN(2) == 0), bytesOf(r, 1+rows*k, true)
			at := r.IntN(50)
			off := make([]int32, k)
			for i := range off {
				off[i] = int32(r.IntN(400 - at - PanelWidth + 1))
			}
			panels := 1 + r.IntN(4)
			panel := make([]byte, 7+k*PanelWidth*panels+9)
			for i := range panel {
				panel[i] = byte(i)
			}
			wantPanel := slices.Clone(panel)
			for i, o := range off {
				for j := range PanelWidth {
					wantPanel[7+i/4*4*PanelWidth+4*j+i%4] = byte(x.at(at+int(o)+j) + x.Unsigned())
				}
			}
			PanelBytes(panel[7:], x, NewOffsets(off), at)
			if !slices.Equal(panel, wantPanel) {
				t.Fatalf("%s: the panel or what lies beside it differs", name)
			}
			for i := range panel[7+k*PanelWidth:] { // the other ones
				panel[7+k*PanelWidth+i] = byte(r.Uint32())
			}
			a, ldy := make([]int8, len(w.Data)), panels*PanelWidth+r.IntN(3)
			for i := range a {
				a[i] = int8(w.Data[i])
			}
			y := make([]int32, 5+rows*ldy+5)
			for i := range y {
				y[i] = guard
			}
			want := slices.Clone(y)
			for i := range rows {
				for j := range panels * PanelWidth {
					s := int32(0)
					for p := range k {
						s += int32(a[i*k+p]) * int32(panel[7+j/PanelWidth*k*PanelWidth+p/4*4*PanelWidth+j%PanelWidth*4+p%4])
					}
					want[5+i*ldy+j] = s
				}
			}
			PanelProductBytes(y[5:], ldy, a, k, rows, k/4, panels, panel[7:])
			if !slices.Equal(y, want) {
				t.Fatalf("%s, %d panels: products or what lies beside them differ", name, panels)
			}
		}
	}
}

func TestQuadFilters(t *testing.T) { eachVariant(t, testQuadFilters) }

func testQuadFilters(t *testing.T) {
	r := newRand()
	for _, k := range []int{1, 3, 4, 5, 8, 27, 132} {
		for _, m := range []int{1, 2, 3, 5, 7, 11, 12, 13, 25, 40} {
			n, quads, signed := 1+r.IntN(90), QuadsOf(k), r.IntN(2) == 0
			count := (n + PanelWidth - 1) / PanelWidth
			w, x := bytesOf(r, m*k, true), bytesOf(r, 4*quads*300+400, r.IntN(2) == 0)
			f := NewQuadFilters(m, k, func(i int, row []int8) {
				for j := range row {
					row[j] = int8(w.Data[i*k+j])
				}
			})
			off := make([]int32, 4*quads)
			for i := range off {
				off[i] = int32(r.IntN(1200))
			}
			panels := make([]byte, count*len(off)*PanelWidth)
			at := r.IntN(50)
			x.Data = x.Data[:at+int(slices.Max(off))+count*PanelWidth] // the last byte is the last that is read
			PanelsBytes(panels, count, x, NewOffsets(off), at)
			s := &ByteScale{Zero: r.IntN(256)}
			if signed {
				s.Zero -= 128
			}
			for range m {
				s.Add = append(s.Add, int32(r.IntN(1<<16)-1<<15))
				s.Scale = append(s.Scale, float32(math.Ldexp(r.Float64()-0.1, -r.IntN(20))))
			}
			ldy := n + r.IntN(5)
			sums, bytes := make([]int32, m*ldy+1), make([]byte, m*ldy+1)
			for i := range sums {
				sums[i], bytes[i] = guard, 33
			}
			wantSums, wantBytes := slices.Clone(sums), slices.Clone(bytes)
			for i := range m {
				for j := range n {
					v := int32(0)
					for p := range k {
						v += int32(w.at(i*k+p)) * int32(x.at(at+int(off[p])+j)+x.Unsigned())
					}
					wantSums[i*ldy+j] = v
					if !NarrowSums(math.Abs(float64(v)+float64(s.Add[i])), float64(s.Scale[i])) {
						t.Fatalf("%v by %v is not narrow", v, s.Scale[i])
					}
					z := []float32{float32((float64(v) + float64(s.Add[i])) * float64(s.Scale[i]))}
					QuantizeBytes(Bytes{wantBytes[i*ldy+j:][:1], signed}, z, 1, s.Zero)
				}
			}
			if f.Sums(sums, ldy, panels, n); !slices.Equal(sums, wantSums) {
				t.Fatalf("%d filters of %d, %d columns: sums or what lies beside them differ", m, k, n)
			}
			if f.Bytes(Bytes{bytes, signed}, ldy, panels, n, s); !slices.Equal(bytes, wantBytes) {
				t.Fatalf("%d filters of %d, %d columns: bytes or what lies beside them differ", m, k, n)
			}
		}
	}
}

func TestNarrowSums(t *testing.T) {
	for _, c := range []struct {
		most, scale float64
		want        bool
	}{
		{1 << 24, 1e-6, false}, // not of float32
		{1 << 24, float64(float32(1e-6)), true},
		{1<<24 + 1, float64(float32(1e-6)), false},
		{1<<24 + 1, 1.0 / (1 << 14), true},
		{1<<24 + 1, -1.0 / (1 << 14), true},
		{1<<24 + 1, 1.0 / (1 << 15), false},
		{1 << 30, 2, false}, // beyond 32 bits
		{1 << 32, 1.0 / (1 << 10), false},
		{0, math.Inf(1), false},
		{1, math.NaN(), false},
	} {
		if got := NarrowSums(c.most, c.scale); got != c.want {
			t.Errorf("sums of %v by %v: %v, expected %v", c.most, c.scale, got, c.want)
		}
	}
}

func TestQuadMatrix(t *testing.T) { eachVariant(t, testQuadMatrix) }

func testQuadMatrix(t *testing.T) {
	r := newRand()
	for _, k := range []int{1, 3, 4, 7, 64, 1030} {
		for _, m := range []int{1, 15, 16, 33} {
			for _, turned := range []bool{false, true} {
				w := bytesOf(r, m*k, r.IntN(2) == 0)
				rs, cs := k, 1
				if turned {
					rs, cs = 1, m
				}
				p, rows := PackQuads(w, m, k, rs, cs), 1+r.IntN(14)
				x := bytesOf(r, rows*k, r.IntN(2) == 0)
				size := 4 * QuadsOf(k)
				a := make([]int8, rows*size)
				for i := range rows {
					SignedBytes(a[i*size:(i+1)*size], Bytes{Data: x.Data[i*k : (i+1)*k], Signed: x.Signed})
				}
				sums := make([]int32, rows)
				SumBytes(sums, a, size, size/4)
				for i := range rows {
					want := 0
					for j := range k {
						want += x.at(i*k+j) - x.SignedLess()
					}
					if sums[i] != int32(want) {
						t.Fatalf("k %d: the sum of row %d is %d, expected %d", k, i, sums[i], want)
					}
				}
				y := make([]int32, rows*PanelWidth)
				for at := 0; at < m; at += PanelWidth {
					PanelProductBytes(y, PanelWidth, a, size, rows, size/4, 1, p.Panel(at/PanelWidth))
					for i := range rows {
						for j := range min(PanelWidth, m-at) {
							want, sum := 0, 0
							for c := range k {
								v := w.at((at+j)*rs+c*cs) + w.Unsigned()
								want += (x.at(i*k+c) - x.SignedLess()) * v
								sum += v
							}
							if got := y[i*PanelWidth+j]; got != int32(want) || p.Sum[at+j] != int32(sum) {
								t.Fatalf("k %d m %d: row %d column %d: %d and sum %d, expected %d and %d", k, m, i, at+j, got,
									p.Sum[at+j], want, sum)
							}
						}
					}
				}
			}
		}
	}
}

func TestAddInts(t *testing.T) { eachVariant(t, testAddInts) }

func testAddInts(t *testing.T) {
	for n := range 40 {
		y, x, want := make([]int32, n+1), make([]int32, n), make([]int32, n+1)
		y[n], want[n] = guard, guard
		for i := range x {
			x[i], y[i] = int32(1<<30-i*77), int32(1<<30+i*i)
			want[i] = x[i] + y[i] - 5
		}
		AddInts(y, x, -5)
		if !slices.Equal(y, want) {
			t.Fatalf("%d numbers: %v, expected %v", n, y, want)
		}
	}
}

func TestIntsOfFloats(t *testing.T) { eachVariant(t, testIntsOfFloats) }

func testIntsOfFloats(t *testing.T) {
	for n := range 40 {
		x, y := make([]float32, n), make([]int32, n+1)
		y[n] = guard
		for i := range x {
			x[i] = float32((i*7919)%(1<<24) - 1<<16*i)
		}
		IntsOfFloats(y, x)
		for i, v := range x {
			if float64(y[i]) != float64(v) {
				t.Fatalf("%d numbers: %v becomes %d", n, v, y[i])
			}
		}
		if y[n] != guard {
			t.Fatalf("%d numbers: more are written", n)
		}
	}
}

func TestColumnScale(t *testing.T) { eachVariant(t, testColumnScale) }

// testColumnScale compares with the steps that ColumnScale stands for.
func testColumnScale(t *testing.T) {
	r := newRand()
	inf := float32(math.Inf(1))
	for n := range 70 {
		for _, signed := range []bool{false, true} {
			zero := r.IntN(256)
			if signed {
				zero -= 128
			}
			x, add, factor := make([]int32, n), make([]int32, n), make([]float32, n)
			for i := range x {
				x[i], add[i], factor[i] = int32(r.Uint32())>>r.IntN(32), int32(r.Uint32())>>10, r.Float32()*0.01
			}
			unit := float32(1)
			if n%3 == 0 {
				unit = r.Float32()
			}
			if n%16 == 5 {
				factor[r.IntN(n)] = inf
			}
			want, z := make([]byte, n+1), make([]float32, n)
			got := make([]byte, n+1)
			for i, v := range x {
				z[i] = float32(v+add[i]-9) * factor[i]
			}
			QuantizeBytes(Bytes{want[:n], signed}, z, unit, zero)
			columns := NewColumnScale(append([]float32{inf, 1}, factor...), unit, zero)
			if !slices.Contains(factor, inf) {
				columns = NewColumnScale(append([]float32{2, 1}, factor...), unit, zero)
			}
			columns.Bytes(Bytes{got[:n], signed}, slices.Clone(x), add, -9, 2)
			if !slices.Equal(got, want) {
				t.Fatalf("%d numbers by %v over %v: %v, expected %v", n, factor, unit, got, want)
			}
		}
	}
}

func TestRowScale(t *testing.T) { eachVariant(t, testRowScale) }

// testRowScale compares with the steps that RowScale stands for, and looks beside the rows.
func testRowScale(t *testing.T) {
	r := newRand()
	for n := range 70 {
		rows, signed, exact := 1+r.IntN(5), r.IntN(2) == 0, r.IntN(2) == 0
		s := RowScale{Bias: make([]float64, 1), Scale: make([]float64, 1), Exact: exact, Zero: r.IntN(256)}
		if signed {
			s.Zero -= 128
		}
		if r.IntN(3) > 0 {
			s.Bias, s.Scale = make([]float64, rows), make([]float64, rows)
		}
		for i := range s.Bias {
			s.Bias[i] = float64(r.IntN(1<<20) - 1<<19)
			s.Scale[i] = float64(float32(math.Ldexp(r.Float64()-0.2, -r.IntN(24))))
			if n%8 == 3 {
				s.Scale[i] = 0.5 // ties
			}
		}
		if n%16 == 5 {
			s.Scale[0] = math.Inf(1)
		}
		ldx, ldy := n+r.IntN(20), n+r.IntN(20)
		x, f := make([]int32, rows*ldx), make([]float32, rows*ldx)
		for i := range x {
			x[i] = int32(r.Uint32()) >> (8 + r.IntN(24))
			f[i] = float32(x[i])
			if !exact {
				x[i] = int32(r.Uint32()) >> r.IntN(32)
			}
		}
		for _, floats := range []bool{false, true} {
			got := bytes.Repeat([]byte{77}, rows*ldy+1)
			want := slices.Clone(got)
			for i := range rows {
				z := make([]float32, n)
				for j := range z {
					v := float64(x[i*ldx+j])
					if floats {
						v = float64(f[i*ldx+j])
					}
					z[j] = float32((v + s.Bias[min(i, len(s.Bias)-1)]) * s.Scale[min(i, len(s.Scale)-1)])
				}
				QuantizeBytes(Bytes{want[i*ldy : i*ldy+n], signed}, z, 1, s.Zero)
			}
			if floats {
				s.Floats(Bytes{got, signed}, ldy, slices.Clone(f), ldx, rows, n)
			} else {
				s.Ints(Bytes{got, signed}, ldy, slices.Clone(x), ldx, rows, n)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows of %d numbers, exact %v, floats %v: %v, expected %v", rows, n, exact, floats, got, want)
			}
		}
	}
}

func TestCopyByteRows(t *testing.T) { eachVariant(t, testCopyByteRows) }

func testCopyByteRows(t *testing.T) {
	r := newRand()
	for range 2000 {
		n, rows, step, ldx := r.IntN(200), r.IntN(4), 1+r.IntN(3), 1+r.IntN(400)
		ldy, from := n+r.IntN(5), r.IntN(n+1)
		to := from + r.IntN(n-from+1)
		at := r.IntN(9) - from*step
		x, got := make([]byte, max(0, rows-1)*ldx+at+max(1, to-1)*step+1+8), bytes.Repeat([]byte{99}, rows*ldy+1)
		for i := range x {
			x[i] = byte(r.Uint32())
		}
		if rows > 0 && from < to { // the last byte is the last that is read
			x = x[: (rows-1)*ldx+at+(to-1)*step+1 : (rows-1)*ldx+at+(to-1)*step+1]
		}
		want := slices.Clone(got)
		for i := range rows {
			for j := range n {
				if want[i*ldy+j] = 7; from <= j && j < to {
					want[i*ldy+j] = x[at+i*ldx+j*step]
				}
			}
		}
		CopyByteRows(got, ldy, n, x, at, ldx, step, rows, from, to, 7)
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows of %d, %d to %d by %d: %v, expected %v", rows, n, from, to, step, got, want)
		}
	}
}

func TestTableBytes(t *testing.T) { eachVariant(t, testTableBytes) }

func testTableBytes(t *testing.T) {
	r := newRand()
	var table [256]byte
	for i := range table {
		table[i] = byte(r.Uint32())
	}
	for n := range 200 {
		x, y := bytesOf(r, n, false).Data[:n], make([]byte, n+1)
		y[n] = 55
		TableBytes(y, x, &table)
		for i, v := range x {
			if y[i] != table[v] {
				t.Fatalf("%d bytes: %d becomes %d, expected %d", n, v, y[i], table[v])
			}
		}
		if y[n] != 55 {
			t.Fatalf("%d bytes: more are written", n)
		}
	}
}

func TestQuantizeMiddles(t *testing.T) { eachVariant(t, testQuantizeMiddles) }

// testQuantizeMiddles compares quotients at and beside the middle between two integers with divisions.
func testQuantizeMiddles(t *testing.T) {
	r := newRand()
	for range 200 {
		scale := float32(math.Ldexp(1+r.Float64(), r.IntN(100)-50))
		var x []float32
		for k := range 1200 {
			v := float32((float64(k) - 599.5) * float64(scale))
			for range 3 {
				v = math.Nextafter32(v, float32(math.Inf(-1)))
			}
			for range 7 {
				x = append(x, v)
				v = math.Nextafter32(v, float32(math.Inf(1)))
			}
		}
		zero, got := r.IntN(256), make([]byte, len(x))
		y := Bytes{Data: got}
		of := y.rangeOf(zero)
		QuantizeBytes(y, x, scale, zero)
		for i, v := range x {
			if want := of.of(v / scale); got[i] != want {
				t.Fatalf("%v over %v: %d, expected %d", v, scale, got[i], want)
			}
		}
		// Sums that are so near need a unit near one.
		unit := 1 + float32(r.IntN(1<<10))/(1<<20)
		factor, sums, add := make([]float32, len(x)), make([]int32, len(x)), make([]int32, len(x))
		for i := range x {
			sums[i] = int32(r.IntN(1<<20) - 1<<19)
			factor[i] = (float32(r.IntN(500)-250) + 0.5) * unit / float32(sums[i])
			for range r.IntN(3) {
				factor[i] = math.Nextafter32(factor[i], 0)
			}
			if sums[i] == 0 {
				factor[i] = 1
			}
		}
		columns := NewColumnScale(factor, unit, zero)
		columns.Bytes(y, slices.Clone(sums), add, 0, 0)
		for i, v := range sums {
			if want := of.of(float32(float32(v)*factor[i]) / unit); got[i] != want {
				t.Fatalf("%v by %v over %v: %d, expected %d", v, factor[i], unit, got[i], want)
			}
		}
	}
}
