package ptx

import (
	"fmt"
	"strings"
)

// Matrix products on tensor cores. A warp has each matrix in the registers of its threads ("fragments"). For
// matrices of 16 × k and k × 8, with g = lane/4 and t = lane%4:
//
//	                 a                                            b                          c and d
//	TF32, k = 8      (g,t) (g+8,t) (g,t+4) (g+8,t+4)              (t,g) (t+4,g)              (g,2t) (g,2t+1) (g+8,2t) (g+8,2t+1)
//	BF16, F16, k=16  (g,2t‥) (g+8,2t‥) (g,2t+8‥) (g+8,2t+8‥)      (2t‥,g) (2t+8‥,g)          as above
//	bytes, k = 32    (g,4t‥) (g+8,4t‥) (g,4t+16‥) (g+8,4t+16‥)    (4t‥,g) (4t+16‥,g)         as above
//
// "2t‥" stands for the two elements 2t and 2t+1 in one register, the first in its lower half; "4t‥" for four. A
// TF32 operand has the bits of a float32, whose lower 13 are ignored (see F32.TF32).

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

// MMATF32 computes d = a·b + d for 16 × 8 and 8 × 8 matrices of TF32. The numbers of d must come from VarF32.
func (k *Kernel) MMATF32(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k8", "f32.tf32.tf32.f32", floats(d), a, b)
}

// MMABF16 computes d = a·b + d for 16 × 16 and 16 × 8 matrices of bfloat16. The numbers of d must come from
// VarF32.
func (k *Kernel) MMABF16(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k16", "f32.bf16.bf16.f32", floats(d), a, b)
}

// MMAF16 computes d = a·b + d for 16 × 16 and 16 × 8 matrices of float16. The numbers of d must come from VarF32.
func (k *Kernel) MMAF16(d [4]F32, a [4]U32, b [2]U32) {
	k.mma("m16n8k16", "f32.f16.f16.f32", floats(d), a, b)
}

// MMABytes computes d = a·b + d for 16 × 32 and 32 × 8 matrices of 8-bit integers, signed or unsigned. Sums are
// 32 bits wide and wrap around. The numbers of d must come from VarU32.
func (k *Kernel) MMABytes(signedA, signedB bool, d [4]U32, a [4]U32, b [2]U32) {
	name := map[bool]string{false: "u8", true: "s8"}
	k.mma("m16n8k32", "s32."+name[signedA]+"."+name[signedB]+".s32", []value{d[0].v, d[1].v, d[2].v, d[3].v}, a, b)
}

// LoadMatrix reads n (1, 2 or 4) matrices of 8 × 8 elements of 16 bits from shared memory. Threads 8i to 8i+7 must
// pass the addresses of the rows of matrix i; a row has 16 bytes, and its address is a multiple of 16. Thread t gets
// the elements 2(t%4) and 2(t%4)+1 of row t/4 of each matrix, or of its transpose if transpose is set. Rows of
// float32 are read as pairs of elements: thread t gets element t%4 of row t/4.
func (a Shared) LoadMatrix(n int, transpose bool) []U32 { return a.LoadMatrixAt(0, n, transpose) }

// LoadMatrixAt is LoadMatrix for the rows offset bytes on.
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

// CopyAsync starts a copy of bytes (4, 8 or 16) bytes from global to shared memory. The addresses must be multiples
// of bytes. Copies of 16 bytes bypass the first-level cache.
func (a Shared) CopyAsync(from Addr, bytes int) {
	a.v.k.emit("cp.async."+cacheOf(bytes)+".shared.global", at(a.v, 0), at(from.v, 0), bytes)
}

// CopyAsyncPart is CopyAsync for the first present bytes; the others are set to 0. from must be readable even if
// present is 0.
func (a Shared) CopyAsyncPart(from Addr, bytes int, present U32) {
	a.CopyAsyncPartAt(0, from, bytes, present)
}

// CopyAsyncPartAt is CopyAsyncPart to the address offset bytes on.
func (a Shared) CopyAsyncPartAt(offset int, from Addr, bytes int, present U32) {
	a.v.k.emit("cp.async."+cacheOf(bytes)+".shared.global", at(a.v, offset), at(from.v, 0), bytes, present.v)
}

func cacheOf(bytes int) string {
	if bytes == 16 {
		return "cg"
	}
	return "ca"
}

// CommitCopies puts the copies that this thread has started since the last call into a group.
func (k *Kernel) CommitCopies() { k.emit("cp.async.commit_group") }

// WaitCopies waits until at most pending of this thread's groups are unfinished. Other threads see the copied data
// after a Barrier.
func (k *Kernel) WaitCopies(pending int) { k.emit("cp.async.wait_group", pending) }

// PackBF16 rounds both to bfloat16, with low in the lower half of the result.
func PackBF16(low, high F32) U32 {
	return U32{kernel(low.v, high.v).compute(b32Class, "cvt.rn.bf16x2.f32", high.v, low.v)}
}
