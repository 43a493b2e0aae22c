package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configCase is a directory with a tokenizer_config.json, and what transformers answers for it; testdata/configs/make.py writes
// them.
type configCase struct {
	Pipeline    string
	Config      json.RawMessage
	NoProcessor bool   `json:"no_processor"` // the tokenizer.json has no post-processor
	Class       string // of transformers
	IDs         [][]int64
	Pair        []int64
	Decoded     []string
	Skip        []string // decoded without special tokens
}

// dir writes the directory.
func (c *configCase) dir(t *testing.T) string {
	dir := t.TempDir()
	file := content(t, filepath.Join("testdata", "pipelines", c.Pipeline, FileName))
	if c.NoProcessor {
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(file, &parts); err != nil {
			t.Fatal(err)
		}
		delete(parts, "post_processor")
		var err error
		if file, err = json.Marshal(parts); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string][]byte{FileName: file, ConfigName: c.Config} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestConfigs compares directories with transformers: add_bos_token and add_eos_token change nothing beside a tokenizer.json, and
// clean_up_tokenization_spaces changes decoded texts, except with BPE.
func TestConfigs(t *testing.T) {
	var all struct {
		Texts []string
		Cases []configCase
	}
	if err := json.Unmarshal(content(t, "testdata/configs/configs.json"), &all); err != nil || len(all.Cases) < 70 {
		t.Fatal(err, len(all.Cases))
	}
	for _, c := range all.Cases {
		tok, err := ReadDir(c.dir(t))
		if err != nil {
			t.Fatalf("%s: %v", c.Config, err)
		}
		for i, text := range all.Texts {
			if c.Class == "LlamaTokenizer" && strings.HasPrefix(text, " ") {
				continue // this class has a pre-tokenizer of its own in place of the file's, which adds no second space there
			}
			if got := ids(t, tok, text); !slices.Equal(got, c.IDs[i]) {
				t.Errorf("%s, %s (%s): %q: ids %v, expected %v", c.Pipeline, c.Config, c.Class, text, got, c.IDs[i])
			}
			for skip, want := range map[bool]string{false: c.Decoded[i], true: c.Skip[i]} {
				if got := tok.Decode(c.IDs[i], skip); got != want {
					t.Errorf("%s, %s (%s): %q: decoded as %q, expected %q", c.Pipeline, c.Config, c.Class, text, got, want)
				}
			}
			if got := stream(tok, c.IDs[i]); got != c.Decoded[i] && !strings.Contains(c.Decoded[i], "\uFFFD") {
				t.Errorf("%s, %s (%s): %q: decoded one by one as %q, expected %q", c.Pipeline, c.Config, c.Class, text, got, c.Decoded[i])
			}
		}
		e, err := tok.EncodePair(t.Context(), all.Texts[0], all.Texts[1], Options{})
		if err != nil || !slices.Equal(e.IDs, c.Pair) {
			t.Errorf("%s, %s (%s): a pair: ids %v, %v, expected %v", c.Pipeline, c.Config, c.Class, e.IDs, err, c.Pair)
		}
	}
}

// TestSkip decodes behind a prompt, none of whose text may come.
func TestSkip(t *testing.T) {
	c := configCase{Pipeline: "bert", Config: json.RawMessage(`{"clean_up_tokenization_spaces": true}`)}
	tok, err := ReadDir(c.dir(t))
	if err != nil {
		t.Fatal(err)
	}
	if !tok.Config().CleanSpaces {
		t.Error("spaces are not cleaned")
	}
	all := ids(t, tok, "a tree 's it 've")
	all = all[1 : len(all)-1] // without [CLS] and [SEP]
	whole := tok.Decode(all, false)
	if whole != "a tree's it've" {
		t.Fatalf("decoded as %q", whole)
	}
	for n := range len(all) + 1 {
		d := tok.NewDecoder(false)
		d.Skip(all[:n])
		var b strings.Builder
		for _, id := range all[n:] {
			b.WriteString(d.Next(id))
		}
		b.WriteString(d.Flush())
		if rest := strings.TrimLeft(b.String(), " "); !strings.HasSuffix(strings.ReplaceAll(whole, " ", ""), strings.ReplaceAll(rest, " ", "")) ||
			n == len(all) && rest != "" {
			t.Errorf("behind %d tokens: %q, expected the end of %q", n, rest, whole)
		}
	}
}
