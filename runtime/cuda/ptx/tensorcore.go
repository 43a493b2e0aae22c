package ptx

import (
	"fmt"
	"strings"
)

// Products of matrices by the tensor cores. A warp holds each matrix in the registers of its threads ("fragments"). With
// g = lane/4 and t = lane%4, of matrices of 16 × k and k × 8:
//
//	                 a                                            b                          c and d
//	TF32, k = 8      (g,t) (g+8,t) (g,t+4) (g+8,t+4)              (t,g) (t+4,g)              (g,2t) (g,2t+1) (g+8,2t) (g+8,2t+1)
//	BF16, F16, k=16  (g,2t‥) (g+8,2t‥) (g,2t+8‥) (g+8,2t+8‥)      (2t‥,g) (2t+8‥,g)          as above
//	bytes, k = 32    (g,4t‥) (g+8,4t‥) (g,4t+16‥) (g+8,4t+16‥)    (4t‥,g) (4t+16‥,g)         as above
//
// "2t‥" stands for the two elements 2t and 2t+1 in one register, the first in its lower half; "4t‥" for four. Bits of a TF32 operand are those
// of a float32, of which the lower 13 do not count (see F32.TF32).

func (k *Kernel) mma(shape, types string, d []value, a [4]U32, b [2]U32) {
	list := func(n int, at func(i int) value) string {
		s := make([]string, n)
		for i := range s {
			s[i] = at(i).String()
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	sums := list(4, func(i int) value { return d[i] })
	k.emit("mma.sync.aligned."+shape+".row.col."+types, sums, list(4, func(i int) value { return a[i].v }),
		list(2, func(i int) value { return b[i].v }), sums)
}

// floats returns the registers of a tile of sums.
func floats(d [4]F32) []value { return []value{d[0].v, d[1].v, d[2].v, d[3].v} }

// MMATF32 computes d = a·b + d for matrices of 16 × 8 and 8 × 8 numbers of type TF32. The numbers of d are of VarF32.
func (k *Kernel) MMATF32(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k8", "f32.tf32.tf32.f32", floats(d), a, b)
}

// MMABF16 computes d = a·b + d for matrices of 16 × 16 and 16 × 8 numbers of type bfloat16. The numbers of d are of VarF32.
func (k *Kernel) MMABF16(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k16", "f32.bf16.bf16.f32", floats(d), a, b)
}

// MMAF16 computes d = a·b + d for matrices of 16 × 16 and 16 × 8 numbers of type float16. The numbers of d are of VarF32.
func (k *Kernel) MMAF16(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k16", "f32.f16.f16.f32", floats(d), a, b)
}

// MMABytes computes d = a·b + d for matrices of 16 × 32 and 32 × 8 integers of 8 bits, with signs or without. Sums are of 32
// bits and wrap around. The numbers of d are of VarU32.
func (k *Kernel) MMABytes(signedA, signedB bool, d [4]U32, a [4]U32, b [2]U32) {
	name := map[bool]string{false: "u8", true: "s8"}
	k.mma("m16n8k32", "s32."+name[signedA]+"."+name[signedB]+".s32", []value{d[0].v, d[1].v, d[2].v, d[3].v}, a, b)
}

// LoadMatrix reads n (1, 2 or 4) matrices of 8 × 8 elements of 16 bits from shared memory. Threads 8i to 8i+7 hold the
// addresses of the rows of matrix i, of 16 bytes each and aligned to them. Thread t gets of each matrix the elements 2(t%4)
// and 2(t%4)+1 of row t/4; of the transposed matrix if transpose is set. Rows of float32 are read as pairs of elements: thread
// t gets element t%4 of row t/4.
func (a Shared) LoadMatrix(n int, transpose bool) []U32 { return a.LoadMatrixAt(0, n, transpose) }

// LoadMatrixAt is LoadMatrix of the rows offset bytes on.
func (a Shared) LoadMatrixAt(offset, n int, transpose bool) []U32 {
	k := a.v.k
	out, text := make([]U32, n), make([]string, n)
	for i := range out {
		out[i] = U32{k.register(b32Class)}
		text[i] = out[i].v.String()
	}
	op := fmt.Sprintf("ldmatrix.sync.aligned.m8n8.x%d", n)
	if transpose {
		op += ".trans"
	}
	k.emit(op+".shared.b16", "{"+strings.Join(text, ", ")+"}", at(a.v, offset))
	return out
}

// CopyAsync begins to copy bytes (4, 8 or 16) from global memory to shared memory. The addresses must be aligned to them.
// Of 16 bytes, the first-level cache is passed by.
func (a Shared) CopyAsync(from Addr, bytes int) {
	a.v.k.emit("cp.async."+cacheOf(bytes)+".shared.global", at(a.v, 0), at(from.v, 0), bytes)
}

// CopyAsyncPart is CopyAsync of the first present bytes; the others are set to 0. from must be an address that may be read
// even if present is 0.
func (a Shared) CopyAsyncPart(from Addr, bytes int, present U32) {
	a.CopyAsyncPartAt(0, from, bytes, present)
}

// CopyAsyncPartAt is CopyAsyncPart to the place offset bytes on.
func (a Shared) CopyAsyncPartAt(offset int, from Addr, bytes int, present U32) {
	a.v.k.emit("cp.async."+cacheOf(bytes)+".shared.global", at(a.v, offset), at(from.v, 0), bytes, present.v)
}

func cacheOf(bytes int) string {
	if bytes == 16 {
		return "cg"
	}
	return "ca"
}

// CommitCopies makes a group of the copies that this thread has begun since the last group.
func (k *Kernel) CommitCopies() { k.emit("cp.async.commit_group") }

// WaitCopies waits until at most pending of the groups of this thread are not done. Other threads see what was copied after
// a Barrier.
func (k *Kernel) WaitCopies(pending int) { k.emit("cp.async.wait_group", pending) }

// PackBF16 rounds both to bfloat16: low is the lower half of the result.
func PackBF16(low, high F32) U32 {
	return U32{kernel(low.v, high.v).compute(b32Class, "cvt.rn.bf16x2.f32", high.v, low.v)}
}
