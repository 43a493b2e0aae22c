package decode

import (
	"context"
	"strings"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// parseReplace reads the decoder that replaces what a pattern matches.
func parseReplace(o *part.Object) maker {
	o.Need("pattern", "content")
	p := o.Pattern("pattern")
	content := o.String("content", "")
	return func(next sink, _ bool) sink {
		m := p.Matcher()
		return each(func(text string) string {
			m.Reset(context.Background(), text)
			var out strings.Builder
			at := 0
			for {
				from, to, ok := m.Find()
				if !ok {
					break
				}
				out.WriteString(text[at:from])
				out.WriteString(content)
				at = to
			}
			if at == 0 && out.Len() == 0 {
				return text
			}
			out.WriteString(text[at:])
			return out.String()
		})(next, false)
	}
}

// parseMetaspace reads the decoder that makes spaces of a character, and nothing of it in the first text.
func parseMetaspace(o *part.Object) maker {
	mark := o.Char("replacement", "▁")
	o.String("str_rep", "")
	scheme := o.Choice("prepend_scheme", "always", "always", "first", "never")
	if !o.Bool("add_prefix_space", scheme != "never") {
		scheme = "never"
	}
	o.Bool("split", true)
	return func(next sink, _ bool) sink {
		first := scheme != "never"
		return each(func(text string) string {
			space := " "
			if first {
				space = ""
			}
			first = false
			return strings.ReplaceAll(text, mark, space)
		})(next, false)
	}
}

// parseWordPiece reads the decoder that puts a space before texts without a prefix, except the first.
func parseWordPiece(o *part.Object) maker {
	prefix := o.String("prefix", "##")
	clean := o.Bool("cleanup", true)
	return func(next sink, _ bool) sink {
		first := true
		return each(func(text string) string {
			if !first {
				if rest, ok := strings.CutPrefix(text, prefix); ok {
					text = rest
				} else {
					text = " " + text
				}
			}
			first = false
			if clean {
				text = cleanup(text)
			}
			return text
		})(next, false)
	}
}

// cleanup takes spaces off before punctuation and English endings.
func cleanup(text string) string {
	if !strings.Contains(text, " ") {
		return text
	}
	for _, c := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
		{" do not", " don't"},
		{" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		text = strings.ReplaceAll(text, c[0], c[1])
	}
	return text
}

// parseCTC reads the decoder that drops repeated texts and a padding token.
func parseCTC(o *part.Object) maker {
	pad := o.String("pad_token", "<pad>")
	word := o.String("word_delimiter_token", "|")
	clean := o.Bool("cleanup", true)
	return func(next sink, _ bool) sink {
		last, some := "", false
		return &whole{next: next, f: func(text string) {
			if some && text == last {
				return
			}
			last, some = text, true
			text = strings.ReplaceAll(text, pad, "")
			if clean {
				text = strings.ReplaceAll(cleanup(text), word, " ")
			}
			if text != "" {
				next.put(text, true)
			}
		}}
	}
}

// bpe puts spaces in place of the ends of words, except in the last text.
type bpe struct {
	next    sink
	suffix  string
	waiting string // the last text so far
	some    bool
}

func parseBPE(o *part.Object) maker {
	suffix := o.String("suffix", "</w>")
	return func(next sink, _ bool) sink {
		b := &bpe{next: next, suffix: suffix}
		return &whole{f: b.text, next: b}
	}
}

func (b *bpe) put(string, bool) {}

func (b *bpe) text(s string) {
	if b.some {
		b.next.put(strings.ReplaceAll(b.waiting, b.suffix, " "), true)
	}
	b.waiting, b.some = s, true
}

func (b *bpe) close() {
	if b.some {
		b.next.put(strings.ReplaceAll(b.waiting, b.suffix, ""), true)
	}
	b.next.close()
}

// strip takes a character off at the beginnings and the ends of texts.
type strip struct {
	next        sink
	mark        string
	start, stop int // how many of them at most
	cut         int // how many have been taken off the beginning; -1: another character has come
	held        string
}

// maxStrip is how many characters are taken off an end at most.
const maxStrip = 1 << 16

func parseStrip(o *part.Object) maker {
	o.Need("content", "start", "stop")
	s := strip{mark: o.Char("content", " "), start: o.Int("start", 0), stop: o.Int("stop", 0)}
	for key, n := range map[string]int{"start": s.start, "stop": s.stop} {
		if n < 0 || n > maxStrip {
			o.Fail(key, "expected 0 to %d, found %d", maxStrip, n)
		}
	}
	return func(next sink, _ bool) sink {
		one := s
		one.next = next
		return &one
	}
}

func (s *strip) put(text string, end bool) {
	for s.cut >= 0 && text != "" {
		if s.cut == s.start || !strings.HasPrefix(text, s.mark) {
			s.cut = -1
			break
		}
		text = text[len(s.mark):]
		s.cut++
	}
	text = s.held + text
	n := len(text)
	for k := 0; k < s.stop && strings.HasSuffix(text[:n], s.mark); k++ {
		n -= len(s.mark)
	}
	if !end {
		s.held = text[n:]
		if n > 0 {
			s.next.put(text[:n], false)
		}
		return
	}
	s.held, s.cut = "", 0
	s.next.put(text[:n], true)
}

func (s *strip) close() { s.next.close() }
