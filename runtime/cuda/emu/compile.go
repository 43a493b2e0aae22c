package emu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Compiling turns statements into instr: register names become offsets in the register files of a warp, constants
// and special registers offsets after them, labels indices, and each instruction a function.

// class groups instructions for counters.
type class uint8

const (
	classInteger class = iota
	classF32
	classF64
	classSpecial // approximations, and divisions and roots
	classConvert
	classMove
	classMatrix
	classLoad
	classStore
	classAtomic
	classCopy // asynchronous
	classShuffle
	classBarrier
	classControl
	classes
)

func (c class) String() string {
	return [classes]string{"integer", "fp32", "fp64", "special", "convert", "move", "matrix", "load", "store", "atomic", "copy",
		"shuffle", "barrier", "control"}[c]
}

// flow is the effect of an instruction on the program counter.
type flow uint8

const (
	flowNext flow = iota
	flowBranch
	flowExit
	flowBarrier
)

// instr is a compiled instruction.
type instr struct {
	*statement
	pc      int
	run     exec
	guard   int32 // offset of the predicate, or -1
	inverse bool  // of the guard
	flow    flow
	yields  bool // another warp may run after it
	class   class
	target  int // of a branch
	meet    int // where the paths of a branch reconverge; -1: at the end of the kernel
	kernel  *kernel
}

// kernel is a compiled entry.
type kernel struct {
	*entry
	code []instr
	// Register files: r32 for 32 bits and fewer, r64, pred.
	n32, n64, np int
	const32      []place[uint32]
	const64      []place[uint64]
	special      []place[special]
	shared       int            // bytes of declared shared memory, with sharedBase
	dynamic      int            // start of dynamic shared memory
	local        int            // bytes per lane
	names        map[string]int // declared shared memory and its offset
	free         []*warp        // not used by a block
	blocks       []*block
	early        []early // reads of registers before a write; the first launch reports them
}

// place is a register that has the same value in every warp, or is filled when a warp starts.
type place[T any] struct {
	at    int32
	value T
}

// sharedBase is the address of the first shared variable. Address 0 stays unused.
const sharedBase = 1024

type compiler struct {
	mod    *module
	e      *entry
	k      *kernel
	at     map[string]int32
	c32    map[uint32]int32
	c64    map[uint64]int32
	sp     map[string]int32
	class  class
	yields bool
	flow   flow
	target int
	used   []uses // by instruction
}

// uses are the registers of an instruction.
type uses struct{ reads, writes []string }

func (c *compiler) reads(name string) {
	u := &c.used[len(c.used)-1]
	u.reads = append(u.reads, name)
}

func (c *compiler) writes(name string) {
	u := &c.used[len(c.used)-1]
	u.writes = append(u.writes, name)
}

var decoders map[string]decoder

func init() {
	decoders = map[string]decoder{
		"bra": decodeBranch, "ret": decodeExit, "exit": decodeExit, "trap": decodeTrap,
		"bar": decodeBarrier, "barrier": decodeBarrier, "membar": decodeFence, "fence": decodeFence,
		"shfl": decodeShuffle, "vote": decodeVote, "redux": decodeRedux, "activemask": decodeActiveMask,
		"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore, "atom": decodeAtomic, "red": decodeAtomic,
		"mov": decodeMove, "cvta": decodeAddress, "cvt": decodeConvert, "selp": decodeSelect, "setp": decodeCompare,
		"add": decodeAdd, "sub": decodeAdd, "mul": decodeMul, "mad": decodeMad, "fma": decodeFMA, "div": decodeDiv,
		"rem": decodeDiv, "min": decodeMin, "max": decodeMin, "abs": decodeAbs, "neg": decodeAbs,
		"and": decodeLogic, "or": decodeLogic, "xor": decodeLogic, "not": decodeLogic, "shl": decodeShift, "shr": decodeShift,
		"shf": decodeFunnel, "bfi": decodeBits, "bfe": decodeBits, "brev": decodeBits, "clz": decodeBits, "popc": decodeBits,
		"prmt": decodeBits, "lop3": decodeBits, "copysign": decodeBits,
		"sqrt": decodeRoot, "rsqrt": decodeRoot, "rcp": decodeRoot, "ex2": decodeApprox, "lg2": decodeApprox,
		"mma": decodeMMA, "ldmatrix": decodeLoadMatrix, "cp": decodeCopy,
		"sin": decodeApprox, "cos": decodeApprox, "tanh": decodeApprox, "testp": decodeTest,
	}
}

