package onnx_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/training"
)

func written(t *testing.T, g *ir.Graph, o onnx.WriteOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := onnx.Write(&b, g, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sameBack writes g, reads it, and compares the texts of both graphs.
func sameBack(t *testing.T, g *ir.Graph) {
	t.Helper()
	b := written(t, g, onnx.WriteOptions{})
	if !bytes.Equal(b, written(t, g, onnx.WriteOptions{})) {
		t.Error("written twice, the bytes differ")
	}
	h, _, err := onnx.Parse(b, "written", onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x, y := bare(g), bare(h); x != y {
		t.Errorf("read back:\n%s\nwritten:\n%s", y, x)
	}
}

// bare returns the text of a graph without the parts that reading and writing may add: names of nodes, the producer.
func bare(g *ir.Graph) string {
	g = g.Clone()
	for _, k := range []string{onnx.MetaProducer, ir.MetaBatch, ir.MetaTime} { // guessed by the reader
		delete(g.Meta, k)
	}
	used := map[string]bool{"": true}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		n.Name, n.Scope = "", ""
		used[n.Op.Domain] = true
		return nil
	})
	for d := range g.Opsets {
		if !used[d] {
			delete(g.Opsets, d)
		}
	}
	return irtext.String(g)
}

func TestWriteTypes(t *testing.T) {
	for _, d := range tensor.DTypes() {
		x := tensor.New(d, 3, 5)
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(i * 37)
		}
		if d == tensor.Bool {
			clear(x.Bytes())
			x.Bytes()[4] = 1
		}
		if d == tensor.String {
			x.Strings()[7] = "ä\x00b"
		}
		if d.Packed() {
			x, _ = tensor.FromBytes(d, []int{3, 5}, x.Bytes())
		}
		g := &ir.Graph{Name: "types", Opsets: map[string]int{"": 25},
			Meta: map[string]string{"k": "v", ir.MetaTime: "L"}}
		in := &ir.Value{Name: "x", Type: ir.Tensor(d, "B", "2*B+1", ir.Unknown, 4)}
		seq := &ir.Value{Name: "s", Type: &ir.SequenceType{Elem: &ir.TensorType{Elem: d, NoRank: true}}}
		opt := &ir.Value{Name: "o", Type: &ir.OptionalType{Elem: ir.Tensor(d, "B")}}
		g.Inputs = []*ir.Value{in, seq, opt}
		g.Outputs = []*ir.Value{ir.NewConst("c", x), in}
		sameBack(t, g)
	}
}

func TestWriteSubgraphs(t *testing.T) {
	b := ir.NewBuilder("main", ops.Default, map[string]int{"": 21})
	x, c := b.Input("x", ir.Tensor(tensor.Float32, "B", 4)), b.Input("c", ir.Tensor(tensor.Bool))
	k := b.Const("k", tensor.FromSlice([]float32{1, 2, 3, 4}, 4))
	yes, no := b.Sub("yes"), b.Sub("no")
	yes.Output("", yes.Op("", "Add", []*ir.Value{x, k}))
	no.Output("", no.Op("", "Relu", []*ir.Value{x}))
	yg, _ := yes.Build()
	ng, _ := no.Build()
	b.Output("y", b.Op("", "If", []*ir.Value{c}, ir.A("then_branch", yg), ir.A("else_branch", ng)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	sameBack(t, g)
	// A branch that returns a value of the outer graph returns a copy of it in the file.
	ng.Outputs[0] = x
	ng.Nodes = nil
	h, _, err := onnx.Parse(written(t, g, onnx.WriteOptions{}), "written", onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	branch := h.Nodes[0].Attrs.Graph("else_branch")
	if len(branch.Nodes) != 1 || branch.Nodes[0].Op.Name != "Identity" {
		t.Errorf("the branch is %v", branch.Nodes)
	}
}

func TestWriteExternal(t *testing.T) {
	x := tensor.New(tensor.Float32, 300, 100)
	for i := range x.Len() {
		tensor.Data[float32](x)[i] = float32(i)
	}
	g := &ir.Graph{Name: "g", Opsets: map[string]int{"": 21}, Meta: map[string]string{}}
	g.Outputs = []*ir.Value{ir.NewConst("large", x), ir.NewConst("small", tensor.Scalar(int64(3))),
		ir.NewConst("large2", x)}
	dir := t.TempDir()
	model := filepath.Join(dir, "m.onnx")
	if err := onnx.WriteFile(model, g, onnx.WriteOptions{External: "m.bin"}); err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(model); err != nil || s.Size() > 1000 {
		t.Errorf("the model takes %v bytes (%v)", s.Size(), err)
	}
	h, _, err := onnx.ReadFile(model, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	delete(h.Meta, ir.MetaSource)
	if a, b := bare(g), bare(h); a != b {
		t.Errorf("read back:\n%s\nwritten:\n%s", b, a)
	}
	for i, v := range h.Outputs {
		if !tensor.Equal(v.Const, g.Outputs[i].Const) {
			t.Errorf("%s is another tensor", v.Name)
		}
	}
	// The name and the model tell what the data must be, so that the pair is never mixed.
	written, err := onnx.WriteFiles(model, g, onnx.WriteOptions{External: "m.bin"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, written))
	if sum := sha1.Sum(data); err != nil || written != fmt.Sprintf("m-%x.bin", sum[:8]) {
		t.Errorf("data in %s (%v), expected the first 16 digits of %x in the name", written, err, sum)
	}
	data[5]++
	if err := os.WriteFile(filepath.Join(dir, written), data, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := onnx.ReadFile(model, onnx.Options{}); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("altered data was read: %v", err)
	}
	tensor.Data[float32](x)[0] = 7
	if err := onnx.WriteFile(model, g, onnx.WriteOptions{External: "m.bin"}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "m-*.bin"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) == written {
		t.Errorf("data of the model that was replaced is left: %v, %v", left, err)
	}
	for _, name := range []string{"../m.bin", "a/b", "..", ".", "m.onnx"} {
		if err := onnx.WriteFile(model, g, onnx.WriteOptions{External: name}); err == nil {
			t.Errorf("external data in %q was accepted", name)
		}
	}
	if err := onnx.Write(io.Discard, g, onnx.WriteOptions{External: "m.bin"}); err == nil {
		t.Error("external data without a folder was accepted")
	}
}

func TestWriteRefuses(t *testing.T) {
	in := &ir.Value{Name: "x", Type: ir.Tensor(tensor.Float32, 1)}
	g := &ir.Graph{Name: "g", Opsets: map[string]int{"": 21}, Inputs: []*ir.Value{in}, Outputs: []*ir.Value{in, in}}
	if err := onnx.Write(io.Discard, g, onnx.WriteOptions{}); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("an output that is listed twice: %v", err)
	}
}

// TestWriteNodeTests writes every readable model of the standard's node tests, and reads it back.
func TestWriteNodeTests(t *testing.T) {
	f, err := os.Open(shared.NodeArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if path.Base(h.Name) != "model.onnx" {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(path.Dir(h.Name))
		g, _, err := onnx.Parse(b, name, onnx.Options{})
		if err != nil {
			continue
		}
		n++
		if name == "test_if" {
			continue // its branches return constants, which are copied; see TestWriteSubgraphs
		}
		t.Run(name, func(t *testing.T) { sameBack(t, g) })
	}
	t.Logf("%d models", n)
	if n < 1500 {
		t.Errorf("only %d models could be read", n)
	}
}
