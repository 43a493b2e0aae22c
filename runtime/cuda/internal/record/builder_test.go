package record_test

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
)

// all implements every step.
type all struct{}

func (all) Name() string { return "all" }
func (all) Implement(*lowering.Compiler, *lowering.Step) lowering.Support {
	return lowering.Implemented
}

// bound returns the binding of y = Reshape(Tanh(x), [-1]) for an x of n × 3.
func bound(t *testing.T, n int64) *lowering.Binding {
	t.Helper()
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Sym("N"), ir.Const(3)}})
	h := b.Op("", "Tanh", []*ir.Value{x})
	y := b.Op("", "Reshape", []*ir.Value{h, b.Const("flat", tensor.FromSlice([]int64{-1}, 1))})
	b.Output("y", y)
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	p, err := lowering.Lower(b.Graph(), runtime.Config{Threads: 1}, all{})
	if err != nil {
		t.Fatal(err)
	}
	d := p.Bind(runtime.Binding{Dims: map[string]int64{"N": n},
		Inputs: []ir.Type{lowering.TypeOf(tensor.Float32, []int{int(n), 3})}}, nil)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

func noop() *kernel.Code {
	return kernel.New("noop", 32, func(k *ptx.Kernel) { k.PtrParam("x"); k.U32Param("n") })
}

func TestBuilder(t *testing.T) {
	d := bound(t, 5)
	b := record.NewBuilder(d)
	tanh, reshape := d.Program.Steps[0], d.Program.Steps[1]
	b.Begin(tanh.Node)
	x, y := b.Buffer(tanh.In[0]), b.Buffer(tanh.Out[0])
	if x == y || x == 0 || y == 0 || b.Buffer(tanh.In[0]) != x {
		t.Fatalf("buffers %d and %d", x, y)
	}
	if n := b.Bytes(tanh.In[0]); n != 60 {
		t.Errorf("x has %d bytes", n)
	}
	s := b.Scratch(100)
	b.Fill(s, 0xff, 100)
	b.Launch(kernel.NewCall(noop(), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(y), kernel.U32(15)))
	b.Launch(kernel.NewCall(noop(), driver.Dim{X: 0, Y: 1, Z: 1}, kernel.Ptr(y), kernel.U32(0)))
	b.Copy(y, x, 0)
	b.Work(ir.Work{Flops: 3, Bytes: 4})
	b.Work(ir.Work{Flops: 1})
	u := b.Keep()
	if len(u.Work) != 2 || u.Work[0].Kind != device.Fill || u.Work[1].Kind != device.Launches || u.Cost != (ir.Work{Flops: 4, Bytes: 4}) {
		t.Errorf("found %+v", u)
	}

	b.Begin(reshape.Node)
	if !b.View(reshape.Out[0], reshape.In[0]) || b.View(reshape.Out[0], reshape.In[0]) {
		t.Error("a view is made once")
	}
	if b.Buffer(reshape.Out[0]) != y || b.Root(reshape.Out[0]) != tanh.Out[0] {
		t.Error("the view lies elsewhere")
	}
	b.Drop()
	if b.Root(reshape.Out[0]) != reshape.Out[0] || b.Uses(reshape.Out[0]) != 0 || b.Uses(tanh.Out[0]) != y {
		t.Error("a view that was dropped is there")
	}
	n := b.Buffers()
	b.Begin(reshape.Node)
	k := b.Constant("table", func() []byte { return nil })
	if b.Constant("table", nil) != k || b.Constant("other", nil) == k || b.Weights(&lowering.Value{Const: tensor.Scalar(float32(1))}, "table", nil) == k {
		t.Error("keys are mixed up")
	}
	b.Buffer(reshape.Out[0])
	b.Drop()
	if b.Buffers() != n || b.Uses(reshape.Out[0]) != 0 {
		t.Error("buffers that were dropped are there")
	}
}

// Tensors without elements have no address.
func TestEmpty(t *testing.T) {
	d := bound(t, 0)
	b := record.NewBuilder(d)
	s := d.Program.Steps[0]
	b.Begin(s.Node)
	if b.Buffer(s.In[0]) != 0 || b.Buffer(nil) != 0 || b.Scratch(0) != 0 {
		t.Error("a buffer of no bytes")
	}
}

// Records of the operator and kinds are tried by rank, kinds of one rank by name, and records without Takes accept only
// the newest version.
func TestFor(t *testing.T) {
	never := func(*record.Builder, *lowering.Step) bool { return false }
	ask := func(name string, list *[]string) func(*lowering.Step) bool {
		return func(*lowering.Step) bool { *list = append(*list, name); return name == "b" }
	}
	var asked []string
	record.RegisterKind(2, record.Record{Op: "c", Takes: ask("c", &asked), Build: never})
	record.RegisterKind(1, record.Record{Op: "b", Takes: ask("b", &asked), Build: never})
	record.RegisterKind(1, record.Record{Op: "a", Takes: ask("a", &asked), Build: never})
	record.Register(record.Record{Op: "Tanh", Build: never}, record.Record{Op: "Softmax", Build: never})
	d := bound(t, 5)
	if r := record.For(d.Program.Steps[0]); r == nil || r.Op != "Tanh" || asked != nil {
		t.Errorf("found %v, asked %v", r, asked)
	}
	if r := record.For(d.Program.Steps[1]); r == nil || r.Op != "b" || !slices.Equal(asked, []string{"a", "b"}) {
		t.Errorf("found %v, asked %v", r, asked)
	}
	old := *d.Program.Steps[0]
	node := *old.Node
	node.Op = ops.Default.Resolve("", "Softmax", 1)
	old.Node = &node
	if r := record.For(&old); r == nil || r.Op != "b" {
		t.Errorf("an older version: found %v", r)
	}
	// The file of a second kernel registers it, also before the first one is registered.
	all := func(*lowering.Step) bool { return true }
	record.Register(record.Record{Op: "Softmax", Rank: record.Plain, Takes: all, Build: never})
	asked = nil
	record.RegisterKind(record.Plain+1, record.Record{Op: "d", Takes: ask("d", &asked), Build: never})
	for _, c := range []struct {
		rank int
		op   string
	}{{2, "Softmax"}, {1, "Softmax"}} { // of rank 2 before kind c, and of rank 1 before kinds a and b
		record.Register(record.Record{Op: c.op, Rank: c.rank, Takes: all, Build: never})
	}
	if r := record.For(&old); r == nil || r.Op != "Softmax" || r.Rank != 1 || asked != nil {
		t.Errorf("of several records: found %v, asked %v", r, asked)
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("two records of one rank were accepted")
		}
	}()
	record.Register(record.Record{Op: "Softmax", Rank: record.Plain, Build: never})
}
