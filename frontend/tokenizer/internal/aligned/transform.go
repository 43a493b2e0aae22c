package aligned

import "unicode/utf8"

// Transform writes a change of a text character by character, where each new character tells how many characters of the
// text it replaces. The changes are those of NormalizedString: 1 for a character that is added and has the place of
// what is before it, 0 for one that replaces a character, and -n for one that replaces a character and the n behind it.
type Transform struct {
	e  *Edit
	at int // the byte of the text up to which characters have been replaced
}

// Transform goes on with an edit of the text from byte `at` on.
func (e *Edit) Transform(at int) Transform { return Transform{e, at} }

// At returns the byte of the text up to which characters have been replaced.
func (w *Transform) At() int { return w.at }

// Rune appends a character. An invalid byte of the text stays as it is where utf8.RuneError replaces it.
func (w *Transform) Rune(r rune, change int) {
	s := w.e.t.s
	if change > 0 {
		w.e.Rune(r, w.before())
		return
	}
	if w.at >= len(s) {
		w.e.Rune(r, w.before())
		return
	}
	old, n := utf8.DecodeRuneInString(s[w.at:])
	p := w.e.t.Span(w.at, w.at+1)
	if r == utf8.RuneError && old == utf8.RuneError && n == 1 {
		w.e.Put(s[w.at:w.at+1], p)
	} else {
		w.e.Rune(r, p)
	}
	w.at += n
	w.Skip(-change)
}

// Skip removes n characters of the text.
func (w *Transform) Skip(n int) {
	for s := w.e.t.s; n > 0 && w.at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[w.at:])
		w.at += size
	}
}

// before returns the place of what is before the next character.
func (w *Transform) before() Span {
	if w.at == 0 {
		return Span{w.e.t.origin, w.e.t.origin}
	}
	return w.e.t.Span(w.at-1, w.at)
}
