package emu_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

var one = driver.Dim{X: 1, Y: 1, Z: 1}

// TestProducts computes 16 × 8 products from fragments that are read from memory number by number.
func TestProducts(t *testing.T) {
	type form struct {
		name string
		k    int
		per  int // numbers in a register
		mma  func(k *ptx.Kernel, d [4]ptx.F32, a [4]ptx.U32, b [2]ptx.U32)
		bits func(x float32) uint32
	}
	for _, f := range []form{
		{"tf32", 8, 1, (*ptx.Kernel).MMATF32, math.Float32bits},
		{"bf16", 16, 2, (*ptx.Kernel).MMABF16, func(x float32) uint32 { return math.Float32bits(x) >> 16 }},
		{"f16", 16, 2, (*ptx.Kernel).MMAF16, func(x float32) uint32 {
			return math.Float32bits(x)>>31<<15 | (math.Float32bits(x)&0x7fffffff-112<<23)>>13&0x7fff
		}},
	} {
		a, b, c := make([]float32, 16*f.k), make([]float32, f.k*8), make([]float32, 16*8)
		var ab, bb []byte
		put := func(to []byte, x float32) []byte {
			if f.per == 1 {
				return binary.LittleEndian.AppendUint32(to, f.bits(x))
			}
			return binary.LittleEndian.AppendUint16(to, uint16(f.bits(x)))
		}
		for i := range a { // small integers, without 0: their products and sums are exact
			a[i] = float32(i*7%15) - 7.5
			ab = put(ab, a[i])
		}
		for i := range b { // by columns
			b[i] = float32(i*5%11) - 5.5
			bb = put(bb, b[i])
		}
		for i := range c {
			c[i] = float32(i)
		}
		bench := kerneltest.New(t)
		code := kernel.New("product_"+f.name, 32, func(k *ptx.Kernel) {
			pa, pb, pc := k.PtrParam("a"), k.PtrParam("b"), k.PtrParam("c")
			g, u := k.Lane().Shr(ptx.U(2)), k.Lane().And(ptx.U(3))
			word := func(p ptx.Addr, row, column ptx.U32) ptx.U32 { // columns in words
				return p.Index(row.MAD(ptx.U(f.k/f.per), column), 4).LoadU32(0)
			}
			high, far := g.Add(ptx.U(8)), u.Add(ptx.U(4))
			fa := [4]ptx.U32{word(pa, g, u), word(pa, high, u), word(pa, g, far), word(pa, high, far)}
			fb := [2]ptx.U32{word(pb, g, u), word(pb, g, far)}
			at := pc.Index(g.MAD(ptx.U(8), u.Shl(ptx.U(1))), 4)
			d := [4]ptx.F32{k.VarF32(at.LoadF32(0)), k.VarF32(at.LoadF32(4)), k.VarF32(at.LoadF32(256)), k.VarF32(at.LoadF32(260))}
			f.mma(k, d, fa, fb)
			at.StoreF32s(0, d[0], d[1])
			at.StoreF32s(256, d[2], d[3])
		})
		out := bench.In(c)
		bench.Run(kernel.NewCall(code, one, kernel.Ptr(bench.In(ab)), kernel.Ptr(bench.In(bb)), kernel.Ptr(out)))
		for i, got := range bench.Float32s(out) {
			want := c[i]
			for j := range f.k {
				want += a[i/8*f.k+j] * b[i%8*f.k+j]
			}
			if got != want {
				t.Errorf("%s: element %d,%d is %v, expected %v", f.name, i/8, i%8, got, want)
			}
		}
	}
}

// TestLoadMatrix reads matrices of 8 × 8 by each form, after an asynchronous copy to shared memory.
func TestLoadMatrix(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		for _, transposed := range []bool{false, true} {
			t.Run(fmt.Sprint(n, transposed), func(t *testing.T) {
				data := make([]uint16, 4*64)
				for i := range data {
					data[i] = uint16(i)
				}
				code := kernel.New("load_matrix", 32, func(k *ptx.Kernel) {
					x, y := k.PtrParam("x"), k.PtrParam("y")
					s := k.SharedArray(512, 16)
					s.Index(k.Lane(), 16).CopyAsync(x.Index(k.Lane(), 16), 16)
					k.CommitCopies()
					k.WaitCopies(0)
					k.Barrier()
					for i, r := range s.Index(k.Lane(), 16).LoadMatrix(n, transposed) {
						y.Index(k.Lane(), 4).StoreU32(128*i, r)
					}
				})
				b := kerneltest.New(t)
				out := b.Out(128 * n)
				b.Run(kernel.NewCall(code, one, kernel.Ptr(b.In(data)), kernel.Ptr(out)))
				for i, got := range b.Uint16s(out) {
					matrix, row, column := i/64, i%64/8, i%8
					want := 64*matrix + 8*row + column
					if transposed {
						want = 64*matrix + 8*column + row
					}
					if int(got) != want {
						t.Fatalf("matrix %d, row %d, column %d: found %d, expected %d", matrix, row, column, got, want)
					}
				}
			})
		}
	}
}

// TestCopyGroups copies two groups, one of them in part, and reads each after its wait.
func TestCopyGroups(t *testing.T) {
	code := kernel.New("copy_groups", 64, func(k *ptx.Kernel) {
		x, y, n := k.PtrParam("x"), k.PtrParam("y"), k.U32Param("n")
		s, u := k.SharedArray(64*4, 16), k.SharedArray(64*4, 16)
		i := k.ThreadX()
		s.Index(i, 4).CopyAsync(x.Index(i, 4), 4)
		k.CommitCopies()
		present := i.Lt(n).SelectU32(ptx.U(4), ptx.U(0))
		u.Index(i, 4).CopyAsyncPart(i.Lt(n).SelectAddr(x.Index(i, 4).Add(ptx.L(256)), x), 4, present)
		k.CommitCopies()
		k.WaitCopies(1)
		k.Barrier()
		other := i.Xor(ptx.U(63))
		first := s.Index(other, 4).LoadF32(0)
		k.WaitCopies(0)
		k.Barrier()
		y.Index(i, 4).StoreF32(0, first.Add(u.Index(other, 4).LoadF32(0)))
	})
	data := make([]float32, 64+40)
	for i := range data {
		data[i] = float32(i + 1)
	}
	b := kerneltest.New(t)
	out := b.Out(256)
	b.Run(kernel.NewCall(code, one, kernel.Ptr(b.In(data)), kernel.Ptr(out), kernel.U32(40)))
	for i, got := range b.Float32s(out) {
		want := data[63-i]
		if 63-i < 40 {
			want += data[64+63-i]
		}
		if got != want {
			t.Errorf("element %d is %v, expected %v", i, got, want)
		}
	}
}
