package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bytesOf are random bytes in a slice that is not aligned, extremes among them.
func bytesOf(r *rand.Rand, n int, signed bool) Bytes {
	b := make([]byte, n+3)[3:]
	for i := range b {
		b[i] = [...]byte{0, 127, 128, 255, byte(r.IntN(256)), byte(r.IntN(256))}[r.IntN(6)]
	}
	return Bytes{b, signed}
}

// at is what byte i stands for.
func (b Bytes) at(i int) int {
	if b.Signed {
		return int(int8(b.Data[i]))
	}
	return int(b.Data[i])
}

// zeroOf is a zero point of the type.
func (b Bytes) zeroOf(r *rand.Rand) int {
	if b.Signed {
		return r.IntN(256) - 128
	}
	return r.IntN(256)
}

func TestInt16(t *testing.T) { eachVariant(t, testInt16) }

func testInt16(t *testing.T) {
	r := newRand()
	for _, m := range sizes {
		for _, k := range sizes[1:] {
			for _, rows := range []int{0, 1, 2, 5, 6, 7, 13} {
				what := fmt.Sprintf("m %d k %d rows %d", m, k, rows)
				w, x := bytesOf(r, m*k, r.IntN(2) == 0), bytesOf(r, rows*k, r.IntN(2) == 0)
				zw, zx := []int{w.zeroOf(r)}, x.zeroOf(r)
				if r.IntN(2) == 0 {
					for range m - 1 {
						zw = append(zw, w.zeroOf(r))
					}
				}
				p := PackInt16(w, zw, m, k, k, 1)
				pairs := PairsOf(k)
				a := make([]int16, rows*2*pairs+1)[1:]
				for i := range rows {
					WidenBytes(a[i*2*pairs:], Bytes{x.Data[i*k : (i+1)*k], x.Signed}, zx)
				}
				ldy := m + r.IntN(3)
				all := make([]int32, 5+rows*ldy+5)
				for i := range all {
					all[i] = guard
				}
				want := slices.Clone(all)
				for i := range rows {
					for j := range m {
						s := 0
						for p := range k {
							s += (x.at(i*k+p) - zx) * (w.at(j*k+p) - zw[j%len(zw)])
						}
						want[5+i*ldy+j] = int32(s)
					}
				}
				for j := 0; j < m && rows > 0; j += PanelWidth {
					PanelProductInt16(all[5+j:len(all)-5], ldy, a, 2*pairs, rows, pairs, p.Panel(j/PanelWidth),
						min(PanelWidth, m-j))
				}
				if !slices.Equal(all, want) {
					t.Fatalf("%s: products or what lies beside them differ", what)
				}
			}
		}
	}
}

func TestPanelInt16(t *testing.T) { eachVariant(t, testPanelInt16) }

func testPanelInt16(t *testing.T) {
	r := newRand()
	for _, k := range []int{0, 2, 4, 6, 18, 130} {
		for _, signed := range []bool{false, true} {
			x := bytesOf(r, 400, signed)
			zero, at := x.zeroOf(r), r.IntN(50)
			off := make([]int32, k)
			for i := range off {
				off[i] = int32(r.IntN(400 - at - PanelWidth + 1))
			}
			all := make([]int16, 7+k*PanelWidth+9)
			for i := range all {
				all[i] = guard
			}
			want := slices.Clone(all)
			for i, o := range off {
				for j := range PanelWidth {
					want[7+i/2*2*PanelWidth+2*j+i%2] = int16(x.at(at+int(o)+j) - zero)
				}
			}
			PanelInt16(all[7:], x, zero, NewOffsets(off), at)
			if !slices.Equal(all, want) {
				t.Fatalf("%d rows: numbers or what lies beside them differ", k)
			}
		}
	}
}

// Integers, so every variant gives the very bits of the plain evaluation.
func TestQuantizeBytes(t *testing.T) { eachVariant(t, testQuantizeBytes) }

