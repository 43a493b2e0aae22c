// Package goldens compares normalizers and pre-tokenizers with the answers of Hugging Face's tokenizers (goldens.py).
package goldens

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
)

type answer struct {
	Text   string   // of normalizers
	Pieces []string // of pre-tokenizers
	Places []int32  // starts and ends, of characters or pieces
}

type golden struct {
	Lines         []string
	Normalizers   []oneCase
	PreTokenizers []oneCase `json:"pre_tokenizers"`
	Sweep         []struct {
		Part json.RawMessage
		Sums []uint32
	}
}

type oneCase struct {
	Part    json.RawMessage
	Answers []answer
}

// read reads the file of the repository, or a longer one that goldens.py has written.
func read(t testing.TB) golden {
	t.Helper()
	name := "golden.json.gz"
	if long := os.Getenv("ESSMC_TOKENIZER_GOLDENS"); long != "" {
		name = long
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.NewDecoder(z).Decode(&g); err != nil {
		t.Fatal(err)
	}
	return g
}

// name is a short name of a part, for subtests.
func name(i int, raw json.RawMessage) string {
	return fmt.Sprintf("%d %.60s", i, strings.NewReplacer(`"`, "", `type:`, "").Replace(string(raw)))
}

func TestNormalizers(t *testing.T) {
	g := read(t)
	for i, c := range g.Normalizers {
		t.Run(name(i, c.Part), func(t *testing.T) {
			n, err := normalize.Parse(c.Part, "normalizer")
			if err != nil {
				t.Fatal(err)
			}
			w := n.Worker()
			var text aligned.Text
			bad := 0
			for j, want := range c.Answers {
				text.Reset(g.Lines[j], 0)
				if err := w.Normalize(context.Background(), &text); err != nil {
					t.Fatal(err)
				}
				if got := text.String(); got != want.Text || !slices.Equal(places(&text), want.Places) {
					t.Errorf("%+q:\n got %+q %v\nwant %+q %v", g.Lines[j], got, places(&text), want.Text, want.Places)
					if bad++; bad == 5 {
						t.Fatal("and more")
					}
				}
			}
		})
	}
}

// places returns the places of all characters.
func places(t *aligned.Text) []int32 {
	var all []int32
	s := t.String()
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		p := t.Span(i, i+n)
		all = append(all, p.Start, p.End)
		i += n
	}
	return all
}

func TestPreTokenizers(t *testing.T) {
	g := read(t)
	for i, c := range g.PreTokenizers {
		t.Run(name(i, c.Part), func(t *testing.T) {
			p, err := pretokenize.Parse(c.Part, "pre_tokenizer")
			if err != nil {
				t.Fatal(err)
			}
			s := p.Splitter(false)
			bad := 0
			for j, want := range c.Answers {
				var text aligned.Text
				text.Reset(g.Lines[j], 0)
				if err := s.Split(context.Background(), &text); err != nil {
					t.Fatal(err)
				}
				got := answer{}
				for _, p := range s.Pieces {
					got.Pieces = append(got.Pieces, s.Text.String()[p.From:p.To])
					place := s.Text.Span(int(p.From), int(p.To))
					got.Places = append(got.Places, place.Start, place.End)
				}
				if !slices.Equal(got.Pieces, want.Pieces) || !slices.Equal(got.Places, want.Places) {
					t.Errorf("%+q:\n got %+q %v\nwant %+q %v", g.Lines[j], got.Pieces, got.Places, want.Pieces, want.Places)
					if bad++; bad == 5 {
						t.Fatal("and more")
					}
				}
			}
		})
	}
}

// TestSweep compares what becomes of texts with all code points, alone and before a mark.
func TestSweep(t *testing.T) {
	for i, c := range read(t).Sweep {
		t.Run(name(i, c.Part), func(t *testing.T) {
			answer := sweeper(t, c.Part)
			for j, want := range c.Sums {
				if j >= 64 && j != 0xe0 && os.Getenv("ESSMC_LONG") == "" {
					continue // planes without characters
				}
				var all []string
				for r := rune(j * 4096); r < rune(j+1)*4096; r++ {
					if utf8.ValidRune(r) {
						all = append(all, "a"+string(r)+"b"+string(r)+"\u0301")
					}
				}
				if got := crc32.ChecksumIEEE(answer(strings.Join(all, "\n"))); got != want {
					t.Errorf("characters from %U: the checksum is %08x, and the library's %08x", j*4096, got, want)
				}
			}
		})
	}
}

// sweeper returns a function whose result goldens.py has checksums of.
func sweeper(t *testing.T, raw json.RawMessage) func(string) []byte {
	var text aligned.Text
	if n, err := normalize.Parse(raw, "normalizer"); err == nil && !strings.Contains(string(raw), "ByteLevel") {
		w := n.Worker()
		return func(s string) []byte {
			text.Reset(s, 0)
			if err := w.Normalize(context.Background(), &text); err != nil {
				t.Fatal(err)
			}
			return []byte(text.String())
		}
	}
	p, err := pretokenize.Parse(raw, "pre_tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	split := p.Splitter(false)
	return func(s string) (all []byte) {
		text.Reset(s, 0)
		if err := split.Split(context.Background(), &text); err != nil {
			t.Fatal(err)
		}
		for _, p := range split.Pieces {
			place := split.Text.Span(int(p.From), int(p.To))
			all = binary.LittleEndian.AppendUint32(all, uint32(place.Start))
			all = binary.LittleEndian.AppendUint32(all, uint32(place.End))
		}
		return all
	}
}
