package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/tokenizer"
)

// language makes a small language model with a tokenizer in directory lm.
func language(t *testing.T, vocabulary string) {
	t.Helper()
	tokens, err := os.ReadFile("../../../frontend/tokenizer/testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	must(t, "init", "mamba-130m", "-o", "lm", "--set", "vocab_size="+vocabulary, "--set", "hidden_size=8", "--set",
		"num_hidden_layers=1", "--set", "state_size=4")
	if err := os.WriteFile(filepath.Join("lm", "tokenizer.json"), tokens, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestGenerate continues texts and tokens, from a directory and from a plan.
func TestGenerate(t *testing.T) {
	language(t, "424")
	draw := []string{"--temperature", "1", "--top-k", "50", "--top-p", "0.9", "--seed", "3", "--max-new-tokens", "12"}
	text := must(t, append([]string{"generate", "lm", "--prompt", "The quick"}, draw...)...)
	if !strings.HasPrefix(text, "The quick") || len(text) < len("The quick")+5 {
		t.Errorf("found %q", text)
	}
	if again := must(t, append([]string{"generate", "lm", "--prompt", "The quick"}, draw...)...); again != text {
		t.Errorf("the same seed gives %q, then %q", text, again)
	}
	must(t, "compile", "lm", "-o", "lm.essm")
	if plan := must(t, append([]string{"generate", "lm.essm", "--tokenizer", "lm/tokenizer.json", "--prompt", "The quick"},
		draw...)...); plan != text {
		t.Errorf("the plan gives %q, the directory %q", plan, text)
	}
	numbers := must(t, "generate", "lm.essm", "--prompt-ids", "5, 6,7", "--max-new-tokens", "9")
	if n := len(strings.Fields(numbers)); n != 9 {
		t.Errorf("%d tokens: %q", n, numbers)
	}
	first := strings.Fields(numbers)[0]
	if none := must(t, "generate", "lm.essm", "--prompt-ids", "5,6,7", "--stop", first); none != "\n" {
		t.Errorf("stopped at the first token: %q", none)
	}
	// The end token of a directory: that of generation_config.json comes first.
	for _, end := range []string{`{"eos_token_id": ` + first + `}`, `{"eos_token_id": [423, ` + first + `]}`} {
		if err := os.WriteFile("lm/generation_config.json", []byte(end), 0o666); err != nil {
			t.Fatal(err)
		}
		if none := must(t, "generate", "lm", "--prompt-ids", "5,6,7"); none != "\n" {
			t.Errorf("%s: %q", end, none)
		}
	}
}

// TestGenerateRefused holds the messages for what cannot be continued.
func TestGenerateRefused(t *testing.T) {
	language(t, "300")
	must(t, "init", "image", "-o", "image")
	must(t, "compile", "lm", "-o", "lm.essm")
	if err := os.WriteFile("bad.json", []byte(`{"model": {"type": "Unigram"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"generate lm":                                          "expected one of --prompt and --prompt-ids",
		"generate lm --prompt a --prompt-ids 1":                "expected one of --prompt and --prompt-ids",
		"generate lm --prompt a":                               "lm/tokenizer.json: does not fit the model: it has tokens up to 421, and the model 300 logits",
		"generate lm.essm --prompt a":                          "lm.essm: expected a language model with its tokenizer.json, found no tokenizer.json; name it with --tokenizer FILE, or give tokens with --prompt-ids",
		"generate image --prompt a":                            "image: not a language model: expected one input of tokens",
		"generate image --prompt-ids 1":                        "image: not a language model: expected one input of tokens",
		"generate lm --prompt a --tokenizer bad.json":          "bad.json: model: vocab: expected pairs of a text and a score, found none",
		"generate lm --prompt a --tokenizer none.json":         "none.json",
		"generate lm --prompt-ids 1 --tokenizer bad.json":      "--tokenizer needs --prompt",
		"generate lm --prompt-ids 1,x":                         "--prompt-ids: expected tokens separated by commas",
		"generate lm --prompt-ids 1 --stop x":                  "--stop x: expected tokens separated by commas, as in 12,7,3, found \"x\"",
		"generate lm --prompt-ids 1,300":                       "--prompt-ids: token 1 is 300, which is outside of the vocabulary, 0 to 299",
		"generate lm --prompt-ids 1 --temperature -1":          "temperature: expected a number of at least 0, found -1",
		"generate lm --prompt-ids 1 --top-p 0.5":               "--temperature: expected a number above 0",
		"generate lm --prompt-ids 1 --max-new-tokens 99999999": "--max-new-tokens: expected 1 to 16777216, found 99999999",
		"generate lm --prompt-ids 1 --max-new-tokens 0":        "expected an integer of at least 1",
	} {
		code, stdout, stderr := essmc(strings.Fields(line)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("essmc %s: code %d, %q, %q; expected %s", line, code, stdout, stderr, want)
		}
	}
}

// TestGenerateCharacters holds that characters of several tokens are written whole.
func TestGenerateCharacters(t *testing.T) {
	var file struct {
		Model struct{ Vocab map[string]int64 }
	}
	b, err := os.ReadFile("../../../frontend/tokenizer/testdata/tokenizer.json")
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := openTokenizer("../../../frontend/tokenizer/testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	encode := func(text string) []int64 {
		e, err := k.EncodeText(t.Context(), text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e.IDs
	}
	out := newTokenWriter(&w, k, nil)
	for _, token := range encode("a😀b") {
		if err := out.put(token); err != nil {
			t.Fatal(err)
		}
		if s := w.String(); strings.ContainsRune(s, '\uFFFD') {
			t.Fatalf("part of a character: %q", s)
		}
	}
	for _, token := range encode("😀")[:2] { // an end within a character, and a token without text
		if err := out.put(token); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.put(9999); err != nil {
		t.Fatal(err)
	}
	if err := out.end(); err != nil {
		t.Fatal(err)
	}
	if s := w.String(); s != "a😀b\uFFFD\uFFFD\n" {
		t.Errorf("found %q", s)
	}
}
