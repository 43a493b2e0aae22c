// Package normalize has the normalizers of a tokenizer.json. They change an aligned.Text as those of Hugging Face's
// tokenizers change a NormalizedString: characters, and the bytes of the original that they come from.
//
// A normalizer treats a byte that is not UTF-8 as U+FFFD, and leaves it as it is where it would leave that character. Classes
// of characters and normal forms are those of the library (package chars), whose versions of Unicode differ from Go's. No
// code point is known to give another answer than the library's: a test goes through all of them. Some sequences of normalizers
// make the library panic, when one adds characters before the first one; they work here.
package normalize

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pattern"
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
	if len(raw) == 0 || string(raw) == "null" {
		return n, nil
	}
	return n, n.add(raw, where, 0, pattern.NewLimits())
}

// add appends the steps of a part. Sequences in sequences are one sequence.
func (n *Normalizer) add(raw json.RawMessage, where string, depth int, limits *pattern.Limits) error {
	o := part.Read(raw, where)
	o.Limits = limits
	if o.Err() != nil {
		return o.Err()
	}
	if o.Type == "Sequence" {
		if depth == part.MaxDepth {
			return fmt.Errorf("%s: expected at most %d sequences in each other, found more", where, part.MaxDepth)
		}
		o.Need("normalizers")
		for i, one := range o.List("normalizers") {
			if err := n.add(one, fmt.Sprintf("%s.normalizers[%d]", where, i), depth+1, limits); err != nil {
				return err
			}
		}
		return o.Done()
	}
	read, ok := kinds[o.Type]
	if !ok {
		return fmt.Errorf("%s: type %q is not supported", where, o.Type)
	}
	if len(n.steps) == part.MaxParts {
		return fmt.Errorf("%s: expected at most %d normalizers, found more", where, part.MaxParts)
	}
	m := read(o)
	n.steps = append(n.steps, m)
	return o.Done()
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
