package scalar

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Program is the linear form of expressions, for interpreters and code generators: instructions in static single
// assignment form. Each computes one value from the values before it; common subexpressions are computed once. It is
// immutable.
type Program struct {
	Code []Instr
	// Results are the instructions that compute the expressions, in their order.
	Results []int
	// Inputs is the greatest index of an operand that is read, plus one.
	Inputs int
	// Slots is the number of registers that Instr.Slot assigns.
	Slots int
}

// An Instr computes one value.
type Instr struct {
	Op Op
	// Args are the instructions that compute the operands; the first Arity entries count.
	Args [MaxArgs]int
	// Dies marks the operands that are read here for the last time, so that the result may take their register. If an
	// operand is read twice, both are marked. Results of the program never die.
	Dies  [MaxArgs]bool
	Index int     // of an OpInput: the number of the operand
	Value float64 // of an OpConst
	// Slot is the register of the result; -1 for operands of the program and constants.
	Slot int
}

// Arity is the number of operands.
func (i *Instr) Arity() int { return i.Op.Arity() }

// Linearize makes the program of some expressions. Functions for which keep is true become instructions, others are
// replaced by their definitions; a nil keep keeps none. Values do not depend on the order of instructions. The order
// depends on the expressions only: of several operands, the one that needs most registers is computed first.
func Linearize(keep func(Op) bool, results ...Expr) *Program {
	l := lineariser{p: &Program{}, at: map[Expr]int{}, need: map[Expr]int{}}
	for _, e := range results {
		e = Expand(e, keep)
		l.needs(e)
		l.p.Results = append(l.p.Results, l.visit(e))
	}
	l.p.assign()
	return l.p
}

type lineariser struct {
	p    *Program
	at   map[Expr]int
	need map[Expr]int
}

// needs counts the registers that each subexpression of e takes if no value is shared.
func (l *lineariser) needs(e Expr) {
	Walk(func(x Expr) {
		n := x.h.Value()
		args := n.args[:n.op.Arity()]
		if len(args) == 0 {
			l.need[x] = 0
			return
		}
		order := l.order(args)
		most := 1
		for k, i := range order {
			most = max(most, l.need[args[i]]+k)
		}
		l.need[x] = most
	}, e)
}

// order gives the order in which operands are computed.
func (l *lineariser) order(args []Expr) []int {
	order := make([]int, len(args))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(l.need[args[j]], l.need[args[i]]) })
	return order
}

func (l *lineariser) visit(e Expr) int {
	if i, ok := l.at[e]; ok {
		return i
	}
	n := e.h.Value()
	in := Instr{Op: n.op, Slot: -1}
	switch n.op {
	case OpInput:
		in.Index = int(n.index)
		l.p.Inputs = max(l.p.Inputs, in.Index+1)
	case OpConst:
		in.Value = e.Value()
	}
	args := n.args[:n.op.Arity()]
	for _, i := range l.order(args) {
		in.Args[i] = l.visit(args[i])
	}
	l.p.Code = append(l.p.Code, in)
	l.at[e] = len(l.p.Code) - 1
	return l.at[e]
}

// assign finds the last reads, and assigns registers.
func (p *Program) assign() {
	last := make([]int, len(p.Code))
	for i := range p.Code {
		for _, a := range p.Code[i].Args[:p.Code[i].Arity()] {
			last[a] = i
		}
	}
	for _, r := range p.Results {
		last[r] = len(p.Code)
	}
	var free []int
	for i := range p.Code {
		in := &p.Code[i]
		args := in.Args[:in.Arity()]
		for k, a := range args {
			in.Dies[k] = last[a] == i
			if in.Dies[k] && p.Code[a].Slot >= 0 && !slices.Contains(args[:k], a) {
				free = append(free, p.Code[a].Slot)
			}
		}
		if len(args) == 0 {
			continue
		}
		slices.Sort(free)
		if len(free) > 0 {
			in.Slot, free = free[0], free[1:]
		} else {
			in.Slot = p.Slots
			p.Slots++
		}
	}
}

// Cost is the approximate cost per element, in additions.
func (p *Program) Cost() int {
	sum := 0
	for i := range p.Code {
		sum += p.Code[i].Op.Cost()
	}
	return sum
}

// Cost is the approximate cost of the operation, in additions: 4 for a division or square root, 20 for a polynomial
// approximation, and the cost of its definition for a function.
func (op Op) Cost() int {
	if !op.IsFunction() {
		return infos[op].cost
	}
	return Linearize(nil, Apply(op, Inputs(op.Arity())...)).Cost()
}

// Cost is the approximate cost of e per element, in additions; common subexpressions count once.
func (e Expr) Cost() int { return Linearize(nil, e).Cost() }

// String prints an instruction per line: "v2 = add v0 v1. -> r0". A dot marks an operand that dies.
func (p *Program) String() string {
	var b strings.Builder
	for i := range p.Code {
		in := &p.Code[i]
		fmt.Fprintf(&b, "v%d = %v", i, in.Op)
		switch in.Op {
		case OpInput:
			fmt.Fprintf(&b, " %d", in.Index)
		case OpConst:
			b.WriteString(" " + strconv.FormatFloat(in.Value, 'g', -1, 64))
		}
		for k, a := range in.Args[:in.Arity()] {
			fmt.Fprintf(&b, " v%d", a)
			if in.Dies[k] {
				b.WriteByte('.')
			}
		}
		if in.Slot >= 0 {
			fmt.Fprintf(&b, " -> r%d", in.Slot)
		}
		b.WriteByte('\n')
	}
	b.WriteString("give")
	for _, r := range p.Results {
		fmt.Fprintf(&b, " v%d", r)
	}
	b.WriteByte('\n')
	return b.String()
}
