package emu

import (
	"math"
	"strconv"
	"strings"
)

// operandKind distinguishes operands.
type operandKind uint8

const (
	nameOperand   operandKind = iota // a register, special register, variable or label
	intOperand                       // an integer, or a float given by its bits
	f32Operand                       // 0f…
	f64Operand                       // 0d…, or a decimal fraction
	vectorOperand                    // {a, b, …}
	memoryOperand                    // [a+8]
	sinkOperand                      // _
	pairOperand                      // p|q
)

type operand struct {
	kind    operandKind
	name    string // also the base of a memory operand; "" if its address is absolute
	negated bool   // !p
	bits    uint64 // of a number; or the offset of a memory operand, with its sign
	list    []operand
}

func (p *parser) operand(depth int) (operand, error) {
	switch {
	case p.accept('!'):
		if p.peek() == '!' {
			return operand{}, p.errorf("expected a predicate after !")
		}
		o, err := p.operand(depth + 1)
		if err == nil && (o.kind != nameOperand || o.negated) {
			err = p.errorf("expected a predicate after !")
		}
		o.negated = true
		return o, err
	case p.peek() == '{':
		if depth > 0 {
			return operand{}, p.errorf("a vector in an operand")
		}
		p.pos++
		o := operand{kind: vectorOperand}
		for !p.accept('}') {
			if len(o.list) > 0 {
				if err := p.expect(','); err != nil {
					return o, err
				}
			}
			x, err := p.operand(depth + 1)
			if err != nil {
				return o, err
			}
			if len(o.list) == 8 {
				return o, p.errorf("a vector of more than 8 operands")
			}
			o.list = append(o.list, x)
		}
		return o, nil
	case p.peek() == '[':
		if depth > 0 {
			return operand{}, p.errorf("an address in an operand")
		}
		p.pos++
		return p.address()
	}
	negative := false
	if p.peek() == '-' {
		p.pos++
		negative = true
	}
	w := p.word()
	if w == "" {
		return operand{}, p.errorf("expected an operand")
	}
	if w == "_" {
		return operand{kind: sinkOperand}, nil
	}
	if c := w[0]; c >= '0' && c <= '9' {
		// 1.5e-3: the word ends before the sign of the exponent, so read on.
		if last := w[len(w)-1]; (last == 'e' || last == 'E') && !strings.HasPrefix(w, "0x") && p.pos < len(p.text) &&
			!strings.HasPrefix(w, "0f") && !strings.HasPrefix(w, "0d") &&
			(p.text[p.pos] == '-' || p.text[p.pos] == '+') {
			p.pos++
			w += p.text[p.pos-1:p.pos] + p.word()
		}
		return p.number(w, negative)
	}
	if negative {
		return operand{}, p.errorf("expected a number after -")
	}
	o := operand{kind: nameOperand, name: w}
	if depth == 0 && p.accept('|') {
		second := p.word()
		if second == "" {
			return o, p.errorf("expected a second predicate")
		}
		o = operand{kind: pairOperand, list: []operand{o, {kind: nameOperand, name: second}}}
	}
	return o, nil
}

func (p *parser) number(w string, negative bool) (operand, error) {
	o := operand{kind: intOperand}
	var err error
	switch {
	case len(w) == 10 && (w[:2] == "0f" || w[:2] == "0F"):
		o.kind = f32Operand
		o.bits, err = strconv.ParseUint(w[2:], 16, 32)
		if negative {
			o.bits ^= 1 << 31
		}
	case len(w) == 18 && (w[:2] == "0d" || w[:2] == "0D"):
		o.kind = f64Operand
		o.bits, err = strconv.ParseUint(w[2:], 16, 64)
		if negative {
			o.bits ^= 1 << 63
		}
	case !strings.HasPrefix(w, "0x") && !strings.HasPrefix(w, "0X") && strings.ContainsAny(w, ".eE"):
		o.kind = f64Operand
		var x float64
		x, err = strconv.ParseFloat(w, 64)
		if negative {
			x = -x
		}
		o.bits = math.Float64bits(x)
	default:
		o.bits, err = strconv.ParseUint(strings.TrimSuffix(w, "U"), 0, 64)
		if negative {
			o.bits = -o.bits
		}
	}
	if err != nil {
		return o, p.errorf("a number %q", w)
	}
	return o, nil
}

// address reads the inside of [a+8].
func (p *parser) address() (operand, error) {
	o := operand{kind: memoryOperand}
	w := p.word()
	if w == "" {
		return o, p.errorf("expected an address")
	}
	if w[0] >= '0' && w[0] <= '9' {
		n, err := p.number(w, false)
		if err != nil || n.kind != intOperand {
			return o, p.errorf("an address %q", w)
		}
		o.bits = n.bits
		return o, p.expect(']')
	}
	o.name = w
	sign := byte(0)
	if p.peek() == '+' || p.peek() == '-' {
		sign = p.text[p.pos]
		p.pos++
		if sign == '+' && p.peek() == '-' {
			sign = '-'
			p.pos++
		}
		w := p.word()
		n, err := strconv.ParseUint(w, 0, 63)
		if err != nil {
			return o, p.errorf("an offset %q", w)
		}
		if o.bits = n; sign == '-' {
			o.bits = -n
		}
	}
	return o, p.expect(']')
}