// registerClass returns the register file of a type: 'p', 32, or 64.
func registerClass(typ string) int {
	if typ == ".pred" {
		return 1
	}
	if typeBytes(typ) == 8 {
		return 64
	}
	return 32
}

// compile makes the kernels of a module.
func compile(m *module) ([]*kernel, error) {
	var all []*kernel
	for _, e := range m.entries {
		k, err := compileEntry(m, e)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

func compileEntry(m *module, e *entry) (*kernel, error) {
	c := &compiler{mod: m, e: e, at: map[string]int32{}, c32: map[uint32]int32{}, c64: map[uint64]int32{}, sp: map[string]int32{}}
	k := &kernel{entry: e, names: map[string]int{}}
	c.k = k
	names := make([]string, 0, len(e.regs))
	for n := range e.regs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		switch registerClass(e.regs[n]) {
		case 1:
			c.at[n], k.np = int32(k.np), k.np+1
		case 64:
			c.at[n], k.n64 = int32(k.n64), k.n64+1
		default:
			c.at[n], k.n32 = int32(k.n32), k.n32+1
		}
	}
	if err := c.layout(); err != nil {
		return nil, err
	}
	k.code = make([]instr, 0, len(e.code)+1)
	for i := range e.code {
		if err := c.add(&e.code[i]); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", e.name, err)
		}
	}
	if c.endless() {
		if err := c.add(&statement{line: e.line, text: "the end of the kernel", op: []string{"ret"}}); err != nil {
			return nil, err
		}
	}
	for n, i := range c.c32 {
		k.const32 = append(k.const32, place[uint32]{i, n})
	}
	for n, i := range c.c64 {
		k.const64 = append(k.const64, place[uint64]{i, n})
	}
	for n, i := range c.sp {
		k.special = append(k.special, place[special]{i, specialRegisters[n]})
	}
	slices.SortFunc(k.special, func(a, b place[special]) int { return int(a.at - b.at) })
	c.meets()
	k.early = c.early()
	return k, nil
}

// endless reports whether some threads can run past the end of the text.
func (c *compiler) endless() bool {
	n := len(c.k.code)
	if n == 0 || c.k.code[n-1].flow != flowExit || c.k.code[n-1].guard >= 0 {
		return true
	}
	for _, at := range c.e.labels {
		if at == n {
			return true
		}
	}
	return false
}

// layout assigns offsets to shared and local variables.
func (c *compiler) layout() error {
	k := c.k
	k.shared = sharedBase
	used := map[string]bool{}
	for i := range c.e.code {
		for _, o := range c.e.code[i].operands {
			used[o.name] = true
		}
	}
	vars := map[string]*variable{}
	for n, v := range c.mod.shared {
		if used[n] {
			vars[n] = v
		}
	}
	for n, v := range c.e.vars {
		if v.space != param {
			vars[n] = v
		}
	}
	names := make([]string, 0, len(vars))
	for n := range vars {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		v := vars[n]
		switch {
		case v.space == local:
			k.local = (k.local + v.align - 1) &^ (v.align - 1)
			k.names[n] = k.local
			k.local += v.bytes
		case !v.extern:
			k.shared = (k.shared + v.align - 1) &^ (v.align - 1)
			k.names[n] = k.shared
			k.shared += v.bytes
		}
		if k.shared > sharedBase+maxShared || k.local > maxShared {
			return fmt.Errorf("line %d: kernel %s has more than %d bytes of shared or local memory", c.e.line, c.e.name, maxShared)
		}
	}
	k.dynamic = k.shared
	for _, n := range names {
		if v := vars[n]; v.extern {
			k.dynamic = (k.dynamic + max(v.align, 16) - 1) &^ (max(v.align, 16) - 1)
		}
	}
	for _, n := range names {
		if vars[n].extern {
			k.names[n] = k.dynamic
		}
	}
	return nil
}

