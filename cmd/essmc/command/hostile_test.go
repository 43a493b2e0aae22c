package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
)

// pbNested returns the nodes of nested graphs. It writes them from the innermost outwards, since only the heads of the
// messages differ.
func pbNested(depth int) []byte {
	open := func(f protowire.Number, size int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.BytesType), uint64(size))
	}
	var heads [][]byte
	size := 0
	for range depth {
		g := open(6, size)
		attr := slicesConcat(pbStr(1, "then_branch"), pbNum(20, 5))
		a := open(5, len(attr)+len(g)+size)
		n := slicesConcat(pbStr(1, "c"), pbStr(2, "y"), pbStr(4, "If"))
		h := slicesConcat(open(1, len(n)+len(a)+len(attr)+len(g)+size), n, a, attr, g)
		heads = append(heads, h)
		size += len(h)
	}
	slices.Reverse(heads)
	return slicesConcat(heads...)
}

// pbFunction returns a function of the domain local.
func pbFunction(name string, nodes ...[]byte) []byte {
	f := [][]byte{pbStr(1, name), pbStr(4, "p"), pbStr(5, "q"), pbStr(10, "local"), pbMsg(9, pbNum(2, 17)),
		pbMsg(9, pbStr(1, "local"), pbNum(2, 1))}
	for _, n := range nodes {
		f = append(f, pbMsg(7, n))
	}
	return pbMsg(25, f...)
}

// pbCall returns the content of a node.
func pbCall(op, in, out string) []byte {
	return slicesConcat(pbStr(1, in), pbStr(2, out), pbStr(3, "call "+op), pbStr(4, op), pbStr(7, "local"))
}

// bounded runs a command that must fail within 100 ms, and within 64 MB and four times the size of the file. The
// fastest of several runs counts, because the machine may be busy. It returns the time.
func bounded(t *testing.T, size int, want []string, args ...string) time.Duration {
	t.Helper()
	const limit = 100 * time.Millisecond
	best := time.Hour
	for range 5 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := worktime.Now()
		code, _, stderr := essmc(args...)
		best = min(best, worktime.Now()-start)
		runtime.ReadMemStats(&after)
		if code != 1 || strings.Count(stderr, "\n") != 1 || len(stderr) > 5000 {
			t.Fatalf("essmc %s: exit code %d: %.500s", strings.Join(args, " "), code, stderr)
		}
		for _, w := range append(want, filepath.Base(args[1])) {
			if !strings.Contains(stderr, w) {
				t.Fatalf("expected %q in %.500s", w, stderr)
			}
		}
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+4*size); used > most {
			t.Fatalf("%d bytes allocated, more than %d", used, most)
		}
		if best < limit {
			break
		}
	}
	if best > limit && !race.Enabled {
		t.Errorf("took %v, more than %v", best, limit)
	}
	t.Logf("%v", best)
	return best
}

