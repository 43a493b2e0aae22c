package emu

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// operandAddress is the source of a memory operand's address.
type operandAddress struct {
	reg    int32 // register, or -1
	wide   bool  // the register has 64 bits
	offset uint64
	left   int // bytes of a parameter from there on
}

// address decodes a memory operand of a space.
func (c *compiler) address(s *statement, o operand, sp space) (operandAddress, error) {
	a := operandAddress{reg: -1, offset: o.bits}
	if o.kind != memoryOperand {
		return a, s.errorf("expected an address in brackets")
	}
	if o.name == "" {
		return a, nil
	}
	if v := c.e.vars[o.name]; v != nil && v.space == param {
		if sp != param {
			return a, s.errorf("%s is a parameter", o.name)
		}
		a.offset += uint64(v.offset)
		if n := int64(o.bits); n < 0 || n >= int64(v.bytes) {
			return a, s.errorf("an offset of %d in parameter %s", n, o.name)
		}
		a.left = v.bytes - int(o.bits)
		return a, nil
	}
	if sp == param {
		return a, s.errorf("no parameter %s", o.name)
	}
	if at, ok := c.k.names[o.name]; ok {
		a.offset += uint64(at)
		return a, nil
	}
	t, ok := c.e.regs[o.name]
	switch {
	case !ok:
		return a, s.errorf("unknown name %s", o.name)
	case registerClass(t) == 64:
		a.wide = true
	case registerClass(t) != 32 || typeBytes(t) != 4 || sp == global:
		return a, s.errorf("register %s of type %s holds no address", o.name, t)
	}
	c.reads(o.name)
	a.reg = c.at[o.name]
	return a, nil
}

// lane returns the address for a lane.
func (a operandAddress) lane(w *warp, i int) uint64 {
	switch {
	case a.reg < 0:
		return a.offset
	case a.wide:
		return w.r64[a.reg][i] + a.offset
	}
	return uint64(w.r32[a.reg][i] + uint32(a.offset))
}

// reach fills in the addresses of an access of size bytes per lane at addr, checks them, and notifies the observers.
// Addresses must be multiples of align.
func (w *warp) reach(in *instr, addr operandAddress, sp space, k kind, mask uint32, size, align int) *access {
	a := &w.block.launch.access
	a.w, a.in, a.space, a.kind, a.mask, a.size = w, in, sp, k, mask, size
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		a.addr[i] = addr.lane(w, i)
	}
	w.check(a, align)
	return a
}

// check checks the addresses of a, and notifies the observers.
func (w *warp) check(a *access, align int) {
	n := uint64(a.size)
	limit := uint64(0)
	switch a.space {
	case shared:
		limit = uint64(len(w.block.shared))
	case local:
		limit = uint64(w.block.launch.kernel.local)
	}
	for m := a.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		at := a.addr[i]
		if at&uint64(align-1) != 0 {
			w.stop(a.in, i, driver.MisalignedAddress, "%s address %#x is not aligned to %d bytes", a.space, at, align)
		}
		if a.space == global {
			l := w.last
			if l == nil || at-l.base >= l.size() || l.size()-(at-l.base) < n {
				if l = w.block.launch.device.find(at); l == nil || l.size()-(at-l.base) < n {
					w.stop(a.in, i, driver.IllegalAddress, "out of bounds: %d bytes at global address %#x: %s", n, at,
						w.block.launch.device.describe(at))
				}
				w.last = l
			}
			if l.guards != nil && l.guarded(at-l.base, n) {
				w.stop(a.in, i, driver.IllegalAddress, "out of bounds: %d bytes from byte %d of allocation %d, where a guard is", n,
					at-l.base, l.number)
			}
			a.alloc[i] = l
			continue
		}
		if at > limit || limit-at < n || a.space == shared && at < sharedBase {
			code := driver.IllegalAddress
			w.stop(a.in, i, code, "out of bounds: %d bytes at %s address %d: expected %d to %d", n, a.space, at,
				map[bool]int{true: sharedBase}[a.space == shared], limit)
		}
	}
	for _, o := range w.block.launch.observers {
		o.access(a)
	}
}

// bytes returns the memory of a lane.
func (a *access) bytes(i int) []byte {
	switch a.space {
	case global:
		l := a.alloc[i]
		return l.data[a.addr[i]-l.base:][:a.size]
	case shared:
		return a.w.block.shared[a.addr[i]:][:a.size]
	}
	return a.w.local[uint64(i*a.w.block.launch.kernel.local)+a.addr[i]:][:a.size]
}