func (c *compiler) add(s *statement) error {
	d := decoders[s.op[0]]
	if d == nil {
		return s.errorf("unknown instruction %s", s.name())
	}
	c.used = append(c.used, uses{})
	in := instr{statement: s, pc: len(c.k.code), guard: -1, inverse: s.negated, kernel: c.k, meet: -1}
	if s.guard != "" {
		g, err := c.predAt(s, operand{kind: nameOperand, name: s.guard})
		c.reads(s.guard)
		if err != nil {
			return err
		}
		in.guard = g
	}
	c.class, c.yields, c.flow, c.target = classInteger, false, flowNext, -1
	run, err := d(c, s)
	if err != nil {
		return err
	}
	in.run, in.class, in.yields, in.flow, in.target = run, c.class, c.yields, c.flow, c.target
	c.k.code = append(c.k.code, in)
	return nil
}

// unknown is the error of a form of an instruction that the emulator does not execute.
func (s *statement) unknown() error { return s.errorf("unknown form of instruction: %s", s.name()) }

// operandsAre returns an error unless s has one of the given numbers of operands.
func (s *statement) operandsAre(n ...int) error {
	if !slices.Contains(n, len(s.operands)) {
		return s.errorf("%d operands: expected %d", len(s.operands), n[0])
	}
	return nil
}

// pred returns the offset of a predicate that is written.
func (c *compiler) pred(s *statement, o operand) (int32, error) {
	c.writes(o.name)
	return c.predAt(s, o)
}

// predAt returns the offset of a predicate that may not be negated.
func (c *compiler) predAt(s *statement, o operand) (int32, error) {
	if o.kind != nameOperand || c.e.regs[o.name] != ".pred" || o.negated {
		return 0, s.errorf("expected a predicate, found %q", o.name)
	}
	return c.at[o.name], nil
}

// in32 returns the offset of a source operand of 32 bits or fewer. typ is the type in which constants are read:
// ".f32", ….
func (c *compiler) in32(s *statement, o operand, typ string) (int32, error) {
	var bits uint64
	switch o.kind {
	case nameOperand:
		if o.negated {
			break
		}
		if t, ok := c.e.regs[o.name]; ok {
			if registerClass(t) != 32 {
				return 0, s.errorf("register %s is of type %s: expected 32 bits or fewer", o.name, t)
			}
			c.reads(o.name)
			return c.at[o.name], nil
		}
		if at, ok := c.k.names[o.name]; ok {
			return c.constant32(uint32(at)), nil
		}
		if strings.HasPrefix(o.name, "%") {
			return c.specialRegister(s, o.name)
		}
		return 0, s.errorf("unknown name %s", o.name)
	case intOperand:
		if strings.HasPrefix(typ, ".f") || strings.HasPrefix(typ, "f") {
			break
		}
		bits = o.bits
		if int64(bits) < math.MinInt32 || int64(bits) > math.MaxUint32 {
			return 0, s.errorf("a constant of more than 32 bits")
		}
		return c.constant32(uint32(bits)), nil
	case f32Operand:
		return c.constant32(uint32(o.bits)), nil
	case f64Operand:
		if typ == "f32" {
			return c.constant32(math.Float32bits(float32(math.Float64frombits(o.bits)))), nil
		}
	}
	return 0, s.errorf("unexpected operand for type %s", typ)
}

