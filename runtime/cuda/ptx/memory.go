package ptx

import (
	"fmt"
	"strings"
)

// Addr is an address in global memory.
type Addr struct{ v value }

// Shared is an address in the shared memory of the block.
type Shared struct{ v value }

// Add returns the address bytes further on.
func (a Addr) Add(bytes U64) Addr { return Addr{a.v.k.compute(b64Class, "add.u64", a.v, bytes.v)} }

// Index returns the address of element i, for elements of size bytes. i·size may exceed 32 bits.
func (a Addr) Index(i U32, size int) Addr {
	return Addr{a.v.k.compute(b64Class, "mad.wide.u32", i.v, size, a.v)}
}

// IndexS is Index with a signed index.
func (a Addr) IndexS(i S32, size int) Addr {
	return Addr{a.v.k.compute(b64Class, "mad.wide.s32", i.v, size, a.v)}
}

// Index64 returns the address of element i, for elements of size bytes.
func (a Addr) Index64(i U64, size int) Addr {
	return Addr{a.v.k.compute(b64Class, "mad.lo.u64", i.v, size, a.v)}
}

// VarAddr returns an address that Set can change.
func (k *Kernel) VarAddr(first Addr) Addr { return Addr{k.compute(b64Class, "mov.u64", first.v)} }

// Set changes a, which must come from VarAddr.
func (a Addr) Set(b Addr) { a.v.k.emit("mov.u64", a.v, b.v) }

// U64 returns the address as a number.
func (a Addr) U64() U64 { return U64(a) }

// SelectAddr returns a where p is true, and b elsewhere.
func (p Pred) SelectAddr(a, b Addr) Addr {
	return Addr{p.v.k.compute(b64Class, "selp.b64", a.v, b.v, p.v)}
}

// Add returns the address bytes further on.
func (a Shared) Add(bytes U32) Shared {
	return Shared{a.v.k.compute(b32Class, "add.u32", a.v, bytes.v)}
}

// Index returns the address of element i, for elements of size bytes.
func (a Shared) Index(i U32, size int) Shared {
	return Shared{a.v.k.compute(b32Class, "mad.lo.u32", i.v, size, a.v)}
}

// U32 returns the address as a number.
func (a Shared) U32() U32 { return U32(a) }

// SetBits atomically sets the bits of x in the 32-bit number offset bytes on.
func (a Addr) SetBits(offset int, x U32) { a.v.k.emit("red.global.or.b32", at(a.v, offset), x.v) }

// at prints the operand of an access at a constant distance.
func at(a value, offset int) string {
	if offset == 0 {
		return fmt.Sprintf("[%v]", a)
	}
	return fmt.Sprintf("[%v%+d]", a, offset)
}

// Count atomically increments the number at the address, for all threads of the device, and returns its old value. A
// number ≥ last becomes 0.
func (a Addr) Count(last U32) U32 {
	return U32{a.v.k.compute(b32Class, "atom.global.inc.u32", at(a.v, 0), last.v)}
}

func load(a value, space, typ string, c class, offset int) value {
	return a.k.compute(c, "ld."+space+"."+typ, at(a, offset))
}

func loads(a value, space, typ string, c class, offset, n int) []value {
	if n != 2 && n != 4 {
		panic(fmt.Sprintf("ptx: a vector of %d", n))
	}
	out, text := make([]value, n), make([]string, n)
	for i := range out {
		out[i] = a.k.register(c)
		text[i] = out[i].String()
	}
	a.k.emit(fmt.Sprintf("ld.%s.v%d.%s", space, n, typ), "{"+strings.Join(text, ", ")+"}", at(a, offset))
	return out
}

func store(a value, space, typ string, offset int, x ...value) {
	if len(x) == 1 {
		a.k.emit("st."+space+"."+typ, at(a, offset), x[0])
		return
	}
	if len(x) != 2 && len(x) != 4 {
		panic(fmt.Sprintf("ptx: a vector of %d", len(x)))
	}
	text := make([]string, len(x))
	for i, v := range x {
		text[i] = v.String()
	}
	a.k.emit(fmt.Sprintf("st.%s.v%d.%s", space, len(x), typ), at(a, offset), "{"+strings.Join(text, ", ")+"}")
}
