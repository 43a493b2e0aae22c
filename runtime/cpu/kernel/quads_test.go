package kernel

import (
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

func TestScaleBytes(t *testing.T) { eachVariant(t, testScaleBytes) }

// testScaleBytes compares with the steps that ScaleBytes and Requantize stand for.
func testScaleBytes(t *testing.T) {
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
			scale, unit := math.Ldexp(r.Float64(), -r.IntN(24)), float32(1)
			if n%3 == 0 {
				scale, unit = 0.5, r.Float32()
			}
			if n%16 == 5 {
				factor[r.IntN(n)], scale = inf, math.Inf(1)
			}
			want, z := make([]byte, n+1), make([]float32, n)
			got := make([]byte, n+1)
			for i, v := range x {
				z[i] = float32((float64(v) + 3) * scale)
			}
			QuantizeBytes(Bytes{want[:n], signed}, z, 1, zero)
			ScaleBytes(Bytes{got[:n], signed}, slices.Clone(x), 3, scale, zero)
			if !slices.Equal(got, want) {
				t.Fatalf("%d numbers by %v: %v, expected %v", n, scale, got, want)
			}
			for i, v := range x {
				z[i] = float32(v+add[i]-9) * factor[i]
			}
			QuantizeBytes(Bytes{want[:n], signed}, z, unit, zero)
			Requantize(Bytes{got[:n], signed}, slices.Clone(x), add, -9, factor, unit, zero)
			if !slices.Equal(got, want) {
				t.Fatalf("%d numbers by %v over %v: %v, expected %v", n, factor, unit, got, want)
			}
		}
	}
}