// TestHostileONNX checks the limits for all kinds of bad files.
func TestHostileONNX(t *testing.T) {
	onnxFixtures(t)
	x, y := pbValue(11, "x", tensor.Float32, 4), pbValue(12, "y", tensor.Float32, 4)
	add := pbNode("Add", "x w", "y", pbStr(3, "sum"))
	weight := func(parts ...[]byte) []byte { // returns a model that adds the tensor w
		return pbModel(add, x, y, pbMsg(5, append([][]byte{pbNum(2, 1), pbStr(8, "w")}, parts...)...))
	}
	external := func(entries ...string) []byte {
		parts := [][]byte{pbNum(1, 4), pbNum(14, 1)}
		for i := 0; i < len(entries); i += 2 {
			parts = append(parts, pbMsg(13, pbStr(1, entries[i]), pbStr(2, entries[i+1])))
		}
		return weight(parts...)
	}
	many := func(n int, node func(i int) []byte) []byte {
		var b bytes.Buffer
		for i := range n {
			b.Write(node(i))
		}
		return b.Bytes()
	}
	sound := pbModel(pbNode("Abs", "x", "y"), x, y)
	call := pbModel(pbMsg(1, pbCall("f", "x", "y")), x, y)
	writeBytes(t, "secret.bin", make([]byte, 64))
	writeBytes(t, "in/w.bin", make([]byte, 64))
	absolute, err := filepath.Abs("secret.bin")
	if err != nil {
		t.Fatal(err)
	}
	type hostile struct {
		name string
		file []byte
		want []string
	}
	cases := []hostile{
		{"truncated", sound[:len(sound)*2/3], []string{"at byte", "are left"}},
		{"cycle", pbModel(pbNode("Add", "x h", "y", pbStr(3, "sum")), pbNode("Neg", "y", "h"), x, y),
			[]string{`node "sum"`, "depends on itself"}},
		{"cycle of one", pbModel(pbNode("Add", "x y", "y", pbStr(3, "sum")), x, y),
			[]string{`node "sum"`, "depends on itself"}},
		{"cycle of functions", slicesConcat(call, pbFunction("f", pbCall("g", "p", "q")),
			pbFunction("g", pbCall("f", "p", "q")), pbMsg(8, pbStr(1, "local"), pbNum(2, 1))),
			[]string{`"local.f" calls itself`}},
		{"long cycle", pbModel(many(20_000, func(i int) []byte {
			return pbNode("Abs", fmt.Sprint("v", i), fmt.Sprint("v", (i+1)%20_000))
		}), x, y), []string{"depends on itself"}},
		{"deep graphs", pbModel(pbNested(10_000)), []string{`node of output "y" (If)`, "nested deeper than"}},
		{"deep functions", slicesConcat(call, many(10_000, func(i int) []byte {
			name := "f"
			if i > 0 {
				name = fmt.Sprint("f", i)
			}
			return pbFunction(name, pbCall(fmt.Sprint("f", i+1), "p", "q"))
		}), pbMsg(8, pbStr(1, "local"), pbNum(2, 1))), []string{"local.f", "nested deeper than"}},
		{"dimension -2", pbModel(pbNode("Abs", "x", "y"), pbValue(11, "x", tensor.Float32, -2), y),
			[]string{`input "x"`, "dimension 0 is -2"}},
		{"dimension 2^62", pbModel(pbNode("Abs", "x", "y"), pbValue(11, "x", tensor.Float32, int64(1<<62)), y),
			[]string{`input "x"`, "too large"}},
		{"dimensions of 2^80", pbModel(pbNode("Abs", "x", "y"),
			pbValue(11, "x", tensor.Float32, int64(1<<40), int64(1<<40)), y), []string{`input "x"`, "shape"}},
		{"tensor of -1", weight(pbNum(1, 1<<64-1), pbMsg(9, make([]byte, 4))),
			[]string{`tensor "w"`, "dimension 0 is -1"}},
		{"tensor of 2^62", weight(pbNum(1, 1<<62), pbMsg(9, make([]byte, 4))), []string{`tensor "w"`, "too large"}},
		{"tensor of 0 with data", weight(pbNum(1, 0), pbMsg(9, make([]byte, 4))),
			[]string{`tensor "w"`, "needs 0 bytes of raw_data, found 4"}},
		{"attribute of -1", pbModel(pbNode("Constant", "", "w",
			pbMsg(5, pbStr(1, "value"), pbNum(20, 4), pbMsg(5, pbNum(1, 1<<64-1), pbNum(2, 1)))), add, x, y),
			[]string{`node of output "w" (Constant)`, "dimension 0 is -1"}},
		{"1 TB", weight(pbNum(1, 1<<38), pbMsg(9, make([]byte, 900))),
			[]string{`tensor "w"`, "needs 1099511627776 bytes"}},
		{"1 TB made", pbModel(pbNode("ConstantOfShape", "s", "w", pbStr(3, "fill")), add, x, y,
			pbMsg(5, pbNum(1, 1), pbNum(2, 7), pbStr(8, "s"), pbMsg(7, protowire.AppendVarint(nil, 1<<38)))),
			[]string{`node Add "sum"`}},
		{"two kinds of data", weight(pbNum(1, 1), pbMsg(9, make([]byte, 4)), pbMsg(4, make([]byte, 4))),
			[]string{`tensor "w"`, "both raw_data and float_data"}},
		{"external above", external("location", "../secret.bin"), []string{`tensor "w"`, "secret.bin", "is outside"}},
		{"external absolute", external("location", filepath.ToSlash(absolute)), []string{`tensor "w"`, "is outside"}},
		{"external offset negative", external("location", "w.bin", "offset", "-16"),
			[]string{`tensor "w"`, `offset is "-16"`}},
		{"external offset huge", external("location", "w.bin", "offset", "9223372036854775807"),
			[]string{`tensor "w"`, "offset 9223372036854775807", "has 64"}},
		{"external offset beyond all", external("location", "w.bin", "offset", "9223372036854775808"),
			[]string{`tensor "w"`, "offset is"}},
		{"names twice", pbModel(pbNode("Abs", "x", "y", pbStr(3, "a")), pbNode("Neg", "x", "y", pbStr(3, "b")), x, y),
			[]string{`node "b"`, `"y" is defined twice`}},
		{"inputs twice", pbModel(pbNode("Abs", "x", "y"), x, x, y), []string{`two inputs are named "x"`}},
		{"weights twice", pbModel(add, x, y, pbFloats("w", make([]float32, 4), 4),
			pbFloats("w", make([]float32, 4), 4)), []string{`two initializers are named "w"`}},
		{"opset", slicesConcat(pbNum(1, 8), pbMsg(8, pbNum(2, 1<<31)), pbMsg(7, pbNode("Abs", "x", "y"), x, y)),
			[]string{`version 2147483648 of domain ""`}},
		{"later opset", slicesConcat(pbNum(1, 8), pbMsg(8, pbNum(2, 999)), pbMsg(7, pbNode("Foo", "x", "y"), x, y)),
			[]string{"Foo (domain ai.onnx, version 999)"}},
		{"operator", pbModel(pbNode("Foo", "x", "y", pbStr(3, "first")), x, y), []string{"Foo", `"first"`}},
		{"300,000 operators", pbModel(bytes.Repeat(pbMsg(1, pbStr(4, "A")), 300_000), x, y),
			[]string{"more than 262144 nodes"}},
		{"100,000 operators", pbModel(bytes.Repeat(pbMsg(1, pbStr(4, "A")), 100_000), x, y),
			[]string{"A (domain ai.onnx", "and 99995 more"}},
		{"50,000 kinds of operators", pbModel(many(50_000, func(i int) []byte {
			return pbMsg(1, pbStr(4, fmt.Sprint("A", i)))
		}), x, y), []string{"1024 operators, and those of 48976 more nodes"}},
		{"a field for each number", weight(pbNum(1, 1<<20),
			bytes.Repeat(protowire.AppendTag(nil, 4, protowire.Fixed32Type), 1), make([]byte, 4),
			bytes.Repeat([]byte{0x25, 0, 0, 0, 0}, 300_000)), []string{`tensor "w"`, "found 300001"}},
	}
	for name, link := range map[string]func(from, to string) error{"symlink": os.Symlink, "hard link": os.Link} {
		file := strings.Fields(name)[0] + ".bin"
		if err := link(absolute, filepath.Join("in", file)); err != nil {
			t.Logf("no %s here: %v", name, err)
			continue
		}
		cases = append(cases, hostile{"external " + name, external("location", file),
			[]string{`tensor "w"`, file, "link"}})
	}
	slowest := time.Duration(0)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := fmt.Sprintf("in/%d.onnx", i)
			writeBytes(t, file, c.file)
			slowest = max(slowest, bounded(t, len(c.file), c.want, "import", file))
		})
	}
	t.Logf("figure: %d files refused by the command, within %v", len(cases), slowest)
}

