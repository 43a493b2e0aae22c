package kernel

import (
	"fmt"
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
			panel := make([]byte, 7+k*PanelWidth+9)
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
			a, ldy := make([]int8, len(w.Data)), PanelWidth+r.IntN(3)
			for i := range a {
				a[i] = int8(w.Data[i])
			}
			y := make([]int32, 5+rows*ldy+5)
			for i := range y {
				y[i] = guard
			}
			want := slices.Clone(y)
			for i := range rows {
				for j := range PanelWidth {
					s := 0
					for p, o := range off {
						s += int(a[i*k+p]) * (x.at(at+int(o)+j) + x.Unsigned())
					}
					want[5+i*ldy+j] = int32(s)
				}
			}
			PanelProductBytes(y[5:], ldy, a, k, rows, k/4, panel[7:])
			if !slices.Equal(y, want) {
				t.Fatalf("%s: products or what lies beside them differ", name)
			}
		}
	}
}
