package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pieces is a small tokenizer of the kind of BERT's.
const pieces = `{"version":"1.0","truncation":null,"padding":null,
"added_tokens":[{"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
{"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
{"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
{"id":3,"content":"[SEP]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"state":4,"##s":5,"are":6,"small":7,".":8,"cafe":9}}}`

func tokenizerDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json": pieces,
		"lines":          "states\n\n small",
		// A model that multiplies the tokens by the mask, and adds the types.
		"model.txt": `<ir_version: 10, opset_import: ["" : 22]> g (int64[N, T] input_ids, int32[N, T] attention_mask, int64[N, T] token_type_ids)
			=> (int64[N, T] y) { m = Cast <to = 7> (attention_mask) p = Mul (input_ids, m) y = Add (p, token_type_ids) }`,
		"ids.txt":   `<ir_version: 10, opset_import: ["" : 22]> g (int64[N, T] tokens) => (int64[N, T] y) { y = Neg (tokens) }`,
		"other.txt": `<ir_version: 10, opset_import: ["" : 22]> g (float[N, T] x) => (float[N, T] y) { y = Neg (x) }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTokenize(t *testing.T) {
	dir := tokenizerDir(t)
	file := filepath.Join(dir, "tokenizer.json")
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{file, "--text", "Small café."}, `
  id  token    bytes  type  mask
   2  "[CLS]"    0–0     0     1
   7  "small"    0–5     0     1
   9  "cafe"    6–11     0     1
   8  "."      11–12     0     1
   3  "[SEP]"    0–0     0     1
`},
		{"", []string{dir, "--text", "states", "--pair", "are small", "--json"}, `
{"ids":[2,4,5,3,6,7,3],"tokens":["[CLS]","state","##s","[SEP]","are","small","[SEP]"],"offsets":[[0,0],[0,5],[5,6],[0,0],[0,3],[4,9],[0,0]],"type_ids":[0,0,0,0,1,1,1],"attention_mask":[1,1,1,1,1,1,1]}
`},
		{"", []string{dir, "--text", "@" + filepath.Join(dir, "lines"), "--json"}, `
{"ids":[2,4,5,3],"tokens":["[CLS]","state","##s","[SEP]"],"offsets":[[0,0],[0,5],[5,6],[0,0]],"type_ids":[0,0,0,0],"attention_mask":[1,1,1,1]}
{"ids":[2,3],"tokens":["[CLS]","[SEP]"],"offsets":[[0,0],[0,0]],"type_ids":[0,0],"attention_mask":[1,1]}
{"ids":[2,7,3],"tokens":["[CLS]","small","[SEP]"],"offsets":[[0,0],[1,6],[0,0]],"type_ids":[0,0,0],"attention_mask":[1,1,1]}
`},
		{"<x>\r\n", []string{dir, "--json"}, `
{"ids":[2,1,1,1,3],"tokens":["[CLS]","[UNK]","[UNK]","[UNK]","[SEP]"],"offsets":[[0,0],[0,1],[1,2],[2,3],[0,0]],"type_ids":[0,0,0,0,0],"attention_mask":[1,1,1,1,1]}
`},
		{"", []string{dir, "--json"}, "\n"},
	} {
		code, stdout, stderr := essmcWith(strings.NewReader(c.stdin), append([]string{"tokenize"}, c.args...)...)
		if code != 0 || "\n"+stdout != c.want {
			t.Errorf("tokenize %q: exit code %d, %s\n%s\nexpected:%s", c.args, code, stderr, stdout, c.want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{filepath.Join(dir, "nothing")}, "no such file"},
		{[]string{t.TempDir()}, "holds no tokenizer.json"},
		{[]string{dir, "--text", "@" + filepath.Join(dir, "nothing")}, "no such file"},
		{[]string{dir, "--text", "a", "--text", "b", "--text", "c", "--pair", "@" + filepath.Join(dir, "lines")}, ""},
		{[]string{dir, "--text", "a", "--text", "b", "--pair", "@" + filepath.Join(dir, "lines")},
			"--pair: expected one text, or one for each of 2 texts, found 3"},
		{[]string{filepath.Join(dir, "lines")}, "lines: "},
	} {
		code, _, stderr := essmcWith(strings.NewReader("x"), append([]string{"tokenize"}, c.args...)...)
		if (code != 0) != (c.want != "") || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("tokenize %q: exit code %d and %q, expected %q", c.args, code, stderr, c.want)
		}
	}
}

// TestRunText checks that texts fill the inputs of a model that are named after what a tokenizer gives.
func TestRunText(t *testing.T) {
	dir := tokenizerDir(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	out := in("y.csv")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{in("model.txt"), "--text", "states are", "--text", "small"}, "2,4,5,6,3\n2,7,3,0,0\n"},
		{[]string{in("model.txt"), "--text", "@" + in("lines"), "--tokenizer", in("tokenizer.json")}, "2,4,5,3\n2,3,0,0\n2,7,3,0\n"},
		{[]string{in("ids.txt"), "--text", "small"}, "-2,-7,-3\n"},
		{[]string{in("model.txt"), "--text", "small", "--input", "attention_mask=[[1,1,1]]"}, ""},
	} {
		code, _, stderr := essmc(append(append([]string{"run"}, c.args...), "--output", out, "--force")...)
		if c.want == "" {
			if code == 0 || !strings.Contains(stderr, `input "attention_mask" is filled by --text`) {
				t.Errorf("run %q: exit code %d, %s", c.args, code, stderr)
			}
			continue
		}
		b, err := os.ReadFile(out)
		if code != 0 || err != nil || string(b) != c.want {
			t.Errorf("run %q: exit code %d, %s, %v: %q, expected %q", c.args, code, stderr, err, b, c.want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{in("other.txt"), "--text", "small"}, "--text: expected a model with an input input_ids of tokens, found x"},
		{[]string{in("model.txt"), "--tokenizer", dir}, "--tokenizer needs --text"},
		{[]string{in("model.txt"), "--text", "small", "--tokenizer", in("nothing")}, "no such file"},
	} {
		code, _, stderr := essmc(append([]string{"run"}, c.args...)...)
		if code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("run %q: exit code %d and %q, expected %q", c.args, code, stderr, c.want)
		}
	}
}