// TestFlippedONNX checks that a file with one changed bit, or a truncated one, is refused or read in short time,
// without a panic.
func TestFlippedONNX(t *testing.T) {
	onnxFixtures(t)
	whole, err := os.ReadFile("linear.onnx")
	if err != nil {
		t.Fatal(err)
	}
	try := func(b []byte) {
		writeBytes(t, "bad.onnx", b)
		start := worktime.Now()
		code, _, stderr := essmc("import", "bad.onnx")
		if code > 1 || code == 1 && !strings.Contains(stderr, "bad.onnx") ||
			strings.Contains(stderr, "internal error") {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if took := worktime.Now() - start; took > 2*time.Second {
			t.Fatalf("took %v: %s", took, stderr)
		}
	}
	for i := range whole {
		try(slicesWith(whole, i, whole[i]^1<<(i%8)))
		try(whole[:i])
	}
	t.Logf("figure: %d files, no panic", 2*len(whole))
}

// TestMinusOneIsOpen checks that a dimension of -1 is open: some exporters write it, against the standard.
func TestMinusOneIsOpen(t *testing.T) {
	onnxFixtures(t)
	writeBytes(t, "open.onnx", pbModel(pbNode("Abs", "x", "y"), pbValue(11, "x", tensor.Float32, -1, 3),
		pbValue(12, "y", tensor.Float32, -1, 3)))
	if text := must(t, "import", "open.onnx"); !strings.Contains(text, "input x: dimension -1 read as open") ||
		!strings.Contains(text, "output y: dimension -1 read as open") {
		t.Errorf("found %s", text)
	}
}
