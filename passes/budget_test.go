package passes_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
)

// bomb is a graph of a few nodes whose constants would take much memory or time to compute.
type bomb struct {
	name, stays string // an operator of the nodes that stay
	build       func(b *ir.Builder) *ir.Value
}

// chain applies an operator to a value and itself, so many times.
func chain(b *ir.Builder, v *ir.Value, count int, op string, attrs ...ir.Attr) *ir.Value {
	for range count {
		v = b.Op("", op, []*ir.Value{v, v}, attrs...)
	}
	return v
}

func ones(b *ir.Builder, shape ...int64) *ir.Value {
	return b.Op("", "ConstantOfShape", []*ir.Value{b.Ints(shape...)}, ir.A("value", tensor.FromSlice([]float32{1}, 1)))
}

var bombs = []bomb{
	{"strings", "StringConcat", func(b *ir.Builder) *ir.Value {
		return chain(b, b.Const("s", tensor.FromStrings([]string{"abcdefgh"}, 1)), 40, "StringConcat")
	}},
	{"rows", "Concat", func(b *ir.Builder) *ir.Value {
		return chain(b, b.Const("c", tensor.FromSlice([]float32{1, 2}, 2)), 45, "Concat", ir.A("axis", 0))
	}},
	{"picture", "ImageDecoder", func(b *ir.Builder) *ir.Value {
		file := grayPNG(12000, 12000)
		return b.Op("", "ImageDecoder", []*ir.Value{b.Const("png", tensor.FromSlice(file, len(file)))})
	}},
	{"convolution", "Conv", func(b *ir.Builder) *ir.Value {
		return b.Op("", "Conv", []*ir.Value{ones(b, 1, 1, 1000, 1000), ones(b, 1, 1, 500, 500)})
	}},
	{"einsum", "Einsum", func(b *ir.Builder) *ir.Value {
		return b.Op("", "Einsum", []*ir.Value{ones(b, 200, 200), ones(b, 200, 200)}, ir.A("equation", "ij,kl->"))
	}},
	{"loop", "Loop", func(b *ir.Builder) *ir.Value { // 2^62 trips around nothing
		s := b.Sub("body")
		s.Input("i", ir.Tensor(tensor.Int64))
		cond, v := s.Input("cond", ir.Tensor(tensor.Bool)), s.Input("v", ir.Tensor(tensor.Float32, 1))
		s.Output("again", s.Op("", "Identity", []*ir.Value{cond}))
		s.Output("next", s.Op("", "Neg", []*ir.Value{v}))
		body, err := s.Build()
		if err != nil {
			b.Fail(err)
			return nil
		}
		return b.Op("", "Loop", []*ir.Value{b.Const("trips", tensor.Scalar(int64(1)<<62)),
			b.Const("cond", tensor.Scalar(true)), b.Const("v0", tensor.FromSlice([]float32{1}, 1))}, ir.A("body", body))
	}},
	{"many", "ConstantOfShape", func(b *ir.Builder) *ir.Value { // each within the limit of one node
		var all []*ir.Value
		for range 600 {
			all = append(all, ones(b, 1<<18))
		}
		return b.Op("", "Max", all)
	}},
}

// grayPNG returns a black picture of one bit per pixel.
func grayPNG(width, height int) []byte {
	var out bytes.Buffer
	out.WriteString("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		binary.Write(&out, binary.BigEndian, uint32(len(data)))
		body := append([]byte(kind), data...)
		out.Write(body)
		binary.Write(&out, binary.BigEndian, crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	chunk("IHDR", append(head, 1, 0, 0, 0, 0))
	var data bytes.Buffer
	w := zlib.NewWriter(&data)
	for row := make([]byte, 1+(width+7)/8); height > 0; height-- {
		w.Write(row)
	}
	w.Close()
	chunk("IDAT", data.Bytes())
	chunk("IEND", nil)
	return out.Bytes()
}

// TestBombs compiles graphs that would fold to more than the budget allows. The nodes that do not fit stay.
func TestBombs(t *testing.T) {
	for _, c := range bombs {
		b := ir.NewBuilder(c.name, ops.Default, ops.Opsets())
		y := c.build(b)
		x := b.Input("x", ir.Tensor(y.Elem(), 1))
		b.Output("x_again", b.Op("", "Identity", []*ir.Value{x}))
		b.Output("y", b.Op("", "Identity", []*ir.Value{b.Op("", "Shape", []*ir.Value{y})}))
		b.Output("z", b.Op("", "Identity", []*ir.Value{y}))
		g, err := b.Build()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		budget := passes.NewBudget(g)
		err = passes.Run(g, append(raise.Pipeline(), passes.Pipeline()...), passes.Options{Budget: budget})
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 100 || took > 5*time.Second {
			t.Errorf("%s: %v and %d MiB", c.name, took, mb)
		} else {
			t.Logf("%s: %v and %d MiB, %d operations", c.name, took, mb, budget.Spent())
		}
		stays := false
		for _, n := range g.Nodes {
			stays = stays || n.Op.Name == c.stays
		}
		if !stays && !strings.Contains(c.name, "many") {
			t.Errorf("%s: no %s is left to the run", c.name, c.stays)
		}
	}
}

// TestBudgetIsShared has all passes of a run take from one budget, and evaluations end with their context.
func TestBudgetIsShared(t *testing.T) {
	graph := func() *ir.Graph {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float32, 64))
		v := b.Op("", "Neg", []*ir.Value{b.Op("", "Abs", []*ir.Value{b.Const("c", tensor.New(tensor.Float32, 64))})})
		b.Output("y", b.Op("", "Add", []*ir.Value{x, v}))
		return b.Graph()
	}
	for _, c := range []struct {
		bytes, work int64
		nodes       int
	}{{-1, -1, 1}, {0, -1, 3}, {-1, 0, 3}, {256, -1, 2}, {-1, 64 + 2*256, 2}} {
		g := graph()
		if err := passes.Run(g, []*passes.Pass{passes.Fold},
			passes.Options{Budget: ir.NewBudget(c.bytes, c.work)}); err != nil {
			t.Fatal(err)
		}
		if len(g.Nodes) != c.nodes {
			t.Errorf("%d bytes and %d operations: %d nodes are left, expected %d", c.bytes, c.work, len(g.Nodes), c.nodes)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := passes.Run(graph(), passes.Pipeline(), passes.Options{Context: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}
