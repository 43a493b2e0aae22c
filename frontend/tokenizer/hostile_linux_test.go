package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/worktime"
)

// hostileVariable names the file that a child process reads.
const hostileVariable = "ESSMC_HOSTILE_TOKENIZER"

// hostileReport is what a child tells.
type hostileReport struct {
	Err   string
	Peak  int64 // how much more memory was resident while it read the file, and encoded a text, than before
	Taken time.Duration
}

func TestMain(m *testing.M) {
	if path := os.Getenv(hostileVariable); path != "" {
		before, start := resident("VmRSS:"), worktime.Now()
		r := hostileReport{}
		k, err := ReadFile(path)
		if err == nil {
			_, err = k.Encode(nothing{}, []string{"a text of some words, <s>, and \xff"}, Options{})
		}
		if err != nil {
			r.Err = err.Error()
		}
		r.Peak, r.Taken = resident("VmHWM:")-before, worktime.Now()-start
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// nothing is a context that does not end.
type nothing struct{}

func (nothing) Deadline() (time.Time, bool) { return time.Time{}, false }
func (nothing) Done() <-chan struct{}       { return nil }
func (nothing) Err() error                  { return nil }
func (nothing) Value(any) any               { return nil }

// resident returns a figure of the process's memory in bytes.
func resident(key string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), key)
	kib, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return kib << 10
}

