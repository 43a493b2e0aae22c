package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/worktime"
)

// pipelines are tokenizers configured as those of published models; testdata/pipelines/make.py makes them.
var pipelines = []string{"bert", "roberta", "gpt2", "llama2", "llama3", "qwen", "t5", "xlmr", "clip", "modernbert", "deberta",
	"whisper", "albert", "mamba"}

// answer is what the tokenizers library answers.
type answer struct {
	IDs           []int64  `json:"ids"`
	Tokens        []string `json:"tokens"`
	Offsets       [][2]int `json:"offsets"`
	TypeIDs       []int64  `json:"type_ids"`
	AttentionMask []int64  `json:"attention_mask"`
	Special       []int64  `json:"special"`
	Words         []*int   `json:"words"` // null or -1: none
	Text          string   `json:"text"`
	TextSkip      string   `json:"text_skip"`
}

func (a *answer) differs(e *Encoding) error {
	words := make([]int, len(a.Words))
	for i, w := range a.Words {
		words[i] = -1
		if w != nil {
			words[i] = *w
		}
	}
	offsets := make([]Offset, len(a.Offsets))
	for i, o := range a.Offsets {
		offsets[i] = Offset{o[0], o[1]}
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"ids", e.IDs, a.IDs}, {"tokens", e.Tokens(), a.Tokens}, {"offsets", e.Offsets, offsets}, {"type ids", e.TypeIDs, a.TypeIDs},
		{"attention mask", e.AttentionMask, a.AttentionMask}, {"special mask", e.SpecialMask, a.Special}, {"words", e.Words, words},
	} {
		g, w := reflect.ValueOf(c.got), reflect.ValueOf(c.want)
		for i := range max(g.Len(), w.Len()) {
			if i >= g.Len() || i >= w.Len() || !g.Index(i).Equal(w.Index(i)) {
				part := func(v reflect.Value) any { return v.Slice(min(i, v.Len()), min(i+8, v.Len())).Interface() }
				return fmt.Errorf("%s differ from token %d on: %.300q, expected %.300q (%d tokens, expected %d)", c.name, i,
					fmt.Sprint(part(g)), fmt.Sprint(part(w)), g.Len(), w.Len())
			}
		}
	}
	return nil
}

// jsonLines calls f with each line of a file, which may be compressed.
func jsonLines[T any](t testing.TB, path string, f func(i int, v T)) {
	t.Helper()
	r := bufio.NewReaderSize(bytes.NewReader(content(t, path)), 1<<20)
	for i := 0; ; i++ {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var v T
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			f(i, v)
		}
		if err != nil {
			break
		}
	}
}

// content reads a file, or the compressed one beside it.
func content(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err := os.Open(path + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hardLine is a text: a JSON string, or an object with its bytes if it is not UTF-8.
type hardLine string

func (l *hardLine) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(l))
	}
	var o struct{ Bytes []byte }
	err := json.Unmarshal(b, &o)
	*l = hardLine(o.Bytes)
	return err
}

func hardLines(t testing.TB, dir string) []string {
	var lines []string
	jsonLines(t, filepath.Join(dir, "lines.jsonl"), func(_ int, l hardLine) { lines = append(lines, string(l)) })
	return lines
}

func pipeline(t testing.TB, dir, name string) *Tokenizer {
	tok, err := Parse(content(t, filepath.Join(dir, name, FileName)), name)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// pipelineDirs are the folder of the repository and, if the environment names one, a large one of the same form.
func pipelineDirs() []string {
	dirs := []string{filepath.Join("testdata", "pipelines")}
	if dir := os.Getenv("ESSMC_TOKENIZERS"); dir != "" {
		dirs = append(dirs, dir)
	}
	return dirs
}

func eachPipeline(t *testing.T, f func(t *testing.T, dir string, lines []string, tok *Tokenizer)) {
	for _, dir := range pipelineDirs() {
		lines := hardLines(t, dir)
		for _, name := range pipelines {
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) { f(t, filepath.Join(dir, name), lines, pipeline(t, dir, name)) })
		}
	}
}

// TestPipelines compares ids, tokens, offsets, masks, words and decoded texts with the library's, on lines of all kinds.
func TestPipelines(t *testing.T) {
	eachPipeline(t, func(t *testing.T, dir string, lines []string, tok *Tokenizer) {
		wrong, count := 0, 0
		report := func(i int, format string, args ...any) {
			if wrong++; wrong <= 5 {
				t.Errorf("line %d, %.200q: %s", i, lines[i], fmt.Sprintf(format, args...))
			}
		}
		jsonLines(t, filepath.Join(dir, "answers.jsonl"), func(i int, a answer) {
			count++
			e, err := tok.EncodeText(context.Background(), lines[i], Options{})
			if err != nil {
				report(i, "%v", err)
				return
			}
			if err := a.differs(e); err != nil {
				report(i, "%v", err)
				return
			}
			for skip, want := range map[bool]string{false: a.Text, true: a.TextSkip} {
				if got := tok.Decode(a.IDs, skip); got != want {
					report(i, "decoded (skip special: %v) %.300q, expected %.300q", skip, got, want)
					return
				}
			}
		})
		if wrong > 0 || count != len(lines) {
			t.Errorf("%d of %d lines differ, of %d", wrong, count, len(lines))
		}
	})
}