// in64 is in32 for 64 bits.
func (c *compiler) in64(s *statement, o operand, typ string) (int32, error) {
	switch o.kind {
	case nameOperand:
		if o.negated {
			break
		}
		if t, ok := c.e.regs[o.name]; ok {
			if registerClass(t) != 64 {
				return 0, s.errorf("register %s is of type %s: expected 64 bits", o.name, t)
			}
			c.reads(o.name)
			return c.at[o.name], nil
		}
		if at, ok := c.k.names[o.name]; ok {
			return c.constant64(uint64(at)), nil
		}
		return 0, s.errorf("unknown name %s", o.name)
	case intOperand:
		if typ == "f64" {
			break
		}
		return c.constant64(o.bits), nil
	case f64Operand:
		if typ == "f64" {
			return c.constant64(o.bits), nil
		}
	case f32Operand:
		if typ == "f64" {
			return c.constant64(math.Float64bits(float64(math.Float32frombits(uint32(o.bits))))), nil
		}
	}
	return 0, s.errorf("unexpected operand for type %s", typ)
}

// out32 returns the offset of a destination register of 32 bits or fewer.
func (c *compiler) out32(s *statement, o operand) (int32, error) {
	t, ok := c.e.regs[o.name]
	if o.kind == sinkOperand {
		return c.sink32(), nil
	}
	if o.kind != nameOperand || !ok || registerClass(t) != 32 || o.negated {
		return 0, s.errorf("expected a register of 32 bits or fewer, found %q", o.name)
	}
	c.writes(o.name)
	return c.at[o.name], nil
}

// out64 is out32 for 64 bits.
func (c *compiler) out64(s *statement, o operand) (int32, error) {
	t, ok := c.e.regs[o.name]
	if o.kind == sinkOperand {
		return c.sink64(), nil
	}
	if o.kind != nameOperand || !ok || registerClass(t) != 64 || o.negated {
		return 0, s.errorf("expected a register of 64 bits, found %q", o.name)
	}
	c.writes(o.name)
	return c.at[o.name], nil
}

// ins32 is in32 for the elements of a vector, or for a single operand.
func (c *compiler) ins32(s *statement, o operand, typ string, n int) ([]int32, error) {
	return c.vector(s, o, n, func(o operand) (int32, error) { return c.in32(s, o, typ) })
}

// outs32 is out32 for the elements of a vector, or for a single operand.
func (c *compiler) outs32(s *statement, o operand, n int) ([]int32, error) {
	return c.vector(s, o, n, func(o operand) (int32, error) { return c.out32(s, o) })
}

func (c *compiler) vector(s *statement, o operand, n int, one func(operand) (int32, error)) ([]int32, error) {
	list := []operand{o}
	if o.kind == vectorOperand {
		list = o.list
	}
	if len(list) != n {
		return nil, s.errorf("a vector of %d: expected %d", len(list), n)
	}
	out := make([]int32, n)
	for i, x := range list {
		at, err := one(x)
		if err != nil {
			return nil, err
		}
		out[i] = at
	}
	return out, nil
}

func (c *compiler) constant32(x uint32) int32 {
	at, ok := c.c32[x]
	if !ok {
		at = int32(c.k.n32)
		c.k.n32++
		c.c32[x] = at
	}
	return at
}

func (c *compiler) constant64(x uint64) int32 {
	at, ok := c.c64[x]
	if !ok {
		at = int32(c.k.n64)
		c.k.n64++
		c.c64[x] = at
	}
	return at
}

func (c *compiler) sink32() int32 { c.k.n32++; return int32(c.k.n32 - 1) }
func (c *compiler) sink64() int32 { c.k.n64++; return int32(c.k.n64 - 1) }

func (c *compiler) specialRegister(s *statement, name string) (int32, error) {
	if specialRegisters[name] == nil {
		return 0, s.errorf("unknown register %s", name)
	}
	at, ok := c.sp[name]
	if !ok {
		at = int32(c.k.n32)
		c.k.n32++
		c.sp[name] = at
	}
	return at, nil
}

