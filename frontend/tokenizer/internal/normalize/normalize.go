// Package normalize has the normalizers of a tokenizer.json. They change an aligned.Text as those of Hugging Face's
// tokenizers change a NormalizedString: characters, and the bytes of the original that they come from.
//
// A normalizer treats a byte that is not UTF-8 as U+FFFD, and leaves it as it is where it would leave that character.
// Classes of characters and normal forms are those of the library (package chars), whose versions of Unicode differ
// from Go's. No code point is known to give another answer than the library's: a test goes through all of them. Some
// sequences of normalizers make the library panic, when one adds characters before the first one; they work here.
package normalize

import (
	"context"
	"encoding/json"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// Normalizer changes texts. It does not change itself, and is safe for concurrent use; its workers are not.
type Normalizer struct {
	steps []maker
}

// A step changes a text. It may keep memory for the next one.
type step func(ctx context.Context, t *aligned.Text) error

// A maker makes the step of one worker.
type maker func() step

// simple is a step without memory.
func simple(f func(t *aligned.Text) error) maker {
	return func() step { return func(_ context.Context, t *aligned.Text) error { return f(t) } }
}

// Parse reads a normalizer; null is one that changes nothing. Errors begin with `where`.
func Parse(raw json.RawMessage, where string) (*Normalizer, error) {
	n := &Normalizer{}
	return n, part.Each(raw, where, "normalizers", func(o *part.Object) bool {
		read, ok := kinds[o.Type]
		if ok {
			n.steps = append(n.steps, read(o))
		}
		return ok
	})
}

// kinds read the normalizers by type. They note errors in the object.
var kinds = map[string]func(o *part.Object) maker{
	"BertNormalizer": bert,
	"ByteLevel":      byteLevel,
	"Lowercase":      lowercase,
	"NFC":            func(*part.Object) maker { return nfc.maker() },
	"NFD":            func(*part.Object) maker { return nfd.maker() },
	"NFKC":           func(*part.Object) maker { return nfkc.maker() },
	"NFKD":           func(*part.Object) maker { return nfkd.maker() },
	"Nmt":            nmt,
	"Precompiled":    precompiled,
	"Prepend":        prepend,
	"Replace":        replace,
	"Strip":          strip,
	"StripAccents":   stripAccents,
}

// Identity reports whether the normalizer changes nothing.
func (n *Normalizer) Identity() bool { return len(n.steps) == 0 }

// Worker normalizes texts one after the other, and keeps memory between them. It is not safe for concurrent use.
type Worker struct {
	steps []step
}

// Worker returns a new worker.
func (n *Normalizer) Worker() *Worker {
	w := &Worker{make([]step, len(n.steps))}
	for i, m := range n.steps {
		w.steps[i] = m()
	}
	return w
}

// Normalize changes the text. The errors are those of the context, and that the text has become too long.
func (w *Worker) Normalize(ctx context.Context, t *aligned.Text) error {
	for _, s := range w.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.Len() == 0 {
			return nil
		}
		if err := s(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
