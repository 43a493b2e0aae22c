package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A tile is a block of rows of y times the columns that one panel of W gives: what kernels of products hold in registers.
//
// The panel holds words of 4 bytes for each of its columns, a number or some narrow ones, and so does a row of x. A step takes
// the panel's next words, one or two vectors of them, and multiplies them with the next word of each row, broadcast. However
// rows are cut into tiles, each number of y is the same chain of additions.
type tile struct {
	rows, width   int // width in columns
	vectors, size int // of the panel's words for one step: how many, and the bytes of one
	vector        func() VecVirtual
	narrow        bool           // the panel holds words of 2 bytes, which are to be widened to numbers of 16 bits
	acc           [][]VecVirtual // one for each row and vector
	x             []Mem          // the rows' next words
	w             GPVirtual      // the panel's next words
}

// newTile makes a tile and its accumulators, for the target.
func newTile(rows, width int) *tile {
	t := &tile{rows: rows, width: width, vectors: max(1, 4*width/target.size), size: min(target.size, 4*width)}
	t.vector = map[int]func() VecVirtual{16: XMM, 32: YMM, 64: ZMM}[t.size]
	for range rows {
		var row []VecVirtual
		for range t.vectors {
			row = append(row, t.vector())
		}
		t.acc = append(t.acc, row)
	}
	return t
}

// each visits the accumulators.
func (t *tile) each(f func(i, v int, acc VecVirtual)) {
	for i, row := range t.acc {
		for v, acc := range row {
			f(i, v, acc)
		}
	}
}

// products writes the loop over k steps, four at a time: f adds what a step gives to the accumulators. Rows of x begin at
// first and lie ldx bytes apart; no step moves first, ldx and panel. label tells the tiles of one function apart.
func (t *tile) products(label string, k Op, first, ldx, panel GPVirtual, f func(p int)) {
	cur, count := GP64(), GP64()
	t.w = GP64()
	MOVQ(first, cur)
	MOVQ(panel, t.w)
	t.x = hang(cur, ldx, t.rows)
	run := func(steps int) {
		for p := range steps {
			f(p)
		}
		ADDQ(bytes(t.stepOfW()*steps), t.w)
		for i := 0; i < t.rows; i += hung {
			ADDQ(bytes(4*steps), t.x[i].Base.(GPVirtual))
		}
		DECQ(count)
	}
	MOVQ(k, count)
	SHRQ(Imm(2), count)
	JZ(LabelRef("rest" + label))
	Label("quad" + label)
	run(4)
	JNZ(LabelRef("quad" + label))
	Label("rest" + label)
	MOVQ(k, count)
	ANDQ(Imm(3), count)
	JZ(LabelRef("sum" + label))
	Label("one" + label)
	run(1)
	JNZ(LabelRef("one" + label))
	Label("sum" + label)
}

// stepOfW is the bytes of the panel for one step.
func (t *tile) stepOfW() int {
	if t.narrow {
		return 2 * t.width
	}
	return 4 * t.width
}

// words are the panel's for step p.
func (t *tile) words(p int) []VecVirtual {
	w := make([]VecVirtual, t.vectors)
	for v := range w {
		m := Mem{Base: t.w, Disp: t.stepOfW()*p + t.stepOfW()/t.vectors*v}
		w[v] = t.vector()
		if t.narrow {
			VPMOVSXBW(m, w[v])
		} else {
			VMOVUPS(m, w[v])
		}
	}
	return w
}

// step is step p of a product: multiply adds the products of two words to a sum. The first word of a row lies skip bytes
// behind its beginning.
func (t *tile) step(p, skip int, multiply func(a, w, acc VecVirtual)) {
	w := t.words(p)
	for i, acc := range t.acc {
		a := t.vector()
		VBROADCASTSS(t.x[i].Offset(skip+4*p), a)
		for v := range acc {
			multiply(a, w[v], acc[v])
		}
	}
}

// store writes the accumulators to rows of y, those of a vector as a mask says, where there are masks.
func (t *tile) store(first, ld GPVirtual, masks []Op) {
	y := hang(first, ld, t.rows)
	t.each(func(i, v int, acc VecVirtual) {
		var mask Op
		if masks != nil {
			mask = masks[v]
		}
		put(acc, mask, y[i].Offset(t.size*v))
	})
}

// hung is how many rows hang on one pointer, as x86 scales an index by 1, 2, 4 or 8.
const hung = 3

// hang gives rows that lie ld bytes apart.
func hang(first, ld GPVirtual, rows int) (mems []Mem) {
	cur := first
	for i := range rows {
		if i%hung > 0 {
			mems = append(mems, Mem{Base: cur, Index: ld, Scale: uint8(i % hung)})
			continue
		}
		if i > 0 {
			next := GP64()
			LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, next)
			ADDQ(cur, next)
			cur = next
		}
		mems = append(mems, Mem{Base: cur})
	}
	return mems
}

// tiles writes a function's tiles: as many of the first size as there are rows for, then of the next. The last size is 1. rows
// is where the number of rows is; f writes a tile of so many, and moves what points to them on.
func tiles(rows Mem, sizes []int, f func(rows int)) {
	for i, n := range sizes {
		next := "done"
		if i+1 < len(sizes) {
			next = fmt.Sprint("rows", sizes[i+1])
		}
		Label(fmt.Sprint("rows", n))
		CMPQ(rows, Imm(uint64(n)))
		JL(LabelRef(next))
		f(n)
		SUBQ(Imm(uint64(n)), rows)
		JMP(LabelRef(fmt.Sprint("rows", n)))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// upTo lists tiles of every number of rows, the greatest first.
func upTo(most int) (sizes []int) {
	for n := most; n > 0; n-- {
		sizes = append(sizes, n)
	}
	return sizes
}

// skipRows moves ptr on by some rows of ld bytes, at most 15.
func skipRows(ptr, ld GPVirtual, rows int) {
	for _, by := range []uint8{1, 2, 4, 8} {
		if rows&int(by) != 0 {
			LEAQ(Mem{Base: ptr, Index: ld, Scale: by}, ptr)
		}
	}
}

// argument is where the caller put an argument.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// given is an argument in a register.
func given(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// strided loads a pointer, and how many bytes its rows lie apart, given in words.
func strided(name, stride string) (ptr, ld GPVirtual) {
	ptr, ld = given(name), given(stride)
	SHLQ(Imm(2), ld)
	return ptr, ld
}

// columns are masks of the first m columns, one for each vector of 16: m is at least 1, and ends up elsewhere.
func columns(m GPVirtual, vectors int) []Op {
	masks := make([]Op, vectors)
	ones := GP32()
	MOVL(U32(0xffffffff), ones)
	BZHIL(m.As32(), ones, ones)
	for v := range masks {
		if v > 0 {
			SHRL(Imm(16), ones)
		}
		k := K()
		KMOVW(ones, k)
		masks[v] = k
	}
	return masks
}