func testQuantizeBytes(t *testing.T) {
	r := newRand()
	for n := range 140 {
		for _, signed := range []bool{false, true} {
			x := random(r, n+1)[1:]
			for i := range x {
				x[i] *= [...]float32{1, 100, 1e4, 1e30, 1e-40}[r.IntN(5)]
				if k := r.IntN(40); k < 3 {
					x[i] = [...]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[k]
				} else if k < 12 {
					x[i] = float32(r.IntN(20)) / 8 // ties
				}
			}
			scale := [...]float32{0.25, 0.013, 1e-39, 3e38, 0, float32(math.Inf(1))}[r.IntN(6)]
			all := bytesOf(r, n+10, signed)
			zero := all.zeroOf(r)
			want := slices.Clone(all.Data)
			least, most := 0.0, 255.0
			if signed {
				least, most = -128, 127
			}
			for i, v := range x {
				q := min(max(math.RoundToEven(float64(v/scale))+float64(zero), least), most)
				if q != q {
					q = 0
				}
				want[5+i] = byte(int(q))
			}
			QuantizeBytes(Bytes{all.Data[5 : 5+n], signed}, x, scale, zero)
			if !slices.Equal(all.Data, want) {
				t.Fatalf("n %d scale %g zero %d: %v, expected %v for %v", n, scale, zero, all.Data, want, x)
			}

			b := bytesOf(r, n, signed)
			outer, y := guarded(n)
			DequantizeBytes(y, b, scale, zero)
			checkGuards(t, "dequantize", outer)
			for i := range y {
				if w := float32(float64(b.at(i)-zero) * float64(scale)); math.Float32bits(y[i]) != math.Float32bits(
					w) && w == w {
					t.Fatalf("dequantize: %g, expected %g", y[i], w)
				}
			}
		}
	}
}

func TestScaleInts(t *testing.T) { eachVariant(t, testScaleInts) }

func testScaleInts(t *testing.T) {
	r := newRand()
	for n := range 40 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(r.Uint32()) >> r.IntN(32)
		}
		outer, y := guarded(n)
		FloatsOfInts(y, x)
		checkGuards(t, "floats of ints", outer)
		for i, v := range x {
			if y[i] != float32(v) {
				t.Fatalf("%d: %g", v, y[i])
			}
		}
		bias, scale := float64(int32(r.Uint32())), float64(r.Float32())*1e-3
		ScaleInts(y, x, bias, scale)
		checkGuards(t, "scale ints", outer)
		for i, v := range x {
			if want := float32((float64(v) + bias) * scale); y[i] != want {
				t.Fatalf("%d: %g, expected %g", v, y[i], want)
			}
		}
	}
}

func TestExtremes(t *testing.T) { eachVariant(t, testExtremes) }

func testExtremes(t *testing.T) {
	r := newRand()
	for n := range 70 {
		x := random(r, n)
		if n > 40 {
			x[r.IntN(n)] = float32(math.Inf(1 - 2*r.IntN(2)))
		}
		wantLo, wantHi := float32(math.Inf(1)), float32(math.Inf(-1))
		for _, v := range x {
			wantLo, wantHi = min(wantLo, v), max(wantHi, v)
		}
		if lo, hi := Extremes(x); lo != wantLo || hi != wantHi {
			t.Fatalf("n %d: %g and %g, expected %g and %g", n, lo, hi, wantLo, wantHi)
		}
		if n > 0 {
			x[r.IntN(n)] = float32(math.NaN())
			if lo, hi := Extremes(x); lo == lo || hi == hi {
				t.Fatalf("n %d: %g and %g, expected NaN", n, lo, hi)
			}
		}
	}
}

func BenchmarkInt16(b *testing.B) {
	const m, k, rows = 256, 256, 96
	w, x := bytesOf(newRand(), m*k, true), make([]int16, rows*k)
	p := PackInt16(w, []int{0}, m, k, k, 1)
	y := make([]int32, rows*m)
	for b.Loop() {
		for j := 0; j < m; j += PanelWidth {
			PanelProductInt16(y[j:], m, x, k, rows, k/2, p.Panel(j/PanelWidth), PanelWidth)
		}
	}
	b.ReportMetric(2*m*k*rows*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkQuantizeBytes(b *testing.B) {
	x, y := random(newRand(), 1<<14), make([]byte, 1<<14)
	b.SetBytes(4 << 14)
	for b.Loop() {
		QuantizeBytes(Bytes{y, true}, x, 0.01, 3)
	}
}
