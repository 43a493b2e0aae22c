package ptx_test

import (
	"flag"
	"os"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

var update = flag.Bool("update", false, "write the files that are expected")

// TestText checks the text of a kernel that uses something of each kind.
func TestText(t *testing.T) {
	m := ptx.NewModule()
	k := m.Kernel("sum_rows")
	k.Threads = 128
	x, y, n := k.PtrParam("x"), k.PtrParam("y"), k.U32Param("n")
	part := k.SharedArray(16, 16)
	row := x.Index64(k.BlockX().MulWide(n), 4)
	sum := k.VarF32(ptx.F(0))
	k.Comment("each thread sums up every 128th number")
	k.For(k.ThreadX(), n, ptx.U(128), func(i ptx.U32) {
		sum.Set(sum.Add(row.Index(i, 4).LoadF32(0)))
	})
	for by := 16; by > 0; by /= 2 {
		sum.Set(sum.Add(sum.ShuffleXor(ptx.U(by))))
	}
	warp := k.ThreadX().Shr(ptx.U(5))
	k.Guard(k.Lane().Eq(ptx.U(0)), func() { part.Index(warp, 4).StoreF32(0, sum) })
	k.Barrier()
	k.If(k.ThreadX().Eq(ptx.U(0)), func() {
		all := part.LoadF32s(0, 4)
		y.Index(k.BlockX(), 4).StoreF32(0, all[0].Add(all[1]).Add(all[2].Add(all[3])))
	})
	want, err := os.ReadFile("testdata/sum_rows.ptx")
	if *update {
		err = os.WriteFile("testdata/sum_rows.ptx", []byte(m.Text()), 0o666)
		want = []byte(m.Text())
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != m.Text() {
		t.Errorf("found\n%s\nexpected\n%s", m.Text(), want)
	}
}
