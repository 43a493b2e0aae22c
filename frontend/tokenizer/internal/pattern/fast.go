package pattern

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// The expressions of published tokenizers that have code of their own below. Both ways give the same matches, which a
// test compares.
const (
	// GPT2 is the expression of ByteLevel.
	GPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	// Llama3 is the expression of Llama 3 and of cl100k.
	Llama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// Qwen2 is the expression of Qwen 2, 2.5 and 3.
	Qwen2 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	// CLIP is the expression of CLIP's first files, CLIPSpecial that of later ones.
	CLIP        = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	CLIPSpecial = `<\|startoftext\|>|<\|endoftext\|>|` + CLIP
)

func byHand(expr string) func(text string, from int) int {
	switch expr {
	case GPT2:
		loadKinds()
		return matchGPT2
	case Llama3:
		loadKinds()
		return func(text string, from int) int { return matchLlama3(text, from, 3) }
	case Qwen2:
		loadKinds()
		return func(text string, from int) int { return matchLlama3(text, from, 1) }
	case CLIP:
		loadKinds()
		return matchCLIP
	case CLIPSpecial:
		loadKinds()
		return func(text string, from int) int {
			for _, token := range []string{"<|startoftext|>", "<|endoftext|>"} {
				if strings.HasPrefix(text[from:], token) {
					return from + len(token)
				}
			}
			return matchCLIP(text, from)
		}
	}
	return nil
}

// A charKind is what these expressions tell apart.
type charKind uint8

const (
	other charKind = iota
	letter
	number
	space
	newline // \r and \n, which are space too
)

var (
	asciiKinds [utf8.RuneSelf]charKind
	kindPages  [(lastRune + 1) >> 8]*[256]charKind
	loadKinds  = sync.OnceFunc(func() {
		var none, letters [256]charKind
		for i := range letters {
			letters[i] = letter
		}
		for i := range kindPages {
			kindPages[i] = &none
		}
		fill := func(r []rune, k charKind) {
			for i := 0; i < len(r); i += 2 {
				for c := r[i]; c <= r[i+1]; c++ {
					page := &kindPages[c>>8]
					switch {
					case k == letter && c&0xFF == 0 && c+0xFF <= r[i+1]:
						*page = &letters
						c += 0xFF
						continue
					case *page == &none:
						*page = new([256]charKind)
					}
					(*page)[c&0xFF] = k
				}
			}
		}
		fill(category("L"), letter)
		fill(category("N"), number)
		fill(property("White_Space"), space)
		fill([]rune{'\n', '\n', '\r', '\r'}, newline)
		copy(asciiKinds[:], kindPages[0][:])
	})
)

func kindAt(text string, i int) (charKind, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return asciiKinds[b], 1
	}
	c, n := utf8.DecodeRuneInString(text[i:])
	return kindPages[c>>8][c&0xFF], n
}

// kindRun returns the end of the characters of one kind from i.
func kindRun(text string, i int, k charKind) int {
	for i < len(text) {
		if b := text[i]; b < utf8.RuneSelf {
			if asciiKinds[b] != k {
				return i
			}
			i++
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		if kindPages[c>>8][c&0xFF] != k {
			return i
		}
		i += n
	}
	return i
}

// spaceRun returns the end of the space from i, where its last character begins, and where its last newline ends, or 0.
func spaceRun(text string, i int) (end, last, line int) {
	for i < len(text) {
		k, n := kindAt(text, i)
		if k < space {
			break
		}
		last = i
		i += n
		if k == newline {
			line = i
		}
	}
	return i, last, line
}

// contraction returns the end of 's, 't, 're, 've, 'm, 'll or 'd at i, or -1.
func contraction(text string, i int, anyCase bool) int {
	if i+1 >= len(text) || text[i] != '\'' {
		return -1
	}
	lower := func(b byte) byte {
		if anyCase && b >= 'A' && b <= 'Z' {
			return b | 0x20
		}
		return b
	}
	switch a := lower(text[i+1]); a {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v', 'l':
		if i+2 >= len(text) {
			return -1
		}
		if b := lower(text[i+2]); b == 'e' && a != 'l' || b == 'l' && a == 'l' {
			return i + 3
		}
	}
	if anyCase && strings.HasPrefix(text[i+1:], "ſ") { // whose capital is S
		return i + 1 + len("ſ")
	}
	return -1
}

// spaces matches \s+(?!\S)|\s+ for a run of space.
func spaces(text string, from, end, last int) int {
	if end == len(text) || last == from {
		return end
	}
	return last
}

func matchGPT2(text string, from int) int {
	if end := contraction(text, from, false); end >= 0 {
		return end
	}
	k, n := kindAt(text, from)
	i := from + n
	if text[from] == ' ' && i < len(text) {
		k, n = kindAt(text, i)
		i += n
	}
	if k >= space {
		end, last, _ := spaceRun(text, from)
		return spaces(text, from, end, last)
	}
	return kindRun(text, i, k)
}

func matchLlama3(text string, from, digits int) int {
	if end := contraction(text, from, true); end >= 0 {
		return end
	}
	k, n := kindAt(text, from)
	i := from + n
	switch k {
	case letter:
		return kindRun(text, i, letter)
	case number:
		for ; digits > 1 && i < len(text); digits-- {
			k, n := kindAt(text, i)
			if k != number {
				break
			}
			i += n
		}
		return i
	}
	next, width := other, 0
	if i < len(text) {
		next, width = kindAt(text, i)
	}
	if k != newline && width > 0 && next == letter {
		return kindRun(text, i+width, letter)
	}
	if k == other || text[from] == ' ' && width > 0 && next == other {
		return kindRun(text, kindRun(text, i, other), newline)
	}
	end, last, line := spaceRun(text, from)
	if line > 0 {
		return line
	}
	return spaces(text, from, end, last)
}

func matchCLIP(text string, from int) int {
	if end := contraction(text, from, false); end >= 0 {
		return end
	}
	k, n := kindAt(text, from)
	switch k {
	case space, newline:
		return -1
	case number:
		return from + n
	}
	return kindRun(text, from+n, k)
}
