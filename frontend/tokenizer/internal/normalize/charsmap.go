package normalize

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// charsmap is the precompiled_charsmap of sentencepiece: a trie in the form of a double array (Darts), whose values are
// places in a text of replacements, each of which ends with a zero byte. It comes from an untrusted file: each step of
// a search checks that it stays in the array.
type charsmap struct {
	units []uint32
	texts string
	ascii [utf8.RuneSelf]replacement // of each character of ASCII
}

// replacement is what a character becomes, if it is replaced.
type replacement struct {
	text string
	ok   bool
}

// maxReplacement is the largest length of a replacement. The longest one of sentencepiece's rules has 33 bytes.
const maxReplacement = 1024

// parseCharsmap reads a charsmap in base64.
func parseCharsmap(text string) (*charsmap, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("expected base64: %w", err)
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("expected at least 4 bytes, found %d", len(b))
	}
	n := binary.LittleEndian.Uint32(b) / 4
	b = b[4:]
	if n == 0 || int64(n)*4 > int64(len(b)) {
		return nil, fmt.Errorf("expected a trie of 1 to %d units, found %d", len(b)/4, n)
	}
	m := &charsmap{units: make([]uint32, n)}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	m.texts = string(b[4*n:])
	if !utf8.ValidString(m.texts) {
		return nil, fmt.Errorf("expected replacements of UTF-8, found other bytes")
	}
	for one := range strings.SplitSeq(m.texts, "\x00") {
		if len(one) > maxReplacement {
			return nil, fmt.Errorf("expected replacements of at most %d bytes, found %d", maxReplacement, len(one))
		}
	}
	for i := range m.ascii {
		text, ok := m.find(string(rune(i)))
		m.ascii[i] = replacement{text, ok}
	}
	return m, nil
}

// find returns the replacement of the shortest key that a text begins with.
func (m *charsmap) find(s string) (string, bool) {
	at := offset(m.units[0])
	for i := range len(s) {
		c := uint32(s[i])
		at ^= c
		if c == 0 || at >= uint32(len(m.units)) {
			return "", false
		}
		u := m.units[at]
		if u&(1<<31|0xff) != c {
			return "", false
		}
		at ^= offset(u)
		if u>>8&1 == 1 {
			if at >= uint32(len(m.units)) {
				return "", false
			}
			return m.text(m.units[at] & (1<<31 - 1))
		}
	}
	return "", false
}

// offset returns what leads from a unit to those behind it.
func offset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// text returns the replacement that begins at byte i of the texts.
func (m *charsmap) text(i uint32) (string, bool) {
	if i > uint32(len(m.texts)) || int(i) < len(m.texts) && !utf8.RuneStart(m.texts[i]) {
		return "", false
	}
	s := m.texts[i:]
	if end := strings.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	return s, true
}
