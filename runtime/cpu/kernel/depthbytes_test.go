package kernel

import (
	"bytes"
	"slices"
	"testing"
)

func TestDepthBytes(t *testing.T) { eachVariant(t, testDepthBytes) }

// testDepthBytes compares sums with those of single weights, and looks beside the outputs.
func testDepthBytes(t *testing.T) {
	r := newRand()
	for range 300 {
		kh, row, channels, signed := 1+r.IntN(5), 1+r.IntN(2), 1+r.IntN(3), r.IntN(2) == 0
		d := DepthBytes{Rows: 1 + r.IntN(4), N: 1 + r.IntN(40), Stride: 1 + r.IntN(3), Dilation: 1 + r.IntN(4)}
		pitch := (d.N-1)*d.Stride + 4*row*d.Dilation + r.IntN(5)
		for i := range kh * row {
			d.Off = append(d.Off, int32(i/row*pitch+i%row*4*d.Dilation))
		}
		d.Ldx = pitch * (1 + r.IntN(2))
		d.PlaneX = d.Ldx*d.Rows + kh*pitch
		x := bytesOf(r, channels*d.PlaneX+DepthSlack, r.IntN(2) == 0)
		s := &ByteScale{Zero: r.IntN(256)}
		if signed {
			s.Zero -= 128
		}
		taps, weights := len(d.Off), bytesOf(r, channels*len(d.Off)*4, true)
		w := make([]int32, channels*taps)
		for i := range w {
			for h := range 4 {
				w[i] |= int32(weights.Data[4*i+h]) << (8 * h)
			}
		}
		for range channels {
			s.Add, s.Scale = append(s.Add, int32(r.IntN(1<<16)-1<<15)), append(s.Scale, (r.Float32()-0.2)/1024)
		}
		size := channels * d.Rows * d.N
		got, want := bytes.Repeat([]byte{5}, size+1), bytes.Repeat([]byte{5}, size+1)
		for i := range size {
			c, j := i/(d.Rows*d.N), i%d.N
			sum := s.Add[c]
			for k := range 4 * taps {
				at := c*d.PlaneX + i/d.N%d.Rows*d.Ldx + j*d.Stride + int(d.Off[k/4]) + k%4*d.Dilation
				sum += int32(weights.at(4*c*taps+k)) * int32(x.at(at)+x.Unsigned())
			}
			QuantizeBytes(Bytes{want[i : i+1], signed}, []float32{float32(sum) * s.Scale[c]}, 1, s.Zero)
		}
		d.Run(Bytes{got, signed}, x, w, s, channels)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v, %d channels: %v, expected %v", d, channels, got, want)
		}
	}
}

func TestCopyBytePlanes(t *testing.T) { eachVariant(t, testCopyBytePlanes) }

func testCopyBytePlanes(t *testing.T) {
	r := newRand()
	for range 300 {
		planes, rows, n := r.IntN(4), r.IntN(4), r.IntN(140)
		ldx, ldy := n+r.IntN(9), n+r.IntN(9)
		planeX, planeY := rows*ldx+r.IntN(9), rows*ldy+r.IntN(9)
		x, got := bytesOf(r, planes*planeX, false).Data, bytes.Repeat([]byte{7}, planes*planeY+1)
		want := slices.Clone(got)
		for p := range planes {
			for i := range rows {
				copy(want[p*planeY+i*ldy:][:n], x[p*planeX+i*ldx:])
			}
		}
		CopyBytePlanes(got, planeY, ldy, x, planeX, ldx, planes, rows, n)
		if !slices.Equal(got, want) {
			t.Fatalf("%d planes of %d rows of %d: %v, expected %v", planes, rows, n, got, want)
		}
	}
}

func TestLargestTaps(t *testing.T) { eachVariant(t, testLargestTaps) }

func testLargestTaps(t *testing.T) {
	r := newRand()
	for n := range 150 {
		x, at := bytesOf(r, 400, r.IntN(2) == 0), r.IntN(20)
		off := make([]int32, 1+r.IntN(9))
		for i := range off {
			off[i] = int32(r.IntN(200))
		}
		x.Data = x.Data[:at+int(slices.Max(off))+n] // the last byte is the last that is read
		got := bytes.Repeat([]byte{7}, n+1)
		LargestTaps(got[:n], x, NewOffsets(off), at)
		for i, v := range got[:n] {
			want := -1000
			for _, o := range off {
				want = max(want, x.at(at+int(o)+i))
			}
			if (Bytes{[]byte{v}, x.Signed}).at(0) != want {
				t.Fatalf("%d bytes: %d at %d, expected %d", n, v, i, want)
			}
		}
		if got[n] != 7 {
			t.Fatalf("%d bytes: more are written", n)
		}
	}
}
