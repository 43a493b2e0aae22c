package pattern

import "fmt"

type opcode uint8

const (
	opOne    opcode = iota // one character of the set, then x
	opSpan                 // all characters of the set that follow, then x; never fewer
	opLoop                 // the same, but fewer if what follows asks for it
	opSplit                // x, and if that does not lead to a match y
	opAssert               // then x
	opLook                 // the body at y matches here, or does not, then x
	opAtomic               // the first match of the body at y, then x, or z if that match is empty
	opEnd                  // the match, or the match of a body, is complete
)

// An inst is an instruction of the matcher. All cycles of a program take characters.
type inst struct {
	op       opcode
	what     assert
	negative bool
	body     bool // part of a look or an atomic group
	x, y, z  int32
	back     int32 // characters that a look steps back
	memo     int32 // number of the state in the memo, or -1
	set      *set
	first    *first // of opSplit: what x begins with; of opLoop: what x begins with
	second   *first // of opSplit: what y begins with
}

type program struct {
	insts   []inst
	start   int32
	states  int    // with a number
	main    []bool // by number: not part of a body
	first   first  // what a match begins with
	back    int    // bytes that looks step back at most
	atomics bool
}

// A compiler writes instructions from the end of an expression to its beginning: what follows is known.
type compiler struct {
	insts  []inst
	limits *Limits
	calls  int
	inBody int
	err    error
}

// maxCalls bounds the work for expressions that take no instructions, as (?:){1000}{1000}.
const maxCalls = 1 << 18

func compile(n node, l *Limits) (*program, error) {
	c := &compiler{limits: l}
	end := c.emit(inst{op: opEnd})
	start := c.gen(n, end)
	if c.err != nil {
		return nil, c.err
	}
	p := &program{insts: c.insts, start: start}
	p.number()
	p.firsts()
	return p, nil
}

func (c *compiler) emit(i inst) int32 {
	c.limits.instructions--
	if c.limits.instructions < 0 && c.err == nil {
		c.err = fmt.Errorf("%w: it takes too many instructions; counted quantifiers are written out", ErrTooLarge)
	}
	if c.err != nil {
		return 0
	}
	i.body = c.inBody > 0
	c.insts = append(c.insts, i)
	return int32(len(c.insts) - 1)
}

func (c *compiler) called() bool {
	if c.calls++; c.calls > maxCalls && c.err == nil {
		c.err = fmt.Errorf("%w: its quantifiers repeat too much", ErrTooLarge)
	}
	return c.err == nil
}

// gen writes n followed by k, and returns its first instruction.
func (c *compiler) gen(n node, k int32) int32 {
	if !c.called() {
		return k
	}
	switch n := n.(type) {
	case one:
		return c.emit(inst{op: opOne, set: n.set, x: k})
	case foldedRun:
		return c.foldedRun(n.text, k)
	case sequence:
		for i := len(n.list) - 1; i >= 0; i-- {
			k = c.gen(n.list[i], k)
		}
		return k
	case choice:
		return c.choice(n.list, func(x node) int32 { return c.gen(x, k) })
	case repeat:
		return c.repeat(n, k)
	case atomic:
		return c.atomic(n.node, k, k)
	case look:
		return c.look(n, k)
	case assertion:
		return c.emit(inst{op: opAssert, what: n.what, x: k})
	}
	panic(fmt.Sprintf("unknown node %T", n))
}

// gen2 writes n where nothing has been taken since a loop's round began: it goes on at empty if n takes nothing either,
// else at full. A round that takes nothing ends its loop, as in Oniguruma.
func (c *compiler) gen2(n node, empty, full int32) int32 {
	if empty == full || !nullable(n) {
		return c.gen(n, full)
	}
	if !c.called() {
		return empty
	}
	switch n := n.(type) {
	case sequence:
		for i := len(n.list) - 1; i >= 0; i-- {
			next := c.gen2(n.list[i], empty, full)
			if i > 0 {
				full = c.gen(n.list[i], full)
			}
			empty = next
		}
		return empty
	case choice:
		return c.choice(n.list, func(x node) int32 { return c.gen2(x, empty, full) })
	case repeat:
		return c.repeat2(n, empty, full)
	case atomic:
		return c.atomic(n.node, full, empty)
	}
	return c.gen(n, empty) // assertions, looks, empty literals
}

func (c *compiler) choice(list []node, gen func(node) int32) int32 {
	k := gen(list[len(list)-1])
	for i := len(list) - 2; i >= 0; i-- {
		k = c.emit(inst{op: opSplit, x: gen(list[i]), y: k})
	}
	return k
}

// branch writes a choice between body and exit, body first if the quantifier is greedy.
func (c *compiler) branch(body, exit int32, k kind) int32 {
	if k == lazy {
		body, exit = exit, body
	}
	return c.emit(inst{op: opSplit, x: body, y: exit})
}

func (c *compiler) repeat(n repeat, k int32) int32 {
	if n.kind == possessive {
		if x, ok := n.node.(one); ok && n.max < 0 {
			return c.times(n.node, n.min, c.emit(inst{op: opSpan, set: x.set, x: k}))
		}
		n.kind = greedy
		return c.atomic(n, k, k)
	}
	if n.counts() {
		return c.counted(n, k, k)
	}
	if n.max < 0 {
		return c.times(n.node, n.min, c.star(n, k, k))
	}
	exit := k
	for i := n.min; i < n.max && c.called(); i++ {
		k = c.branch(c.gen(n.node, k), exit, n.kind)
	}
	return c.times(n.node, n.min, k)
}

