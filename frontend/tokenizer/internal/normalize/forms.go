package normalize

import (
	"context"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
)

// form is a normal form of Unicode.
type form struct {
	form       norm.Form   // that decomposes as this one does
	decomposes chars.Class // the characters that it decomposes
	unsettled  chars.Class // the characters that it may change, or that may change others
	compose    bool
}

var (
	nfd  = &form{norm.NFD, chars.Decomposes, chars.Decomposes | chars.Combining, false}
	nfkd = &form{norm.NFKD, chars.DecomposesK, chars.DecomposesK | chars.Combining, false}
	nfc  = &form{norm.NFD, chars.Decomposes, chars.Excluded | chars.Combining | chars.Second, true}
	nfkc = &form{norm.NFKD, chars.DecomposesK, chars.ExcludedK | chars.Combining | chars.Second, true}
)

func (f *form) maker() maker {
	k := chars.Load()
	return func() step {
		w := &formWorker{form: f, k: k}
		return func(ctx context.Context, t *aligned.Text) error { return w.run(ctx, t) }
	}
}

// change is a character of the result and the change that it is (aligned.Transform).
type change struct {
	r      rune
	change int
}

type formWorker struct {
	*form
	k       *chars.Table
	marks   []mark
	buffer  []change
	changes []change
}

// run changes the stretches of a text that may not be in the form. A stretch ends before a character that no other one
// changes, and composing ones begin with such a character.
func (w *formWorker) run(ctx context.Context, t *aligned.Text) error {
	s := t.String()
	var e *aligned.Edit
	kept, starter := 0, 0
	for at := 0; at < len(s); {
		if s[at] < utf8.RuneSelf {
			starter = at
			at++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[at:])
		if !w.moves(r) {
			starter = at
			at += n
			continue
		}
		from := at
		if w.compose {
			from = starter
		}
		at = w.stretch(s, at)
		starter = at
		if !w.normal(s[from:at]) {
			if e == nil {
				e = t.Edit()
			}
			e.Keep(kept, from)
			to := e.Transform(from)
			for _, c := range w.changes {
				to.Rune(c.r, c.change)
			}
			kept = at
			if err := ctx.Err(); err != nil || e.Over() {
				if err == nil {
					err = e.Done()
				}
				return err
			}
		}
	}
	if e == nil {
		return nil
	}
	e.Keep(kept, len(s))
	return e.Done()
}

// moves reports whether a character may change, or change others.
func (w *formWorker) moves(r rune) bool {
	return w.k.Of(r)&w.unsettled != 0 || !w.compose && isHangul(r) || w.compose && w.second(r)
}

// second reports whether a character may be the second part of a composition.
func (w *formWorker) second(r rune) bool {
	return w.k.Of(r)&chars.Second != 0 || r >= hangulV && r < hangulV+countV || r > hangulT && r < hangulT+countT
}

// stretch returns where the characters end, from byte `at` on, that may change.
func (w *formWorker) stretch(s string, at int) int {
	for at < len(s) && s[at] >= utf8.RuneSelf {
		r, n := utf8.DecodeRuneInString(s[at:])
		if !w.moves(r) {
			break
		}
		at += n
	}
	return at
}

// normal computes the form of a stretch (changes), and reports whether it is the stretch itself.
func (w *formWorker) normal(s string) bool {
	w.decomposed(s)
	if w.compose {
		w.composed()
	}
	i := 0
	for _, c := range w.changes {
		r, n := utf8.DecodeRuneInString(s[i:])
		if c.change != 0 || c.r != r {
			return false
		}
		i += n
	}
	return true
}

// decomposed computes the decomposition of a stretch, in canonical order.
func (w *formWorker) decomposed(s string) {
	w.changes = w.changes[:0]
	w.marks = w.marks[:0]
	write := func() {
		sortMarks(w.marks)
		for _, m := range w.marks {
			c := change{m.r, 0}
			if m.added {
				c.change = 1
			}
			w.changes = append(w.changes, c)
		}
		w.marks = w.marks[:0]
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		decompose(w.form, w.k, s[i:i+n], r, func(d rune, class uint8, added bool) {
			if class == 0 {
				write()
			}
			w.marks = append(w.marks, mark{d, class, added})
		})
		i += n
	}
	write()
}

// composed composes the characters of a decomposition in place.
func (w *formWorker) composed() {
	all := w.changes
	out := all[:0]
	table := compositions()
	w.buffer = w.buffer[:0]
	starter := change{r: -1}
	var blocked uint8 // the class of the last mark that did not compose
	for _, c := range all {
		class := classOf(w.k, c.r)
		if starter.r < 0 {
			if class != 0 {
				out = append(out, c)
			} else {
				starter = c
			}
			continue
		}
		if (len(w.buffer) == 0 || blocked < class) && w.second(c.r) {
			if r, ok := table.of(starter.r, c.r); ok {
				starter = change{r, starter.change + c.change - 1}
				continue
			}
		}
		if class != 0 {
			w.buffer = append(w.buffer, c)
			blocked = class
			continue
		}
		out = append(append(out, starter), w.buffer...)
		w.buffer = w.buffer[:0]
		starter = c
	}
	if starter.r >= 0 {
		out = append(append(out, starter), w.buffer...)
	}
	w.changes = out
}

// pairs are the compositions of two characters.
type pairs map[[2]rune]rune

// compositions returns the compositions of two characters that the library knows. They are made at the first call.
var compositions = sync.OnceValue(func() pairs {
	k := chars.Load()
	all := pairs{}
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if c := k.Of(r); c&chars.Decomposes == 0 || c&chars.Excluded != 0 {
			continue
		}
		d := []rune(norm.NFD.String(string(r)))
		first := []rune(norm.NFC.String(string(d[:len(d)-1])))
		if len(first) == 1 {
			all[[2]rune{first[0], d[len(d)-1]}] = r
		}
	}
	return all
})

// of returns the composition of two characters.
func (p pairs) of(a, b rune) (rune, bool) {
	switch {
	case a >= hangulL && a < hangulL+countL && b >= hangulV && b < hangulV+countV:
		return hangulS + (a-hangulL)*countV*countT + (b-hangulV)*countT, true
	case isHangul(a) && (a-hangulS)%countT == 0 && b > hangulT && b < hangulT+countT:
		return a + b - hangulT, true
	}
	r, ok := p[[2]rune{a, b}]
	return r, ok
}
