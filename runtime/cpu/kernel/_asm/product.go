package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// tile is a block of y that a kernel of products holds in registers: some rows, and the columns of one panel of W.
//
// The panel has words of 4 bytes for each of its columns, each a number or several narrow ones, and so does a row of x.
// A step multiplies the panel's next one or two vectors of words with the next word of each row, broadcast. Each number
// of y is the same sequence of additions, whatever tiles the rows are divided into.
type tile struct {
	rows, width   int // width in columns
	vectors, size int // vectors of the panel for one step, and the bytes of a vector
	vector        func() VecVirtual
	narrow        bool           // the panel has words of 2 bytes, which are widened to two numbers of 16 bits
	acc           [][]VecVirtual // one for each row and vector
	x             []Mem          // the rows' next words
	w             GPVirtual      // the panel's next words
	ahead         Register       // two lines from here on are prefetched every four steps; nil: none
}

// newTile returns a tile, with its accumulators, for the target.
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

// each calls f for each accumulator.
func (t *tile) each(f func(i, v int, acc VecVirtual)) {
	for i, row := range t.acc {
		for v, acc := range row {
			f(i, v, acc)
		}
	}
}

// products writes the loop over k steps, four at a time. f writes a step. Rows of x begin at first and lie ldx bytes
// apart; first, ldx and panel do not change. label distinguishes the tiles of one function.
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
	if t.ahead != nil {
		prefetch(t.ahead)
	}
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

// stepOfW returns the bytes of the panel for one step.
func (t *tile) stepOfW() int {
	if t.narrow {
		return 2 * t.width
	}
	return 4 * t.width
}

// words returns the panel's words for step p.
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

// step writes step p of a product. multiply adds the products of two words to a sum. The first word of a row is skip
// bytes behind its beginning.
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

// store writes the accumulators to rows of y, through a mask per vector if there are masks.
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

// hung is the number of rows that are addressed from one pointer, since x86 scales an index by 1, 2, 4 or 8.
const hung = 3

// hang returns the positions of rows that lie ld bytes apart.
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

// tiles writes the tiles of a function: as many of the first size as there are rows for, then of the next. The last
// size is 1. rows holds the number of rows. f writes a tile of the given number of rows, and advances the pointers to
// them.
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

// upTo returns most, most-1, … 1.
func upTo(most int) (sizes []int) {
	for n := most; n > 0; n-- {
		sizes = append(sizes, n)
	}
	return sizes
}

// skipRows advances ptr by rows of ld bytes, at most 15.
func skipRows(ptr, ld GPVirtual, rows int) {
	for _, by := range []uint8{1, 2, 4, 8} {
		if rows&int(by) != 0 {
			LEAQ(Mem{Base: ptr, Index: ld, Scale: by}, ptr)
		}
	}
}

// argument returns the position of an argument on the stack.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// given loads an argument into a register.
func given(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// strided loads a pointer, and the distance between its rows, which the caller gives in words, in bytes.
func strided(name, stride string) (ptr, ld GPVirtual) {
	ptr, ld = given(name), given(stride)
	SHLQ(Imm(2), ld)
	return ptr, ld
}

// columns returns masks of the first m ≥ 1 columns, one for each vector of 16. It changes m.
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
