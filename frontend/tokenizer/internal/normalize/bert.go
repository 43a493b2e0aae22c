package normalize

import (
	"context"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// bertRules are the options of BertNormalizer, which does in one pass what the library does in four: clean the text,
// put spaces around Chinese characters, remove accents from its NFD, and make it lower case.
type bertRules struct {
	clean, chinese, accents, lower bool

	k     *chars.Table
	ascii [utf8.RuneSelf]byte // what each byte becomes
	drop  [utf8.RuneSelf]bool // and which ones are removed
	same  [utf8.RuneSelf]bool // and which ones stay
}

// bert is BertNormalizer.
func bert(o *part.Object) maker {
	o.Need("clean_text", "handle_chinese_chars", "lowercase")
	r := &bertRules{k: chars.Load()}
	r.clean = o.Bool("clean_text", true)
	r.chinese = o.Bool("handle_chinese_chars", true)
	r.lower = o.Bool("lowercase", true)
	r.accents = o.Bool("strip_accents", r.lower)
	for i := range r.ascii {
		b := byte(i)
		c := r.k.ASCII(b)
		other := c&chars.Other != 0
		switch {
		case r.clean && c&chars.Space != 0 && !other:
			b = ' '
		case r.lower && c&chars.Lower != 0:
			b += 'a' - 'A'
		}
		r.ascii[i] = b
		r.drop[i] = r.clean && other
		r.same[i] = int(b) == i && !r.drop[i]
	}
	return func() step {
		w := &bertWorker{bertRules: r}
		return func(_ context.Context, t *aligned.Text) error { return w.run(t) }
	}
}

// mark is a character of the NFD that waits for its place among the combining marks around it.
type mark struct {
	r     rune
	class uint8
	added bool // it is not the first one that its character became
}

type bertWorker struct {
	*bertRules
	e     *aligned.Edit
	marks []mark         // behind the last starter
	queue []aligned.Span // the places of the characters that became marks
	last  aligned.Span   // the place that was used last
}

func (w *bertWorker) run(t *aligned.Text) error {
	s := t.String()
	at := 0
	for at < len(s) && s[at] < utf8.RuneSelf && w.same[s[at]] {
		at++
	}
	if at == len(s) {
		return nil
	}
	w.e = t.Edit()
	w.e.Keep(0, at)
	for at < len(s) && !w.e.Over() {
		from := at
		for at < len(s) && s[at] < utf8.RuneSelf && !w.drop[s[at]] {
			at++
		}
		if from < at {
			w.flush()
			w.e.Mapped(from, at, &w.ascii)
			continue
		}
		r, n := utf8.DecodeRuneInString(s[at:])
		w.char(t, s[at:at+n], r, at)
		at += n
	}
	w.flush()
	return w.e.Done()
}

// char treats one character, that is not of ASCII or one to be removed.
func (w *bertWorker) char(t *aligned.Text, char string, r rune, at int) {
	c := w.k.Of(r)
	if w.clean {
		switch {
		case c&chars.Other != 0 || r == utf8.RuneError:
			return
		case c&chars.Space != 0:
			w.flush()
			w.e.Rune(' ', t.Span(at, at+len(char)))
			return
		}
	}
	place := t.Span(at, at+len(char))
	switch {
	case w.chinese && isChinese(r):
		w.flush()
		w.e.Rune(' ', place)
		if w.accents && c&chars.Decomposes != 0 {
			decompose(nfd, w.k, char, r, func(d rune, _ uint8, _ bool) { w.e.Rune(d, place) })
		} else {
			w.e.Put(char, place)
		}
		w.e.Rune(' ', place)
	case !w.accents:
		w.put(char, r, c, place)
	case c&(chars.Decomposes|chars.Combining) == 0 && !isHangul(r):
		w.flush()
		if c&chars.Nonspacing == 0 {
			w.put(char, r, c, place)
		}
	default:
		w.queue = append(w.queue, place)
		decompose(nfd, w.k, char, r, func(d rune, class uint8, added bool) {
			if class == 0 {
				w.sorted()
			}
			w.marks = append(w.marks, mark{d, class, added})
		})
	}
}

// put writes a character in lower case.
func (w *bertWorker) put(char string, r rune, c chars.Class, place aligned.Span) {
	if w.lower && c&chars.Lower != 0 {
		w.e.String(w.k.Lowercase(r), place)
		return
	}
	w.e.Put(char, place)
}

// flush writes what waits.
func (w *bertWorker) flush() {
	if len(w.marks) > 0 {
		w.sorted()
	}
}

// sorted writes the marks that wait in their order, without those that take no space. Each that replaces a character
// has the place of the next of these, whichever it came from, as in the library.
func (w *bertWorker) sorted() {
	sortMarks(w.marks)
	used := 0
	for _, m := range w.marks {
		if !m.added && used < len(w.queue) {
			w.last = w.queue[used]
			used++
		}
		c := w.k.Of(m.r)
		if c&chars.Nonspacing == 0 {
			w.put(string(m.r), m.r, c, w.last)
		}
	}
	w.marks = w.marks[:0]
	w.queue = w.queue[:copy(w.queue, w.queue[used:])]
}

// isChinese reports whether BERT takes a character for Chinese: it is in a block of Han characters.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4dbf, 0x4e00 <= r && r <= 0x9fff, 0xf900 <= r && r <= 0xfaff, 0x20000 <= r && r <= 0x2a6df,
		0x2a700 <= r && r <= 0x2b81f, 0x2b920 <= r && r <= 0x2ceaf, 0x2f800 <= r && r <= 0x2fa1f:
		return true
	}
	return false
}