// pipelineCase is a call with options.
type pipelineCase struct {
	A          int  `json:"a"`
	B          *int `json:"b"`
	AddSpecial bool `json:"add_special"`
	Truncation *struct {
		MaxLength           int `json:"max_length"`
		Stride              int
		Strategy, Direction string
	}
	Padding *struct {
		Direction  string
		PadID      int64  `json:"pad_id"`
		PadTypeID  int64  `json:"pad_type_id"`
		PadToken   string `json:"pad_token"`
		Length     int
		MultipleOf int `json:"pad_to_multiple_of"`
	}
	Answer   *answer
	Overflow []answer
	Error    string
	Stream   bool
	Skip     bool
	Pieces   []*string
}

func (c *pipelineCase) options() Options {
	o := Options{NoSpecialTokens: !c.AddSpecial}
	if tr := c.Truncation; tr != nil {
		o.Truncation = &Truncation{MaxLength: tr.MaxLength, Stride: tr.Stride, Left: tr.Direction == "left", Overflow: true,
			Strategy: Strategy(slices.Index([]string{"longest_first", "only_first", "only_second"}, tr.Strategy))}
	}
	if p := c.Padding; p != nil {
		o.Padding = &Padding{Length: p.Length, MultipleOf: p.MultipleOf, Left: p.Direction == "left", ID: p.PadID, TypeID: p.PadTypeID, Token: p.PadToken}
	}
	return o
}

// TestPipelineCases compares pairs, truncation, padding, and decoding token by token.
func TestPipelineCases(t *testing.T) {
	eachPipeline(t, func(t *testing.T, dir string, lines []string, tok *Tokenizer) {
		wrong := 0
		jsonLines(t, filepath.Join(dir, "cases.jsonl"), func(i int, c pipelineCase) {
			if err := c.compare(tok, lines); err != nil {
				if wrong++; wrong <= 5 {
					t.Errorf("case %d, %+v: %v", i, c.options(), err)
				}
			}
		})
		if wrong > 0 {
			t.Errorf("%d cases differ", wrong)
		}
	})
}

func (c *pipelineCase) compare(tok *Tokenizer, lines []string) error {
	var e *Encoding
	var err error
	if c.B != nil {
		e, err = tok.EncodePair(context.Background(), lines[c.A], lines[*c.B], c.options())
	} else {
		e, err = tok.EncodeText(context.Background(), lines[c.A], c.options())
	}
	if c.Error != "" {
		if err == nil && !strings.HasPrefix(c.Error, "tokenizer stride set to") {
			return fmt.Errorf("no error, but the library refuses: %s", c.Error)
		}
		return nil
	}
	if err != nil && refusedHere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Answer.differs(e); err != nil {
		return err
	}
	if len(e.Overflow) != len(c.Overflow) {
		return fmt.Errorf("%d encodings of overflow, expected %d", len(e.Overflow), len(c.Overflow))
	}
	for i, o := range c.Overflow {
		if err := o.differs(e.Overflow[i]); err != nil {
			return fmt.Errorf("overflow %d: %w", i, err)
		}
	}
	if c.Stream && c.Pieces != nil {
		return c.streamed(tok, e.IDs)
	}
	return nil
}

// refusedHere reports errors about options that the library accepts: strides that leave no new token, which it refuses
// only if a text is cut, and then by a panic; and overflow of very many parts.
func refusedHere(err error) bool {
	return strings.HasPrefix(err.Error(), "truncation: Stride: ") || strings.HasPrefix(err.Error(), "overflow: expected at most ")
}

// streamed compares decoding token by token with the library's. What it never prints is what an unfinished character at
// the end has left, which Flush returns here.
func (c *pipelineCase) streamed(tok *Tokenizer, ids []int64) error {
	var got, want strings.Builder
	d := tok.NewDecoder(c.Skip)
	for i, id := range ids {
		got.WriteString(d.Next(id))
		if c.Pieces[i] != nil {
			want.WriteString(*c.Pieces[i])
		}
	}
	if whole := got.String() + d.Flush(); !strings.HasPrefix(whole, want.String()) {
		return fmt.Errorf("token by token %.300q, expected %.300q", whole, want.String())
	}
	return nil
}

// BenchmarkPipelines encodes the lines, on one thread, with offsets; testdata/pipelines/speed.py measures the library. Both count
// the processor time of the process, which other work on the machine changes least.
func BenchmarkPipelines(b *testing.B) {
	dirs := pipelineDirs()
	dir := dirs[len(dirs)-1]
	lines := hardLines(b, dir)
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	for _, name := range pipelines {
		b.Run(name, func(b *testing.B) {
			tok := pipeline(b, dir, name)
			runtime.GC()
			start := worktime.Now()
			for b.Loop() {
				if _, err := tok.Encode(context.Background(), lines, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/1e6/(worktime.Now()-start).Seconds(), "MB/s")
		})
	}
}
