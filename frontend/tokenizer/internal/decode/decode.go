// Package decode has the decoders of a tokenizer.json: they turn the texts of tokens into text, token by token. The
// text is the same when all tokens are known at once, except that bytes of a character are written when it is complete.
//
// It imports the standard library, and frontend/tokenizer/internal/bytelevel, part and pattern.
package decode

import (
	"encoding/json"
	"strings"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// sink takes the texts of tokens, in order. A text may come in parts: end is set with the last of them. Close says that
// there is nothing more.
type sink interface {
	put(text string, end bool)
	close()
}

// maker makes a decoder whose texts go to the next one. A live one writes bytes of a character as soon as it is
// complete.
type maker func(next sink, live bool) sink

// Decoder is the decoders of a file. It is immutable.
type Decoder struct {
	steps []maker
	clean bool
}

// Parse reads a decoder; null is one that puts spaces between tokens. Errors begin with `where`.
func Parse(raw json.RawMessage, where string) (*Decoder, error) {
	d := &Decoder{}
	if len(raw) == 0 || string(raw) == "null" {
		d.steps = []maker{newSpaces}
	}
	return d, part.Each(raw, where, "decoders", func(o *part.Object) bool {
		read, ok := kinds[o.Type]
		if ok {
			d.steps = append(d.steps, read(o))
		}
		return ok
	})
}

// kinds read the decoders by type. They note errors in the object.
var kinds = map[string]func(o *part.Object) maker{
	"BPEDecoder":   parseBPE,
	"ByteFallback": func(*part.Object) maker { return newByteFallback },
	"ByteLevel":    parseByteLevel,
	"CTC":          parseCTC,
	"Fuse":         func(*part.Object) maker { return newFuse },
	"Metaspace":    parseMetaspace,
	"Replace":      parseReplace,
	"Strip":        parseStrip,
	"WordPiece":    parseWordPiece,
}

// Stream decodes the tokens of one text. It is not safe for concurrent use.
type Stream struct {
	first   sink
	cleaner *cleaner // nil: none
	out     strings.Builder
	closed  bool
}

// Stream begins a text. A live one does not wait for the end of bytes, of which some may turn out to be no characters.
func (d *Decoder) Stream(live bool) *Stream {
	s := &Stream{}
	s.first = &writer{&s.out}
	if d.clean {
		s.cleaner = &cleaner{next: s.first}
		s.first = s.cleaner
	}
	for i := len(d.steps) - 1; i >= 0; i-- {
		s.first = d.steps[i](s.first, live)
	}
	return s
}

// Put adds the text of a token.
func (s *Stream) Put(text string) { s.first.put(text, true) }

// Close says that there are no more tokens. After it there is text that waited for them.
func (s *Stream) Close() {
	if !s.closed {
		s.first.close()
	}
	s.closed = true
}

// Text returns the text since the last call.
func (s *Stream) Text() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

// Skip drops the text so far: what follows is cleaned by itself.
func (s *Stream) Skip() {
	s.out.Reset()
	if s.cleaner != nil {
		s.cleaner.waiting = s.cleaner.waiting[:0]
	}
}

// writer is the end of a chain.
type writer struct{ out *strings.Builder }

func (w *writer) put(text string, _ bool) { w.out.WriteString(text) }
func (w *writer) close()                  {}

// whole gathers the parts of a text for a decoder that needs all of it.
type whole struct {
	f      func(text string) // called with each whole text
	parts  []byte
	waited bool
	next   sink
}

func (w *whole) put(text string, end bool) {
	if !end || w.waited {
		w.parts, w.waited = append(w.parts, text...), true
		if !end {
			return
		}
		text = string(w.parts)
		w.parts, w.waited = w.parts[:0], false
	}
	w.f(text)
}

func (w *whole) close() { w.next.close() }

// each is a decoder that changes the texts of tokens by themselves.
func each(f func(text string) string) maker {
	return func(next sink, _ bool) sink {
		return &whole{f: func(text string) { next.put(f(text), true) }, next: next}
	}
}

// spaces puts a space between texts.
type spaces struct {
	next  sink
	begun bool // of the text that comes
	some  bool
}

func newSpaces(next sink, _ bool) sink { return &spaces{next: next} }

func (s *spaces) put(text string, end bool) {
	if s.some && !s.begun {
		text = " " + text
	}
	s.some, s.begun = true, !end
	s.next.put(text, end)
}

func (s *spaces) close() { s.next.close() }

// fuse makes all texts one.
type fuse struct{ next sink }

func newFuse(next sink, _ bool) sink { return &fuse{next} }

func (f *fuse) put(text string, _ bool) { f.next.put(text, false) }
func (f *fuse) close() {
	f.next.put("", true)
	f.next.close()
}
