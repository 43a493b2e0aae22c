package plan

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

var update = flag.Bool("update", false, "write golden texts, and corpus files that are missing")

func write(t testing.TB, g *ir.Graph) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readBytes(b []byte, res ir.Resolver) (*ir.Graph, error) {
	return Read(bytes.NewReader(b), int64(len(b)), "m.essm", res, Limits{})
}

func TestRoundTrip(t *testing.T) {
	for _, name := range sortedKeys(graphs) {
		t.Run(name, func(t *testing.T) {
			g := graphs[name](t)
			b := write(t, g)
			if again := write(t, graphs[name](t)); !bytes.Equal(b, again) {
				t.Error("two equal graphs gave different files")
			}
			if clone := write(t, g.Clone()); !bytes.Equal(b, clone) {
				t.Error("a graph and its copy gave different files")
			}
			back, err := readBytes(b, ops)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := dump(back), dump(g); got != want {
				t.Errorf("read:\n%s\nwritten:\n%s", got, want)
			}
			if again := write(t, back); !bytes.Equal(b, again) {
				t.Error("a graph that was read is not written as it was")
			}
			t.Logf("%d bytes", len(b))
		})
	}
}

// TestIdentity sees to it that what was one object is one object again.
func TestIdentity(t *testing.T) {
	g, err := readBytes(write(t, subgraphsGraph(t)), ops)
	if err != nil {
		t.Fatal(err)
	}
	shared := g.Nodes[0].Inputs[1]
	then := g.Nodes[1].Attrs.Graph("then")
	if then.Outputs[2] != shared || then.Outputs[1] != g.Inputs[0] {
		t.Error("captured values were read as other values")
	}
	g, err = readBytes(write(t, tensorsGraph(t)), ops)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*tensor.Tensor{}
	for _, c := range g.Constants() {
		byName[c.Name] = c.Const
	}
	if byName["zeros"] != byName["zeros.again"] {
		t.Error("tensors of equal content were not stored once")
	}
	if &byName["zeros"].Bytes()[0] != &byName["zeros.reshaped"].Bytes()[0] {
		t.Error("equal content under different types was not stored once")
	}
	for name, c := range byName {
		if b := c.Bytes(); len(b) >= largeBlob && uintptr(unsafe.Pointer(&b[0]))%tensor.Align != 0 {
			t.Errorf("%s of %d bytes is not aligned to %d", name, len(b), tensor.Align)
		}
	}
}

func TestSize(t *testing.T) {
	g := deepGraph(t)
	params := 0
	for _, c := range g.Constants() {
		params += len(c.Const.Bytes())
	}
	b := write(t, g)
	t.Logf("%d nodes, %d tensors, %d bytes of parameters, %d bytes of plan: %.3f times", len(g.Nodes),
		len(g.Constants()), params, len(b), float64(len(b))/float64(params))
	if 10*len(b) > 11*params {
		t.Errorf("plan of %d bytes for %d bytes of parameters, expected at most 1.1 times as many", len(b), params)
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.essm")
	want := tensorsGraph(t)
	if err := WriteFile(path, want); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{{}, {Copy: true}} {
		f, err := Open(path, ops, opts)
		if err != nil {
			t.Fatal(err)
		}
		if f.Mapped() && opts.Copy {
			t.Error("mapped, though a copy was asked for")
		}
		if got := dump(f.Graph()); got != dump(want) {
			t.Errorf("copy %v: graph differs", opts.Copy)
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if f.Graph() != nil {
			t.Error("the graph is still there after Close")
		}
	}
	g, err := ReadFile(path, ops, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("gone"), 0o666); err != nil {
		t.Fatal(err)
	}
	if dump(g) != dump(want) {
		t.Error("a graph read by ReadFile changed with its file")
	}
	if _, err := Open(path, ops, Options{}); !errors.Is(err, ErrNotPlan) {
		t.Errorf("error %v, expected ErrNotPlan", err)
	}
	if _, err := Open(filepath.Dir(path), ops, Options{}); err == nil {
		t.Error("opened a folder")
	}
	if _, err := ReadFile(path+".missing", ops, Limits{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, expected that the file is missing", err)
	}
}

// TestWriteFails lets the n-th write fail, for all n: the error comes out, and no more is written.
func TestWriteFails(t *testing.T) {
	g := tensorsGraph(t)
	full := errors.New("disk full")
	for n := 0; ; n++ {
		w := &failing{left: n, err: full}
		err := Write(w, g)
		if err == nil {
			if n < 10 {
				t.Errorf("succeeded with %d writes", n)
			}
			return
		}
		if !errors.Is(err, full) || w.after {
			t.Fatalf("write %d failed: error %v, written after it: %v", n, err, w.after)
		}
	}
}

type failing struct {
	left  int
	err   error
	after bool
}

func (f *failing) Write(b []byte) (int, error) {
	f.after = f.left < 0
	f.left--
	if f.left < 0 {
		return 0, f.err
	}
	return len(b), nil
}

func TestWriteFileFailure(t *testing.T) {
	dir := t.TempDir()
	g := smallGraph(t)
	g.Doc = "\xff"
	if err := WriteFile(filepath.Join(dir, "m.essm"), g); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("error %v, expected one about UTF-8", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("folder holds %v after a failure", entries)
	}
}

// TestFullDisk writes to the device that stands for one.
func TestFullDisk(t *testing.T) {
	const full = "/dev/full"
	if st, err := os.Stat(full); err != nil || st.Mode().IsRegular() {
		t.Skip("no " + full + " here")
	}
	if err := WriteFile(full, smallGraph(t)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, expected that no space is left", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	twice := func(t testing.TB) *ir.Graph {
		g := subgraphsGraph(t)
		n := g.Nodes[1]
		n.Attrs = n.Attrs.With("else", n.Attrs.Graph("then"))
		return g
	}
	typed := func(typ ir.Type) func(t testing.TB) *ir.Graph {
		return func(t testing.TB) *ir.Graph {
			b := ir.NewBuilder("g", ops, testOpsets)
			b.Input("x", typ)
			return build(t, b)
		}
	}
	deep := ir.Type(ir.Tensor(tensor.Float32))
	for range maxDepth + 1 {
		deep = &ir.SequenceType{Elem: deep}
	}
	cases := []struct {
		name, want string
		make       func(t testing.TB) *ir.Graph
	}{
		{"unverified", "is read before it is defined", func(t testing.TB) *ir.Graph {
			g := smallGraph(t)
			g.Inputs = nil
			return g
		}},
		{"graph used twice", "used twice", twice},
		{"symbol", `value x: type float[a b]: dimension "a b"`,
			typed(&ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("a b")}})},
		{"symbol that is a number", "cannot be written",
			typed(&ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("3")}})},
		{"no element type", "no element type", typed(&ir.TensorType{})},
		{"deep type", "deeper than 64", typed(deep)},
		{"version", "version of domain", func(t testing.TB) *ir.Graph {
			g := smallGraph(t)
			g.Opsets = map[string]int{"": 20, "test": 7, "x": -1}
			return g
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := Write(io.Discard, c.make(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q in it", err, c.want)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "m.essm")
	if err := WriteFile(path, deepGraph(b)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path, ops, Options{})
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkWrite(b *testing.B) {
	g := deepGraph(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(io.Discard, g); err != nil {
			b.Fatal(err)
		}
	}
}
