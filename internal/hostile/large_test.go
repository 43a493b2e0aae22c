package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// whole is a graph with outputs.
func whole(outputs string, nodes ...string) string {
	return "<ir_version: 10, opset_import: [\"\" : 22, \"ai.onnx.ml\" : 4, \"com.microsoft\" : 1]> g (float[N, 4] x) => (" + outputs +
		") {\n" + strings.Join(nodes, "\n") + "\n}\n"
}

// double returns nodes that double a value v of a type in each iteration of a loop: start becomes long.
func double(trips int, typ, start string, body ...string) string {
	return fmt.Sprintf("trips = Constant <value_int = %d> ()\nlong = Loop <body = b (int64 i, bool go, %s v) => (bool ok, %s w) "+
		"{ ok = Identity(go)\n%s\n}> (trips, , %s)", trips, typ, typ, strings.Join(body, "\n"), start)
}

// text returns nodes that make long, a string of 2^n letters.
func text(n int, letter string) string {
	return fmt.Sprintf("start = Constant <value_strings = [%q]> ()\n", letter) +
		double(n, "string[1]", "start", "w = StringConcat(v, v)")
}

// texts returns nodes that make long, 2^n strings.
func texts(n int) string {
	return "start = Constant <value_strings = [\"one\"]> ()\n" + double(n, "string[S]", "start", "w = Concat <axis = 0> (v, v)")
}

// items returns nodes that make long, a sequence of 2^n items.
func items(n int) string {
	return "first = SequenceConstruct(x)\n" + double(n, "seq(float[P, 4])", "first", "t = ConcatFromSequence <axis = 0> (v)",
		"u = Concat <axis = 0> (t, t)", "w = SplitToSequence <axis = 0> (u)")
}

// matrix returns nodes that make big, a matrix of 2^n × 64 elements of a type.
func matrix(n int, typ string) string {
	return fmt.Sprintf("rows = Constant <value_ints = [%d, 64]> ()\nd = ReduceMax <keepdims = 0> (x)\nk = Expand(d, rows)\n"+
		"big = Cast <to = %s> (k)", 1<<n, typ)
}

// endless is a number of doublings that no memory has room for.
const endless = 60

// Strings and items are fewer than numbers in these models: clearing their headers cannot be cut (SECURITY.md).
const manyTexts, manyItems, longText, manyRows = 16, 16, 25, 17

// large are models that make large values, and copy them. Most end at the memory limit.
var large = map[string]string{
	"string doubles":   whole("string[1] y", text(endless, "a"), "y = Identity(long)"),
	"numbers double":   whole("float[M, 4] y", double(endless, "float[M, 4]", "x", "w = Concat <axis = 0> (v, v)"), "y = Identity(long)"),
	"numbers tile":     whole("float[M, 4] y", "two = Constant <value_ints = [2, 1]> ()", double(endless, "float[M, 4]", "x", "w = Tile(v, two)"), "y = Identity(long)"),
	"sequence doubles": whole("float[M, 4] y", "first = SequenceConstruct(x)", double(endless, "seq(float[P, 4])", "first", "t = ConcatFromSequence <axis = 0> (v)", "w = SequenceInsert(v, t)"), "y = ConcatFromSequence <axis = 0> (long)"),
	"nested sequences": whole("int64 y", items(11),
		"s2 = SequenceMap <body = m (float[A, B] a) => (seq(float[P, Q]) b) { b = Identity(long) }> (long)",
		"s3 = SequenceMap <body = m3 (seq(float[A, B]) e) => (seq(seq(float[P, Q])) f) { f = Identity(s2) }> (s2)", "y = SequenceLength(s3)"),
	"items":          whole("seq(float[P, 4]) long", items(manyItems)),
	"items, insert":  whole("int64 y", items(manyItems), "p = SequenceInsert(long, x)", "q = SequenceErase(p)", "y = SequenceLength(q)"),
	"items, stacked": whole("float[A, C, E] y", items(manyItems), "y = ConcatFromSequence <axis = 0, new_axis = 1> (long)"),
	"items, mapped":  whole("int64 y", items(13), "p = SequenceMap <body = m (float[P, 4] a) => (float[P, 4] b) { b = Neg(a) }> (long)", "y = SequenceLength(p)"),
	"strings":        whole("string[M] long", texts(manyTexts)),
	"scan output":    whole("float[A, C, 64] s", matrix(8, "1"), "n = Constant <value_int = 700> ()", "yes = Constant <value = bool {1}> ()", "s = Loop <body = b (int64 i, bool go) => (bool ok, float[R, 64] w) { ok = Less(i, n)\nw = Neg(big)\n}> (, yes)"),
	"carried":        whole("float[R, 64] s", matrix(manyRows, "1"), "trips = Constant <value_int = 3> ()", "s = Loop <body = b (int64 i, bool go, float[R, 64] v) => (bool ok, float[R, 64] w) { ok = Identity(go)\nw = Identity(v)\n}> (trips, , big)"),
	"branch":         whole("float[R, 64] s", matrix(manyRows, "1"), "z = Constant <value = float {0}> ()", "c = Less(z, d)", "s = If <then_branch = t () => (float[R, 64] p) { p = Identity(big) }, else_branch = e () => (float[R, 64] q) { q = Identity(big) }> (c)"),
	"optional":       whole("float[R, 64] s", matrix(manyRows, "1"), "o = Optional(big)", "s = OptionalGetElement(o)"),
	"outputs":        whole("float[R, 64] a, float[64, Q] c, float[Z] e", matrix(manyRows, "1"), "a = Identity(big)", "c = Transpose(big)", "m = Constant <value_ints = [-1]> ()", "e = Reshape(big, m)"),
}

