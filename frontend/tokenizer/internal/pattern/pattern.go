// Package pattern matches the regular expressions of tokenizer.json files.
//
// The language is Oniguruma's, as the tokenizers library compiles it: `.` does not match \n, `^` and `$` match at
// lines, (?m) lets `.` match \n, `a(?i)b|c` means a(?i:b|c), and `{n,m}+` is a loop of a counted loop. Supported are
// alternatives, groups, all quantifiers (greedy, lazy, possessive), atomic groups, look-ahead, look-behind of fixed
// length, the options i, m and x, classes with ranges, negation, nesting and && , POSIX brackets, \p{…} with general
// categories, scripts and binary properties, \d \w \s \h \R \N \O, and the anchors ^ $ \A \z \Z \b \B. Refused by name
// are back-references, calls, conditions, \K, \G, \X, \y, absent operators, options other than i, m, x, properties of
// blocks and of ages, and look-behind of variable length.
//
// Classes are those of Unicode 16, as in Oniguruma 6.9.10, which is newer than package unicode's tables. A byte that is
// not UTF-8 is matched as U+FFFD of one byte.
//
// Matches are the leftmost ones, with the preferences of a backtracking matcher. The work for a whole text is bounded
// by the pattern's size times the text's length, for any pattern and any text: see match.go.
package pattern

import (
	"context"
	"errors"
	"fmt"
)

// A Pattern is a compiled expression. It may be used by many goroutines at once.
type Pattern struct {
	expr string
	prog *program
	// fast, if set, is code written by hand for the expression: it returns the end of the match that begins at from,
	// or -1 if none does.
	fast func(text string, from int) int
	// literal, if set, is all the pattern matches.
	literal string
}

// Limits bound what the patterns of one file take together. The zero value is not usable; NewLimits makes one.
type Limits struct {
	instructions int // left
	ranges       int // left, of classes
}

// NewLimits returns limits for about 2 MiB of patterns.
func NewLimits() *Limits { return &Limits{instructions: 1 << 14, ranges: 1 << 17} }

const maxExpr = 1 << 16

// ErrTooLarge is wrapped by errors of Compile for expressions over the limits.
var ErrTooLarge = errors.New("the expression is too large")

// ErrMemory is wrapped by Matcher.Err if the pattern and the text need more than the matcher's memory.
var ErrMemory = errors.New("the pattern needs too much memory for this text")

// Compile compiles one expression with limits of its own.
func Compile(expr string) (*Pattern, error) { return NewLimits().Compile(expr) }

// Compile compiles an expression within what is left of the limits.
// Errors name the construct that is wrong or not supported, and its byte in the expression.
func (l *Limits) Compile(expr string) (*Pattern, error) {
	p, err := l.general(expr)
	if err != nil {
		return nil, err
	}
	p.fast = byHand(expr)
	return p, nil
}

// general compiles without the code written by hand: tests compare both.
func (l *Limits) general(expr string) (*Pattern, error) {
	if len(expr) > maxExpr {
		return nil, fmt.Errorf("regular expression of %d bytes: %w: expected at most %d", len(expr), ErrTooLarge,
			maxExpr)
	}
	n, err := parse(expr, l)
	if err != nil {
		return nil, fmt.Errorf("regular expression %s: %w", quote(expr), err)
	}
	prog, err := compile(n, l)
	if err != nil {
		return nil, fmt.Errorf("regular expression %s: %w", quote(expr), err)
	}
	return &Pattern{expr: expr, prog: prog}, nil
}

// quote shortens long expressions in messages.
func quote(expr string) string {
	const most = 60
	if len(expr) > most {
		return fmt.Sprintf("%q…", expr[:most])
	}
	return fmt.Sprintf("%q", expr)
}

// Literal returns a pattern that matches s and nothing else. An empty s matches the empty string everywhere.
func Literal(s string) *Pattern {
	if s == "" {
		p, err := Compile("")
		if err != nil {
			panic(err) // the empty expression compiles
		}
		return p
	}
	return &Pattern{expr: s, literal: s}
}

// String returns the expression.
func (p *Pattern) String() string { return p.expr }

// Matcher returns a matcher without a text; Reset gives it one.
func (p *Pattern) Matcher() *Matcher { return &Matcher{p: p, run: runner{memo: memo{most: maxMemo}}} }

// A Matcher finds the matches of a pattern in a text. It keeps scratch memory between texts, and is for one goroutine.
type Matcher struct {
	p    *Pattern
	ctx  context.Context
	text string
	err  error

	next      int // where Find goes on
	lastEmpty int // the end of the last match of Find, after which an empty match is not accepted

	run runner
}

// Reset begins a new text. The context is polled in long work; nil stands for no context.
func (m *Matcher) Reset(ctx context.Context, text string) {
	m.ctx, m.text, m.err = ctx, text, nil
	m.next, m.lastEmpty = 0, -1
	m.run.reset(m)
}

// Err returns why Next or Find stopped before the text's end: the context's error, or one that wraps ErrMemory.
func (m *Matcher) Err() error { return m.err }

// Next returns the leftmost match that begins at byte from or later. Later calls must not ask for earlier places than
// the calls before.
func (m *Matcher) Next(from int) (start, end int, ok bool) {
	switch {
	case m.err != nil || from < 0 || from > len(m.text):
		return 0, 0, false
	case m.p.literal != "":
		return m.nextLiteral(from)
	case m.p.fast != nil:
		return m.nextFast(from)
	}
	return m.run.search(from)
}

// Find returns the next match after the one before, as the tokenizers library goes through a text: matches do not
// overlap, and an empty match directly behind a match is left out.
func (m *Matcher) Find() (start, end int, ok bool) {
	for m.next <= len(m.text) {
		start, end, ok = m.Next(m.next)
		if !ok {
			return 0, 0, false
		}
		if start == end && end == m.lastEmpty {
			m.next = end + width(m.text, end)
			continue
		}
		m.next, m.lastEmpty = end, end
		return start, end, true
	}
	return 0, 0, false
}