// memoryForm reads the qualifiers of ld and st: space, vector, and hints.
func memoryForm(s *statement) (sp space, n, elem int, err error) {
	n = 1
	explicit := false
	for _, q := range s.op[1 : len(s.op)-1] {
		switch q {
		case "global":
			sp, explicit = global, true
		case "shared", "shared::cta":
			sp, explicit = shared, true
		case "local":
			sp, explicit = local, true
		case "param":
			sp, explicit = param, true
		case "v2":
			n = 2
		case "v4":
			n = 4
		case "nc":
			if s.op[0] != "ld" || sp != global || !explicit {
				return 0, 0, 0, s.unknown()
			}
		case "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "weak", "relaxed", "acquire", "release", "gpu", "cta", "sys",
			"L1::no_allocate", "L1::evict_last", "L1::evict_first", "L2::64B", "L2::128B", "L2::256B":
		default:
			return 0, 0, 0, s.unknown()
		}
	}
	bitsOf, _, _ := width(s.typ())
	elem = bitsOf / 8
	if elem == 0 || n*elem > 16 {
		return 0, 0, 0, s.unknown()
	}
	return sp, n, elem, nil
}

// data returns the registers of a memory instruction, one per element of a vector, in either file.
func (c *compiler) data(s *statement, o operand, n, elem int, write bool) (at []int32, wide []bool, err error) {
	list := []operand{o}
	if o.kind == vectorOperand {
		list = o.list
	}
	if len(list) != n {
		return nil, nil, s.errorf("a vector of %d: expected %d", len(list), n)
	}
	for _, x := range list {
		// A register may be wider than the element.
		is64 := elem == 8
		if x.kind == nameOperand {
			if t, ok := c.e.regs[x.name]; ok {
				is64 = registerClass(t) == 64
				if t != ".pred" && typeBytes(t) < elem {
					return nil, nil, s.errorf("register %s of type %s is too small", x.name, t)
				}
			}
		}
		var r int32
		switch {
		case write && is64:
			r, err = c.out64(s, x)
		case write:
			r, err = c.out32(s, x)
		case is64:
			r, err = c.in64(s, x, s.typ())
		default:
			r, err = c.in32(s, x, s.typ())
		}
		if err != nil {
			return nil, nil, err
		}
		at, wide = append(at, r), append(wide, is64)
	}
	return at, wide, nil
}

// here returns a function that finds the instruction being compiled; its address is known only after all are
// compiled.
func (c *compiler) here() func(w *warp) *instr {
	k, pc := c.k, len(c.k.code)
	return func(*warp) *instr { return &k.code[pc] }
}

func decodeLoad(c *compiler, s *statement) (exec, error) {
	c.class = classLoad
	sp, n, elem, err := memoryForm(s)
	if err != nil {
		return nil, err
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	addr, err := c.address(s, s.operands[1], sp)
	if err != nil {
		return nil, err
	}
	at, wide, err := c.data(s, s.operands[0], n, elem, true)
	if err != nil {
		return nil, err
	}
	_, _, signed := width(s.typ())
	signed = signed && s.typ()[0] == 's'
	size := n * elem
	if sp == param {
		if addr.left < size || int(addr.offset)%size != 0 {
			return nil, s.errorf("%d bytes of parameters are read at %d, where one holds %d more", size, addr.offset, addr.left)
		}
		return func(w *warp, mask uint32) {
			b := w.block.launch.params[addr.offset:]
			for j, r := range at {
				x := element(b[j*elem:], elem, signed)
				for m := mask; m != 0; m &= m - 1 {
					i := bits.TrailingZeros32(m) & 31
					if wide[j] {
						w.r64[r][i] = x
					} else {
						w.r32[r][i] = uint32(x)
					}
				}
			}
		}, nil
	}
	c.yields = true
	here := c.here()
	if elem == 4 && !slices.Contains(wide, true) {
		return func(w *warp, mask uint32) {
			a := w.reach(here(w), addr, sp, load, mask, size, size)
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				b := a.bytes(i)
				for j, r := range at {
					w.r32[r][i] = binary.LittleEndian.Uint32(b[4*j:])
				}
			}
		}, nil
	}
	return func(w *warp, mask uint32) {
		a := w.reach(here(w), addr, sp, load, mask, size, size)
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			b := a.bytes(i)
			for j, r := range at {
				x := element(b[j*elem:], elem, signed)
				if wide[j] {
					w.r64[r][i] = x
				} else if w.r32[r][i] = uint32(x); elem == 2 && !signed {
					w.r32[r][i] &= 0xffff
				}
			}
		}
	}, nil
}

// element reads an n-byte number.
func element(b []byte, n int, signed bool) uint64 {
	switch n {
	case 1:
		if signed {
			return uint64(int64(int8(b[0])))
		}
		return uint64(b[0])
	case 2:
		if x := binary.LittleEndian.Uint16(b); signed {
			return uint64(int64(int16(x)))
		} else {
			return uint64(x)
		}
	case 4:
		if x := binary.LittleEndian.Uint32(b); signed {
			return uint64(int64(int32(x)))
		} else {
			return uint64(x)
		}
	}
	return binary.LittleEndian.Uint64(b)
}

