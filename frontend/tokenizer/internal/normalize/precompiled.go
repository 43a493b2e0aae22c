package normalize

import (
	"context"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// precompiled is Precompiled, the normalizer of sentencepiece: it looks grapheme clusters of less than maxCluster bytes
// up in a charsmap, and then the characters of those that it does not have. What it has is the shortest beginning of
// them, which replaces the whole cluster.
func precompiled(o *part.Object) maker {
	o.Need("precompiled_charsmap")
	text := o.String("precompiled_charsmap", "")
	if o.Err() != nil {
		return nil
	}
	m, err := parseCharsmap(text)
	if err != nil {
		o.Fail("precompiled_charsmap", "%v", err)
		return nil
	}
	k := chars.Load()
	return func() step {
		w := &precompiledWorker{m: m, k: k}
		return func(_ context.Context, t *aligned.Text) error { return w.run(t) }
	}
}

const maxCluster = 6

type precompiledWorker struct {
	m   *charsmap
	k   *chars.Table
	e   *aligned.Edit
	to  aligned.Transform
	any bool // something has been written

	// A character that was added waits: what is removed next makes it a replacement of that.
	waits bool
	last  change
}

func (w *precompiledWorker) run(t *aligned.Text) error {
	s := t.String()
	at := w.unchanged(s, 0)
	if at == len(s) {
		return nil
	}
	w.e, w.waits, w.any = t.Edit(), false, at > 0
	w.e.Keep(0, at)
	w.to = w.e.Transform(at)
	for at < len(s) && !w.e.Over() {
		n := cluster(w.k, s[at:])
		if text, ok := w.whole(s[at : at+n]); ok {
			w.replace(s[at:at+n], text)
			at += n
		} else {
			for end := at + n; at < end; {
				at += w.char(s[at:])
			}
		}
		end := w.unchanged(s, at)
		w.keep(s, at, end)
		at = end
	}
	w.flush()
	return w.e.Done()
}

// unchanged returns where the first cluster begins, from byte `at` on, that has a replacement.
func (w *precompiledWorker) unchanged(s string, at int) int {
	for at < len(s) {
		if s[at] < utf8.RuneSelf && (at+1 == len(s) || s[at+1] < utf8.RuneSelf) {
			if w.m.ascii[s[at]].ok {
				return at
			}
			at++
			continue
		}
		n := cluster(w.k, s[at:])
		if _, ok := w.whole(s[at : at+n]); ok {
			return at
		}
		for i := at; i < at+n; {
			_, size := utf8.DecodeRuneInString(s[i:])
			if _, ok := w.m.find(s[i : i+size]); ok {
				return at
			}
			i += size
		}
		at += n
	}
	return at
}

// whole returns the replacement of a cluster as a whole.
func (w *precompiledWorker) whole(s string) (string, bool) {
	if len(s) >= maxCluster {
		return "", false
	}
	return w.m.find(s)
}

// char writes the first character of s, and returns its length.
func (w *precompiledWorker) char(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if text, ok := w.m.find(s[:n]); ok {
		w.replace(s[:n], text)
	} else {
		w.put(r, 0)
	}
	return n
}

// keep writes the characters from `from` to `to` as they are.
func (w *precompiledWorker) keep(s string, from, to int) {
	if from == to {
		return
	}
	w.flush()
	if w.to.At() == from {
		w.any = true
		w.e.Keep(from, to)
		w.to = w.e.Transform(to)
		return
	}
	for _, r := range s[from:to] { // places have moved: see replace
		w.put(r, 0)
	}
}

// replace writes a replacement: its characters replace those of the old text one by one, what it has more is added, and
// what it has less is removed with the character before. If there is none before, nothing is removed, and all places
// behind it are those of characters before them, as in the library.
func (w *precompiledWorker) replace(old, text string) {
	added := utf8.RuneCountInString(text) - utf8.RuneCountInString(old)
	left := utf8.RuneCountInString(text)
	for _, r := range text {
		if left <= added {
			w.put(r, 1)
		} else {
			w.put(r, 0)
		}
		left--
	}
	switch {
	case added >= 0 || !w.any:
	case w.waits:
		w.last.change += added
	default:
		w.to.Skip(-added)
	}
}

func (w *precompiledWorker) put(r rune, by int) {
	w.flush()
	w.any = true
	if by > 0 {
		w.waits, w.last = true, change{r, by}
		return
	}
	w.to.Rune(r, by)
}

func (w *precompiledWorker) flush() {
	if w.waits {
		w.waits = false
		w.to.Rune(w.last.r, w.last.change)
	}
}