func (c *compiler) times(n node, times int, k int32) int32 {
	for i := 0; i < times && c.err == nil; i++ {
		k = c.gen(n, k)
	}
	return k
}

// star writes n*, where nothing has been taken before it if empty is not full.
func (c *compiler) star(n repeat, empty, full int32) int32 {
	if x, ok := n.node.(one); ok && n.kind == greedy {
		op := opLoop
		if c.never(x.set, full) {
			op = opSpan
		}
		again := c.emit(inst{op: op, set: x.set, x: full})
		if empty == full {
			return again
		}
		return c.branch(c.gen(x, again), empty, greedy)
	}
	again := c.emit(inst{op: opSplit})
	body := c.gen2(n.node, full, again)
	if c.err != nil {
		return full
	}
	at := &c.insts[again]
	at.x, at.y = body, full
	if n.kind == lazy {
		at.x, at.y = full, body
	}
	if empty == full {
		return again
	}
	return c.branch(c.gen2(n.node, empty, again), empty, n.kind)
}

func (c *compiler) repeat2(n repeat, empty, full int32) int32 {
	if n.kind == possessive {
		n.kind = greedy
		return c.atomic(n, full, empty)
	}
	if n.counts() {
		return c.counted(n, empty, full)
	}
	var list []node
	for i := 0; i < n.min && c.called(); i++ {
		list = append(list, n.node)
	}
	if n.max < 0 {
		if n.min == 0 {
			return c.star(n, empty, full)
		}
		return c.gen2(sequence{append(list, repeat{node: n.node, max: -1, kind: n.kind})}, empty, full)
	}
	if n.min == 0 {
		if n.max == 0 {
			return empty
		}
		rest := repeat{node: n.node, max: n.max - 1, kind: n.kind}
		body := sequence{[]node{n.node, rest}}
		if n.max == 1 {
			return c.branch(c.gen2(n.node, empty, full), empty, n.kind)
		}
		return c.branch(c.gen2(body, empty, full), empty, n.kind)
	}
	return c.gen2(sequence{append(list, repeat{node: n.node, max: n.max - n.min, kind: n.kind})}, empty, full)
}

func (c *compiler) atomic(n node, full, empty int32) int32 {
	return c.emit(inst{op: opAtomic, y: c.body(n), x: full, z: empty})
}

func (c *compiler) body(n node) int32 {
	c.inBody++
	at := c.gen(n, c.emit(inst{op: opEnd}))
	c.inBody--
	return at
}

func (c *compiler) look(n look, k int32) int32 {
	i := inst{op: opLook, y: c.body(n.node), x: k, negative: n.negative}
	if n.behind {
		back, _ := length(n.node)
		i.back = int32(back)
	}
	return c.emit(i)
}

// foldedRun writes a literal that characters of several foldings may cover. Where a folding of two or three characters
// begins, the longest counts, and none begins within it, as in Oniguruma.
func (c *compiler) foldedRun(text []rune, k int32) int32 {
	f := folds()
	longest := make([]int, len(text))
	for i := 0; i < len(text); i++ {
		for n := min(maxFolding, len(text)-i); n > 1; n-- {
			if f.longer[string(text[i:i+n])] != nil {
				longest[i] = n
				i += n - 1
				break
			}
		}
	}
	at := make([]int32, len(text)+1)
	at[len(text)] = k
	for i := len(text) - 1; i >= 0; i-- {
		at[i] = c.emit(inst{op: opOne, set: f.orbit(text[i]), x: at[i+1]})
		if n := longest[i]; n > 0 {
			var pairs []rune
			for _, r := range f.longer[string(text[i:i+n])] {
				pairs = append(pairs, r, r)
			}
			long := c.emit(inst{op: opOne, set: newSet(pairs), x: at[i+n]})
			at[i] = c.emit(inst{op: opSplit, x: at[i], y: long})
		}
	}
	return at[0]
}

// never reports that a greedy loop over s, followed by k, never has to give a character back: what follows matches
// without taking any, or takes none of s first.
func (c *compiler) never(s *set, k int32) bool {
	type place struct {
		pc       int32
		asserted bool
	}
	todo, seen := []place{{k, false}}, 0
	apart, always := true, false
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen++; seen > 24 || c.err != nil {
			return false
		}
		i := &c.insts[p.pc]
		switch i.op {
		case opOne:
			apart = apart && s.disjoint(i.set)
		case opSpan, opLoop:
			apart = apart && s.disjoint(i.set)
			todo = append(todo, place{i.x, p.asserted})
		case opSplit:
			if i.x == 0 && i.y == 0 { // not yet written
				return false
			}
			todo = append(todo, place{i.x, p.asserted}, place{i.y, p.asserted})
		case opAssert, opLook:
			todo = append(todo, place{i.x, true})
		case opEnd:
			always = always || !p.asserted
			apart = apart && !p.asserted
		default:
			return false
		}
	}
	return always || apart
}
