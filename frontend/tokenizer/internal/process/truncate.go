package process

import "fmt"

// Strategy says which of two texts is cut.
type Strategy int

const (
	LongestFirst Strategy = iota
	OnlyFirst
	OnlySecond
)

// Truncation says how encodings are cut.
type Truncation struct {
	Max, Stride int
	Strategy    Strategy
	Left        bool // the end is kept
	Overflow    bool // windows are made of what is cut off
}

// Apply cuts one or two encodings to t.Max tokens in all.
func (t Truncation) Apply(list []Encoding) error {
	total := 0
	for _, e := range list {
		total += len(e.Tokens)
	}
	if total <= t.Max && t.Max > 0 {
		return nil
	}
	if t.Max == 0 {
		for i := range list {
			if err := t.cut(&list[i], 0); err != nil {
				return err
			}
		}
		return nil
	}
	if t.Strategy == LongestFirst {
		return t.longest(list, total)
	}
	if t.Strategy == OnlySecond && len(list) < 2 {
		return fmt.Errorf("truncation: only_second: expected a pair of texts, found one")
	}
	target := &list[0]
	if t.Strategy == OnlySecond {
		target = &list[1]
	}
	keep := len(target.Tokens) - (total - t.Max)
	if keep <= 0 {
		return fmt.Errorf("truncation: expected at most %d tokens, found %d: the text to be cut has only %d", t.Max,
			total, len(target.Tokens))
	}
	return t.cut(target, keep)
}

// longest cuts the longer of two texts until it is not longer, and then both.
func (t Truncation) longest(list []Encoding, total int) error {
	if len(list) == 1 {
		return t.cut(&list[0], t.Max)
	}
	n1, n2 := len(list[0].Tokens), len(list[1].Tokens)
	swap := n1 > n2
	if swap {
		n1, n2 = n2, n1
	}
	if n1 > t.Max {
		n2 = n1
	} else {
		n2 = max(n1, t.Max-n1)
	}
	if n1+n2 > t.Max {
		n1 = t.Max / 2
		n2 = n1 + t.Max%2
	}
	if swap {
		n1, n2 = n2, n1
	}
	if err := t.cut(&list[0], n1); err != nil {
		return err
	}
	return t.cut(&list[1], n2)
}

// cut leaves n tokens, and makes windows of n tokens that have t.Stride in common.
func (t Truncation) cut(e *Encoding, n int) error {
	all := e.Tokens
	if n >= len(all) {
		return nil
	}
	if !t.Overflow {
		if e.Tokens = all[:n:n]; t.Left {
			e.Tokens = all[len(all)-n:]
		}
		return nil
	}
	if n == 0 {
		e.Tokens, e.Overflow = nil, append(e.Overflow, all)
		return nil
	}
	if t.Stride >= n {
		return fmt.Errorf("truncation: stride: expected less than the %d tokens that a window has, found %d", n,
			t.Stride)
	}
	step := n - t.Stride
	if err := fits(len(all)/step, n); err != nil {
		return err
	}
	var windows [][]Token
	for i := 0; ; i += step {
		from, to := i, min(i+n, len(all))
		end := to == len(all)
		if t.Left {
			to = len(all) - i
			from = max(to-n, 0)
			end = from == 0
		}
		windows = append(windows, append([]Token(nil), all[from:to]...))
		if end {
			break
		}
	}
	e.Tokens, e.Overflow = windows[0], windows[1:]
	return nil
}
