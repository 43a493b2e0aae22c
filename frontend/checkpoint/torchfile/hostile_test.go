package torchfile

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
)

// hostilePickles are pickles of about n bytes that make as many values of a kind as these bytes can.
func hostilePickles(n int) map[string]string {
	rep := strings.Repeat
	numbered := func(head, op string, size int, rest, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := range n / size {
			b.WriteString(op)
			b.Write([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
			b.WriteString(rest)
		}
		return b.String() + tail
	}
	return map[string]string{
		"lists":         "\x80\x02(" + rep("]", n) + "l.",
		"dicts":         "\x80\x02(" + rep("}", n) + "l.",
		"deep":          "\x80\x02(" + rep("]"+rep("\x85", 400), n/401) + "l.",
		"nested tuples": "\x80\x02" + rep(")\x85", n/2) + ".",
		"marked tuples": "\x80\x02(" + rep("(t", n/2) + "l.",
		"marks":         "\x80\x02" + rep("(", n/2) + rep("1", n/2) + "N.",
		"small ints":    "\x80\x02(" + rep("K\x01", n/2) + "l.",
		"ints":          "\x80\x02(" + rep("J\x01\x02\x03\x04", n/5) + "l.",
		"long ints":     "\x80\x02(" + rep("\x8a\x09123456789", n/11) + "l.",
		"floats":        "\x80\x02(" + rep("G12345678", n/9) + "l.",
		"strings":       "\x80\x02(" + rep("U\x01x", n/3) + "l.",
		"globals":       "\x80\x02(" + rep("ca\nb\n", n/5) + "l.",
		"calls":         "\x80\x02ca\nb\nq\x01)q\x020(" + rep("h\x01h\x02R", n/5) + "l.",
		"constructors":  "\x80\x02ccollections\nOrderedDict\nq\x01)q\x020(" + rep("h\x01h\x02R", n/5) + "l.",
		"memo":          "\x80\x04N" + rep("\x94", n) + ".",
		"sparse memo":   numbered("\x80\x02N", "r", 5, "", "."),
		"shared":        "\x80\x02((" + rep("N", 1000) + "lq\x01" + rep("h\x01", n/2) + "l.",
		"shared lists":  "\x80\x02((" + rep("]", 60) + "lq\x01" + rep("h\x01", n/2) + "l.",
		"copies":        "\x80\x02(N" + rep("2", n) + "l.",
		"appended":      "\x80\x02]" + rep("Na", n/2) + ".",
		"keys":          numbered("\x80\x02}(", "J", 6, "N", "u."),
		"one key":       "\x80\x02}" + rep("NNs", n/3) + ".",
		"states":        "\x80\x02ca\nb\n)R" + rep("}b", n/2) + ".",
	}
}

// The time and memory of a pickle are bounded by its size, for all instructions: memoizing and nesting, too.
func TestHostilePickles(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time, which the race detector multiplies")
	}
	pickles := hostilePickles(1 << 20)
	slowest, largest := time.Duration(0), uint64(0)
	for name, pickle := range pickles {
		const most, mostBytes = 400 * time.Millisecond, 140 << 20
		took, bytes := time.Duration(1<<62), uint64(0)
		var err error
		for try := 0; try < 3 && (took > most || bytes > mostBytes); try++ { // others may be at work
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := worktime.Now()
			_, err = unpickle(pickle)
			took = min(took, worktime.Now()-start)
			runtime.ReadMemStats(&after)
			bytes = after.TotalAlloc - before.TotalAlloc
		}
		if slowest, largest = max(slowest, took), max(largest, bytes); took > most || bytes > mostBytes {
			t.Errorf("%s: %v and %d MiB for a pickle of 1 MiB (%v)", name, took, bytes>>20, err)
		}
	}
	t.Logf("figure: %d pickles of 1 MiB, at most %v and %d MiB allocated", len(pickles), slowest, largest>>20)
	for _, name := range []string{"lists", "dicts", "globals", "deep"} {
		if _, err := unpickle(pickles[name]); !errors.Is(err, errRoom) {
			t.Errorf("%s: %v, expected %v", name, err, errRoom)
		}
	}
}

// The budget suffices for real checkpoints: thousands of tensors, each with its storage, sizes, strides and a memo entry.
func TestBudgetOfCheckpoints(t *testing.T) {
	const tensors = 50_000
	var b strings.Builder
	b.WriteString("\x80\x02ccollections\nOrderedDict\n)R(")
	for i := range tensors {
		name := fmt.Sprintf("l.%d.w", i)
		b.WriteString("X" + string([]byte{byte(len(name)), 0, 0, 0}) + name)
		b.WriteString(strings.TrimSuffix(strings.TrimPrefix(rebuild(8, 1, "K\x02", "K\x01"), "\x80\x02"), "."))
	}
	b.WriteString("u.")
	v, err := unpickle(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if n := v.(*Dict).Len(); n != tensors {
		t.Errorf("%d tensors, expected %d", n, tensors)
	}
}
