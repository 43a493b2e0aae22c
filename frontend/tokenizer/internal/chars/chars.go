// Package chars has the classes of characters that Hugging Face's tokenizers works with. They follow several versions
// of Unicode, since the parts of that library do: normal forms, combining marks and punctuation are those of Unicode 9,
// scripts of Unicode 10, and white space, numbers, words and lower case of 16 or 17. So they are not taken from Go's
// tables: chars.txt has what the library answers for each code point, and chars.py writes it.
//
// utf8.RuneError, the character that decoding gives for an invalid byte, has the classes of U+FFFD.
package chars

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Class is a set of classes, one bit each. The bits above them are the number of a script.
type Class uint32

// The classes.
const (
	Space          Class = 1 << iota // white space
	Punctuation                      // categories P, and all of ASCII that is no letter, digit, control or space
	Numeric                          // categories N
	Word                             // what \w of regular expressions has
	Other                            // categories Cc, Cf, Co: BERT removes them
	Nonspacing                       // category Mn
	Mark                             // categories M
	Lower                            // has another lower case
	Decomposes                       // NFD changes it; without syllables of Hangul
	DecomposesK                      // NFKD changes it; without syllables of Hangul
	Combining                        // has a combining class above 0
	Excluded                         // NFC changes it
	ExcludedK                        // NFKC changes it
	Second                           // is the second part of a composition of NFC
	Attach                           // belongs to the grapheme cluster of the character before it
	Control                          // is a grapheme cluster of its own
	Prepend                          // belongs to the grapheme cluster of the character behind it
	Pictograph                       // Extended_Pictographic
	Extend                           // the part of Attach between pictographs that are joined
	Linker                           // joins Consonants
	ConjunctExtend                   // the part of Attach between consonants that are joined
	Consonant                        // Indic consonants of conjuncts
	scripts        = iota
)

var names = []string{"space", "punctuation", "numeric", "word", "other", "nonspacing", "mark", "lower", "decomposes",
	"decomposes-k", "class", "excluded", "excluded-k", "second", "attach", "control", "prepend", "pictograph", "extend",
	"linker", "conjunct-extend",
	"consonant"}

// Script returns the number of the script of UnicodeScripts; 0 for characters that are of any script.
func (c Class) Script() int { return int(c >> scripts) }

const (
	blockBits = 6
	blockSize = 1 << blockBits
)

// Table has the classes of all characters. It does not change.
type Table struct {
	ascii [utf8.RuneSelf]Class
	block [(utf8.MaxRune + 1) / blockSize]uint16
	class []Class // of blocks
	lower map[rune]string
}

// Of returns the classes of a character.
func (t *Table) Of(r rune) Class {
	if uint32(r) > utf8.MaxRune {
		r = utf8.RuneError
	}
	return t.class[int(t.block[r>>blockBits])<<blockBits|int(r&(blockSize-1))]
}

// ASCII returns the classes of a byte below utf8.RuneSelf.
func (t *Table) ASCII(b byte) Class { return t.ascii[b&(utf8.RuneSelf-1)] }

// Lowercase returns the lower case of a character of class Lower.
func (t *Table) Lowercase(r rune) string { return t.lower[r] }

//go:embed chars.txt
var text string

// Load returns the table. It is made at the first call.
var Load = sync.OnceValue(func() *Table {
	t, err := parse(text)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return t
})

func parse(text string) (*Table, error) {
	all := make([]Class, utf8.MaxRune+1)
	t := &Table{lower: map[rune]string{}}
	for line := range strings.Lines(text) {
		name, values, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasPrefix(name, "#"):
		case name == "lowercase":
			if err := t.parseLower(values, all); err != nil {
				return nil, err
			}
		default:
			class, err := byName(name)
			if err == nil {
				err = parseRanges(values, class, all)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	t.fill(all)
	return t, nil
}

func byName(name string) (Class, error) {
	if number, ok := strings.CutPrefix(name, "script "); ok {
		n, err := strconv.ParseUint(number, 10, 32-scripts)
		return Class(n << scripts), err
	}
	for i, n := range names {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("chars: no class is %q", name)
}

func parseRanges(values string, class Class, all []Class) error {
	for part := range strings.SplitSeq(values, " ") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseUint(from, 16, 21)
		b, errB := strconv.ParseUint(to, 16, 21)
		if errA != nil || errB != nil || b > utf8.MaxRune {
			return fmt.Errorf("chars: %q is not a range of code points", part)
		}
		for i := a; i <= b; i++ {
			all[i] |= class
		}
	}
	return nil
}

func (t *Table) parseLower(values string, all []Class) error {
	for part := range strings.SplitSeq(values, " ") {
		from, to, _ := strings.Cut(part, ">")
		r, err := strconv.ParseUint(from, 16, 20)
		if err != nil {
			return err
		}
		var out []rune
		for one := range strings.SplitSeq(to, "+") {
			c, err := strconv.ParseUint(one, 16, 20)
			if err != nil {
				return err
			}
			out = append(out, rune(c))
		}
		all[r] |= Lower
		t.lower[rune(r)] = string(out)
	}
	return nil
}

// fill stores equal blocks once.
func (t *Table) fill(all []Class) {
	copy(t.ascii[:], all)
	seen := map[[blockSize]Class]uint16{}
	even := map[Class]uint16{} // blocks of equal characters: most of them
	store := func(b *[blockSize]Class) uint16 {
		k := uint16(len(t.class) / blockSize)
		t.class = append(t.class, b[:]...)
		return k
	}
	for i := range t.block {
		b := (*[blockSize]Class)(all[i<<blockBits:])
		var k uint16
		var ok bool
		if isEven(b) {
			if k, ok = even[b[0]]; !ok {
				k = store(b)
				even[b[0]] = k
			}
		} else if k, ok = seen[*b]; !ok {
			k = store(b)
			seen[*b] = k
		}
		t.block[i] = k
	}
}

// isEven reports whether all characters of a block have the same classes.
func isEven(b *[blockSize]Class) bool {
	for _, c := range b {
		if c != b[0] {
			return false
		}
	}
	return true
}