// hostileFiles makes files of about n bytes whose tables grow when they are read.
func hostileFiles(n int) map[string]string {
	const base = `{"version":"1.0","added_tokens":[ADDED],"normalizer":NORM,"pre_tokenizer":PRE,"post_processor":POST,"decoder":DEC,"model":MODEL}`
	file := func(changes ...string) string {
		s := base
		for i := 0; i < len(changes); i += 2 {
			s = strings.Replace(s, changes[i], changes[i+1], 1)
		}
		return strings.NewReplacer("ADDED", "", "NORM", "null", "PRE", "null", "POST", "null", "DEC", "null",
			"MODEL", `{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}`).Replace(s)
	}
	// fill is parts that f makes, with commas, up to n bytes.
	fill := func(f func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(f(i))
		}
		return b.String()
	}
	same := func(s string) func(int) string { return func(int) string { return s } }
	vocab := func(format string) string {
		return fill(func(i int) string { return fmt.Sprintf(format, i, i%MaxTokens) })
	}
	short := func(i int) string { // texts as short as they can be
		const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&()*+,-./:;<=>?@[]^_{|}~"
		s := ""
		for ; i >= 0; i = i/len(digits) - 1 {
			s += digits[i%len(digits) : i%len(digits)+1]
		}
		return s
	}
	bpe := func(vocab, merges string) string {
		return `{"type":"BPE","vocab":{` + vocab + `},"merges":[` + merges + `]}`
	}
	run := func(i int) string { return strings.Repeat("a", i+1) }
	files := map[string]string{
		"ok":           file(),
		"normalizers":  file("NORM", `{"type":"Sequence","normalizers":[`+fill(same(`{}`))+`]}`),
		"lowercase":    file("NORM", `{"type":"Sequence","normalizers":[`+fill(same(`{"type":"Lowercase"}`))+`]}`),
		"keys":         file("NORM", `{"type":"Lowercase",`+fill(func(i int) string { return fmt.Sprintf(`"%x":1`, i) })+`}`),
		"splits":       file("PRE", `{"type":"Sequence","pretokenizers":[`+fill(same(`{"type":"Split","pattern":{"Regex":"(a|b)+c{1,9}"},"behavior":"Isolated","invert":false}`))+`]}`),
		"charsmap":     file("NORM", `{"type":"Precompiled","precompiled_charsmap":"`+strings.Repeat("A", n)+`"}`),
		"template":     file("POST", `{"type":"TemplateProcessing","single":[`+fill(same(`{"Sequence":{"id":"A","type_id":0}}`))+`],"pair":[],"special_tokens":{}}`),
		"decoders":     file("DEC", `{"type":"Sequence","decoders":[`+fill(same(`{"type":"Fuse"}`))+`]}`),
		"nested":       strings.Repeat("[", n),
		"added":        file("ADDED", fill(same(`{}`))),
		"addedmany":    file("ADDED", fill(func(i int) string { return `{"id":0,"content":"` + short(i) + `"}` })),
		"addedlong":    file("ADDED", `{"id":0,"content":"`+strings.Repeat("ab", n/2)+`"}`),
		"addednested":  file("ADDED", fill(func(i int) string { return `{"id":0,"content":"` + run(i) + `"}` })),
		"merges":       file("MODEL", bpe(`"a":0`, fill(same(`1`)))),
		"mergesempty":  file("MODEL", bpe(`"a":0`, fill(same(`[]`)))),
		"mergesequal":  file("MODEL", bpe(`"a":0,"aa":1`, fill(same(`"a a"`)))),
		"vocabmany":    file("MODEL", bpe(vocab(`"%x~":%d`), "")),
		"vocabshort":   file("MODEL", bpe(fill(func(i int) string { return `"` + short(i) + `":1` }), "")),
		"vocabequal":   file("MODEL", bpe(fill(same(`"":0`)), "")),
		"ignoremerges": file("MODEL", `{"type":"BPE","ignore_merges":true,"merges":[],"vocab":{`+fill(func(i int) string { return `"` + short(i) + `":1` })+`}}`),
		"gaps":         file("MODEL", bpe(`"a":0,"b":16777215`, "")),
		"wordpiece":    file("MODEL", `{"type":"WordPiece","continuing_subword_prefix":"0","vocab":{`+fill(func(i int) string { return `"0` + short(i) + `":1` })+`}}`),
		"wordbinary": file("MODEL", `{"type":"WordPiece","continuing_subword_prefix":"a","vocab":{`+fill(func(i int) string {
			return `"a` + strings.NewReplacer("0", "a", "1", "b").Replace(strconv.FormatInt(int64(i+1), 2)) + `":1`
		})+`}}`),
		"unigram":     file("MODEL", `{"type":"Unigram","unk_id":0,"vocab":[`+fill(func(i int) string { return `["` + short(i) + `",0]` })+`]}`),
		"unigramruns": file("MODEL", `{"type":"Unigram","unk_id":0,"vocab":[`+fill(func(i int) string { return `["` + run(i) + `",0]` })+`]}`),
		"unigrampart": file("MODEL", `{"type":"Unigram","vocab":[`+fill(same(`[]`))+`]}`),
		"model":       file("MODEL", `{`+fill(func(i int) string { return fmt.Sprintf(`"%x":1`, i) })+`}`),
		"keysmany":    `{` + fill(func(i int) string { return fmt.Sprintf(`"%x":1`, i) }) + `}`,
	}
	// Merges of all pairs of short tokens, whose unions are in the vocabulary.
	var tokens, pairs []string
	size := 0
	for i := 0; size < n && i < 90*90; i++ {
		a, b := short(i/90), short(i%90)
		tokens, pairs = append(tokens, fmt.Sprintf(`"%s%s":%d`, a, b, i+90)), append(pairs, fmt.Sprintf(`"%s %s"`, a, b))
		size += len(tokens[i]) + len(pairs[i])
	}
	for i := range 90 {
		tokens = append(tokens, fmt.Sprintf(`"%s":%d`, short(i), i))
	}
	files["mergesall"] = file("MODEL", bpe(strings.Join(tokens, ","), strings.Join(pairs, ",")))
	return files
}

// TestHostileFiles reads files that are made to take memory and time, each in a process of its own: 16 MiB and 8 times the
// file at most, and time in proportion.
func TestHostileFiles(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	size := 1 << 19
	if os.Getenv("ESSMC_LONG") != "" {
		size = 16 << 20
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range hostileFiles(size) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), hostileVariable+"="+path)
		out, err := cmd.Output()
		var r hostileReport
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		if limit := int64(16<<20 + 8*len(content)); r.Peak > limit {
			t.Errorf("%s: %d bytes take %.1f MiB, the limit is %.1f", name, len(content), float64(r.Peak)/(1<<20), float64(limit)/(1<<20))
		}
		if limit := time.Second + time.Duration(len(content))*2*time.Microsecond; r.Taken > limit {
			t.Errorf("%s: %d bytes take %v, the limit is %v", name, len(content), r.Taken, limit)
		}
		t.Logf("%-12s %5.1f MiB: %6.1f MiB, %v %.90s", name, float64(len(content))/(1<<20), float64(r.Peak)/(1<<20), r.Taken.Round(time.Millisecond), r.Err)
	}
}