// tails are operators that take long strings, or many, with their outputs.
var tails = map[string][2]string{
	"StringSplit":            {"string[A, C] y", "y, n = StringSplit(long)"},
	"StringSplit by another": {"string[A, C] y", "y, n = StringSplit <delimiter = \"b\"> (long)"},
	"StringNormalizer":       {"string[A] y", "y = StringNormalizer <case_change_action = \"UPPER\", stopwords = [\"no\"], is_case_sensitive = 1> (long)"},
	"RegexFullMatch":         {"bool[A] y", "y = RegexFullMatch <pattern = \"b*\"> (long)"},
	"Equal":                  {"bool[A] y", "two = StringConcat(long, start)\nthree = StringConcat(long, start)\ny = Equal(two, three)"},
	"Cast":                   {"float[A] y", "y = Cast <to = 1> (long)"},
	"Expand":                 {"string[A, C] y", "e = Constant <value_ints = [2, 1]> ()\ny = Expand(long, e)"},
	"Tile":                   {"string[A] y", "e = Constant <value_ints = [2]> ()\ny = Tile(long, e)"},
	"Gather":                 {"string[A] y", "e = Constant <value_ints = [0, 0, 0]> ()\ny = Gather(long, e)"},
	"Pad":                    {"string[A] y", "e = Constant <value_ints = [3, 3]> ()\ny = Pad(long, e, start)"},
	"Unique":                 {"string[A] y", "two = StringConcat(long, start)\nthree = StringConcat(long, start)\nz = Concat <axis = 0> (two, three)\ny = Unique(z)"},
	"Concat":                 {"string[A] y", "y = Concat <axis = 0> (long, long)"},
	"Split":                  {"string[A] y", "y, z = Split <axis = 0, num_outputs = 2> (long)"},
	"Slice":                  {"string[A] y", "a = Constant <value_ints = [-1]> ()\nb = Constant <value_ints = [-100000000]> ()\ny = Slice(long, a, b, , a)"},
	"Reshape":                {"string[A, C] y", "a = Constant <value_ints = [-1, 1]> ()\ny = Reshape(long, a)"},
	"Where":                  {"string[A] y", "c = Constant <value = bool[1] {1}> ()\ny = Where(c, long, start)"},
	"ScatterElements":        {"string[A] y", "a = Constant <value_ints = [0]> ()\ny = ScatterElements(long, a, start)"},
	"SequenceConstruct":      {"seq(string[A]) y", "y = SequenceConstruct(long, long)"},
	"SplitToSequence":        {"int64 y", "p = SplitToSequence <axis = 0> (long)\ny = SequenceLength(p)"},
	"TfIdf":                  {"float[A] y", "y = TfIdfVectorizer <max_gram_length = 1, max_skip_count = 0, min_gram_length = 1, mode = \"TF\", ngram_counts = [0], ngram_indexes = [0, 1], pool_strings = [\"a\", \"one\"]> (long)"},
	"LabelEncoder":           {"int64[A] y", "y = ai.onnx.ml.LabelEncoder <keys_strings = [\"a\", \"one\"], values_int64s = [1, 2]> (long)"},
	"CategoryMapper":         {"int64[A] y", "y = ai.onnx.ml.CategoryMapper <cats_strings = [\"a\", \"one\"], cats_int64s = [1, 2]> (long)"},
	"Tokenizer":              {"string[A, C] y", "y = com.microsoft.Tokenizer <mark = 0, pad_value = \"\", mincharnum = 1, tokenexp = \"(b|c)+a{1,9}\"> (long)"},
}

