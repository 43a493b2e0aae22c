package onnx

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// nested returns graphs nested to the given depth. It writes them from the innermost outwards, since only the heads of
// the messages differ.
func nested(depth int) []byte {
	head := join(strs(1, "c"), strs(2, "y"), str(4, "If"))
	attr := join(str(1, "then_branch"), num(20, 5))
	open := func(f protowire.Number, size int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.BytesType), uint64(size))
	}
	var heads [][]byte
	size := 0
	for range depth {
		g := open(6, size)
		a := open(5, len(attr)+len(g)+size)
		h := join(open(1, len(head)+len(a)+len(attr)+len(g)+size), head, a, attr, g)
		heads = append(heads, h)
		size += len(h)
	}
	slices.Reverse(heads)
	return model(graph(value(11, "c", tensorType(9)), join(heads...)))
}

func nestedTypes(depth int) []byte {
	typ := tensorType(1, 2)
	for range depth {
		typ = msg(4, msg(1, typ))
	}
	return model(graph(value(11, "x", typ)))
}

// chain returns functions that call each other, the given number of times each.
func chain(length, calls int) []byte {
	var parts [][]byte
	for i := range length {
		var body [][]byte
		in := "p"
		for j := range calls {
			out := fmt.Sprint("h", j)
			if j == calls-1 {
				out = "q"
			}
			op := fmt.Sprint("local:f", i+1)
			if i == length-1 {
				op = "Abs"
			}
			body = append(body, nodeIn(7, op, strings.Repeat("n", 1000), in, out))
			in = out
		}
		parts = append(parts, function(fmt.Sprint("f", i), "p", "q", body...))
	}
	return model(append(parts, graph(floats(11, "x", 2), node("local:f0", "", "x", "y"), floats(12, "y", 2)))...)
}

// TestHostile checks the limits for files that demand more than their size: an error within 100 ms (a second for files
// of more than a megabyte), and at most 64 MB and four times the file. The fastest of several runs counts, because the
// machine may be busy.
func TestHostile(t *testing.T) {
	small := model(graph(floats(11, "x", 2), raw32(5, "w", 2), node("Add", "", "x,w", "y"), floats(12, "y", 2)))
	best, most := map[string]time.Duration{}, uint64(0)
	cases := map[string][]byte{
		"empty":             nil,
		"text":              []byte("this is no model, and it is longer than a header would be"),
		"half":              small[:len(small)/2],
		"deep graphs":       nested(10_000),
		"deep types":        nestedTypes(10_000),
		"long call chain":   chain(10_000, 1),
		"calls that double": chain(30, 2),
		"calls by hundreds": chain(5, 100),
		"1 TB raw": model(graph(msg(5, packed(1, 1<<38), num(2, 1), str(8, "w"),
			msg(9, make([]byte, 900))))),
		"1 TB sparse":         sparseModel(6, packed(5, 7), []int64{1 << 38}, []int64{1}, 0),
		"1 TB of nothing":     model(graph(msg(5, packed(1, 1<<38), num(2, 1), str(8, "w")))),
		"empty nodes":         model(msg(7, bytes.Repeat([]byte{0x0a, 0}, 1_000_000))),
		"values without name": model(msg(7, bytes.Repeat([]byte{0x5a, 0}, 1_000_000))),
		"unknown nodes":       model(msg(7, bytes.Repeat(msg(1, str(4, "A")), 300_000))),
		"nodes, all unknown":  model(msg(7, bytes.Repeat(msg(1, str(4, "A")), 1<<18))),
		"attributes": model(msg(7, bytes.Repeat(node("A", "", "", "", intAttr("a", 1), intAttr("b", 2)),
			200_000))),
		"numbers by field": model(graph(msg(5, packed(1, 1<<20), num(2, 1), str(8, "w"),
			bytes.Repeat(f32(4, 1), 1_000_000)))),
		"strings by field": model(graph(msg(5, packed(1, 1<<20), num(2, 8), str(8, "w"),
			bytes.Repeat(str(6, ""), 1_000_000)))),
		"huge length": join(num(1, 10), []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}),
	}
	for name, b := range cases {
		limit := 100 * time.Millisecond
		if len(b) > 1<<20 {
			limit *= 10
		}
		for _, how := range []string{"memory", "file", "memory", "file", "file"} {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			var err error
			if how == "memory" {
				_, _, err = read(memory(b), "m.onnx", Options{})
			} else {
				_, _, err = read(newSource(bytes.NewReader(b), int64(len(b))), "m.onnx", Options{})
			}
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			if len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error of %d bytes: %.300s", name, len(err.Error()), err)
			}
			used := after.TotalAlloc - before.TotalAlloc
			if most = max(most, used); used > uint64(64<<20+4*len(b)) {
				t.Errorf("%s from %s: %d bytes allocated, more than %d", name, how, used, 64<<20+4*len(b))
			}
			best[name] = min(took, cmp.Or(best[name], took))
			t.Logf("%s from %s: %v, %d KB, %.150s", name, how, took, (after.TotalAlloc-before.TotalAlloc)>>10, err)
			if took < limit/2 && how == "file" {
				break
			}
		}
		if best[name] > limit {
			t.Errorf("%s: took %v, more than %v", name, best[name], limit)
		}
	}
	slowest := slices.MaxFunc(slices.Collect(maps.Keys(best)), func(a, b string) int { return cmp.Compare(best[a], best[b]) })
	t.Logf("figure: %d files refused within %v (%s), with %d MiB allocated at most", len(cases), best[slowest], slowest, most>>20)
}

// TestTruncated checks that reading a truncated file does not panic.
func TestTruncated(t *testing.T) {
	b := chain(2, 2)
	for n := range len(b) {
		_, _, _ = read(memory(b[:n]), "m.onnx", Options{})
		// the file has shrunk since its size was taken
		_, _, _ = read(newSource(bytes.NewReader(b[:n]), int64(len(b))), "m.onnx", Options{})
	}
}