// constant returns the value of an operand that must be an integer.
func (s *statement) constant(o operand) (int, error) {
	if o.kind != intOperand || o.bits > math.MaxInt32 {
		return 0, s.errorf("expected a constant integer")
	}
	return int(o.bits), nil
}

// typ returns the last qualifier, the type.
func (s *statement) typ() string { return s.op[len(s.op)-1] }

// only returns an error if s has a qualifier besides the given ones.
func (s *statement) only(known ...string) error {
	for _, q := range s.op[1:] {
		if !slices.Contains(known, q) {
			return s.errorf("unknown qualifier .%s", q)
		}
	}
	return nil
}

// width returns the number of bits of a type without its dot, and whether it is a float, and signed.
func width(typ string) (bits int, float, signed bool) {
	switch typ {
	case "bf16":
		return 16, true, true
	case "pred":
		return 1, false, false
	}
	if len(typ) < 2 {
		return 0, false, false
	}
	n, err := strconv.Atoi(typ[1:])
	if err != nil || n != 8 && n != 16 && n != 32 && n != 64 {
		return 0, false, false
	}
	switch typ[0] {
	case 'f':
		if n == 8 {
			return 0, false, false
		}
		return n, true, true
	case 's':
		return n, false, true
	case 'u', 'b':
		return n, false, false
	}
	return 0, false, false
}

// meets finds for each branch where its paths reconverge: its immediate post-dominator. Threads that end before the
// end of the text are ignored, because they wait for no others.
func (c *compiler) meets() {
	code := c.k.code
	n := len(code)
	// Post-dominators by the algorithm of Cooper, Harvey and Kennedy on the reversed graph, with node n as the end.
	// Chains of instructions are not merged into basic blocks, since kernels have only a few thousand instructions.
	succ := func(i int) (a, b int) {
		switch in := &code[i]; in.flow {
		case flowBranch:
			if in.guard >= 0 {
				return in.target, i + 1
			}
			return in.target, -1
		case flowExit:
			if in.guard >= 0 {
				return i + 1, -1
			}
			if i < n-1 {
				return -1, -1
			}
		}
		return i + 1, -1
	}
	pred := make([][]int32, n+1)
	for i := range code {
		a, b := succ(i)
		if a >= 0 {
			pred[a] = append(pred[a], int32(i))
		}
		if b >= 0 && b != a {
			pred[b] = append(pred[b], int32(i))
		}
	}
	// Postorder of the reversed graph from the end.
	order := make([]int, n+1) // number of a node; 0: not reached
	var nodes []int32
	type frame struct {
		node int32
		next int
	}
	stack := []frame{{int32(n), 0}}
	seen := make([]bool, n+1)
	seen[n] = true
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next < len(pred[f.node]) {
			p := pred[f.node][f.next]
			f.next++
			if !seen[p] {
				seen[p] = true
				stack = append(stack, frame{p, 0})
			}
			continue
		}
		order[f.node] = len(nodes)
		nodes = append(nodes, f.node)
		stack = stack[:len(stack)-1]
	}
	idom := make([]int32, n+1)
	for i := range idom {
		idom[i] = -1
	}
	idom[n] = int32(n)
	for changed := true; changed; {
		changed = false
		for i := len(nodes) - 2; i >= 0; i-- {
			v := nodes[i]
			a, b := succ(int(v))
			best := int32(-1)
			for _, s := range [2]int{a, b} {
				if s < 0 || !seen[s] || idom[s] < 0 {
					continue
				}
				if best < 0 {
					best = int32(s)
					continue
				}
				x, y := best, int32(s)
				for x != y {
					for order[x] < order[y] {
						x = idom[x]
					}
					for order[y] < order[x] {
						y = idom[y]
					}
				}
				best = x
			}
			if idom[v] != best {
				idom[v], changed = best, true
			}
		}
	}
	for i := range code {
		if in := &code[i]; in.flow == flowBranch {
			if m := idom[i]; m >= 0 && int(m) < n {
				in.meet = int(m)
			}
		}
	}
}