func init() {
	for name, t := range tails {
		large["long string, "+name] = whole(t[0], text(longText, "a"), t[1])
		if name == "Tokenizer" {
			large["text of a token, "+name] = whole(t[0], text(24, "b"), t[1])
		}
		large["strings, "+name] = whole(t[0], texts(manyTexts), t[1])
		if strings.HasPrefix(name, "String") {
			large["white space, "+name] = whole(t[0], text(longText, " "), t[1])
		}
	}
	for to, typ := range map[string]string{"2": "uint8", "7": "int64", "9": "bool", "10": "float16", "11": "double", "17": "float8e4m3fn",
		"21": "uint4"} {
		large["Cast to "+typ] = whole(typ+"[R, 64] big", matrix(manyRows, to))
	}
	large["Cast to string"] = whole("string[R, 64] big", matrix(manyTexts-6, "8"))
}

// TestLarge checks that models whose values double, or are large, check their context between parts of copies, and that
// the memory limit ends them. A deadline ends each of them within 5 ms of processor time.
func TestLarge(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("measures processor time, which the race detector multiplies")
	}
	for _, what := range slices.Sorted(maps.Keys(large)) {
		for _, backend := range []runtime.Backend{cpu.New(), ref.New()} {
			if os.Getenv("ESSMC_LONG") == "" && backend.Name() == "ref" && strings.HasPrefix(what, "strings,") {
				continue // the evaluation is the same
			}
			t.Run(fmt.Sprintf("%s/%s", what, backend.Name()), func(t *testing.T) {
				o := open.Untrusted()
				o.Run.Backend = backend
				src, err := open.Bytes([]byte(large[what]), what, o)
				if err != nil {
					t.Fatal(err)
				}
				m, err := src.Compile(o.Run)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				const most = 5 * time.Millisecond
				least, late := time.Hour, time.Hour
				var g *gaps
				for try := 0; try < 6 && (least > most || late > most); try++ {
					g = endsAt(t, m, 50*time.Millisecond)
					late = min(late, max(0, worktime.Thread()-g.until))
					if g = endsAt(t, m, time.Second); g.most < least {
						least = g.most
					}
				}
				t.Logf("at most %v between %d checks; %v after a deadline", least, g.checks, late)
				if late > most {
					t.Errorf("%v of processor time after the deadline", late)
				}
				if least > most {
					t.Errorf("%v between checks of the context, from\n%s\nto\n%s", least, g.from, g.to)
				}
			})
		}
	}
}

// endsAt runs a model in a new session, with a context that ends after some processor time, and measures the time between
// checks.
func endsAt(t *testing.T, m *runtime.Model, after time.Duration) *gaps {
	t.Helper()
	in, err := inputs(m.Inputs(), 1)
	if err != nil {
		t.Fatal(err)
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	goruntime.GC()
	now := worktime.Thread()
	g := &gaps{Context: context.Background(), last: now, until: now + after}
	_, err = m.NewSession().Run(g, in)
	if err != nil && !errors.Is(err, runtime.ErrMemory) && !errors.Is(err, context.DeadlineExceeded) &&
		!strings.Contains(err.Error(), "cannot convert") && !strings.Contains(err.Error(), "more than") {
		t.Fatal(err)
	}
	if err != nil && len(err.Error()) > 2000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	_ = g.Err() // the time since the last check
	return g
}