func putElement(b []byte, n int, x uint64) {
	switch n {
	case 1:
		b[0] = byte(x)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(x))
	default:
		binary.LittleEndian.PutUint64(b, x)
	}
}

func decodeStore(c *compiler, s *statement) (exec, error) {
	c.class = classStore
	sp, n, elem, err := memoryForm(s)
	if err != nil {
		return nil, err
	}
	if err := s.operandsAre(2); err != nil {
		return nil, err
	}
	if sp == param {
		return nil, s.unknown()
	}
	addr, err := c.address(s, s.operands[0], sp)
	if err != nil {
		return nil, err
	}
	at, wide, err := c.data(s, s.operands[1], n, elem, false)
	if err != nil {
		return nil, err
	}
	c.yields = true
	size := n * elem
	here := c.here()
	return func(w *warp, mask uint32) {
		a := w.reach(here(w), addr, sp, store, mask, size, size)
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			b := a.bytes(i)
			for j, r := range at {
				if wide[j] {
					putElement(b[j*elem:], elem, w.r64[r][i])
				} else {
					putElement(b[j*elem:], elem, uint64(w.r32[r][i]))
				}
			}
		}
	}, nil
}

// decodeAtomic decodes atom and red. The lanes of a warp run one after the other, in an order that the launch
// chooses.
func decodeAtomic(c *compiler, s *statement) (exec, error) {
	c.class = classAtomic
	sp := global
	op := ""
	for _, q := range s.op[1 : len(s.op)-1] {
		switch q {
		case "global":
		case "shared", "shared::cta":
			sp = shared
		case "relaxed", "acquire", "release", "acq_rel", "gpu", "cta", "sys":
		case "add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec":
			op = q
		default:
			return nil, s.unknown()
		}
	}
	n, float, signed := width(s.typ())
	if n < 32 || op == "" || float && op != "add" {
		return nil, s.unknown()
	}
	operands := s.operands
	d := int32(-1)
	var err error
	want := 2
	if s.op[0] == "atom" {
		want++
	}
	if op == "cas" {
		want++
	}
	if err := s.operandsAre(want); err != nil {
		return nil, err
	}
	in, out := c.in32, c.out32
	if n == 64 {
		in, out = c.in64, c.out64
	}
	if s.op[0] == "atom" {
		if d, err = out(s, operands[0]); err != nil {
			return nil, err
		}
		operands = operands[1:]
	} else if op == "exch" || op == "cas" {
		return nil, s.unknown()
	}
	addr, err := c.address(s, operands[0], sp)
	if err != nil {
		return nil, err
	}
	aa, err := in(s, operands[1], s.typ())
	if err != nil {
		return nil, err
	}
	ba := aa
	if op == "cas" {
		if ba, err = in(s, operands[2], s.typ()); err != nil {
			return nil, err
		}
	}
	combine := func(old, a, b uint64) uint64 {
		switch op {
		case "add":
			switch {
			case float && n == 32 && sp == global: // there, subnormal numbers are flushed to 0
				return uint64(f32bits(flush(flush(f32(uint32(old))) + flush(f32(uint32(a))))))
			case float && n == 32:
				return uint64(f32bits(f32(uint32(old)) + f32(uint32(a))))
			case float:
				return math.Float64bits(f64(old) + f64(a))
			}
			return old + a
		case "min", "max":
			less := a < old
			if signed && n == 32 {
				less = int32(a) < int32(old)
			} else if signed {
				less = int64(a) < int64(old)
			}
			if less == (op == "min") {
				return a
			}
			return old
		case "and":
			return old & a
		case "or":
			return old | a
		case "xor":
			return old ^ a
		case "exch":
			return a
		case "cas":
			if old == a {
				return b
			}
			return old
		case "inc":
			if old >= a {
				return 0
			}
			return old + 1
		}
		if old == 0 || old > a {
			return a
		}
		return old - 1
	}
	c.yields = true
	here := c.here()
	return func(w *warp, mask uint32) {
		a := w.reach(here(w), addr, sp, atomic, mask, n/8, n/8)
		first := int(w.block.launch.rand.uint32() & 31)
		for j := range 32 {
			i := (first + j) & 31
			if mask>>i&1 == 0 {
				continue
			}
			b := a.bytes(i)
			old := element(b, n/8, false)
			if n == 64 {
				putElement(b, 8, combine(old, w.r64[aa][i], w.r64[ba][i]))
				if d >= 0 {
					w.r64[d][i] = old
				}
			} else {
				putElement(b, 4, combine(old, uint64(w.r32[aa][i]), uint64(w.r32[ba][i])))
				if d >= 0 {
					w.r32[d][i] = uint32(old)
				}
			}
		}
	}, nil
}
