package tensors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestSamples checks the samples of all operators that this package has records of, on an emulated card. Samples of types
// without kernels are refused.
func TestSamples(t *testing.T) {
	drv := emu.New(emu.Options{})
	b, err := cuda.New(drv, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`Identity Reshape Squeeze Unsqueeze Flatten Transpose Concat Split Slice Pad Expand Tile
		DepthToSpace SpaceToDepth Trilu ConstantOfShape Gather GatherElements GatherND ScatterElements ScatterND OneHot CumSum
		Dropout`) {
		answers := 0
		for _, op := range ops.Default.All() {
			if op.FullName() != name || !ops.Newest(op) {
				continue
			}
			for i, s := range samples.Of(op) {
				g, in := graph(t, op, s)
				if sampleAnswers(t, fmt.Sprintf("%s, sample %d", name, i), b, g, in) {
					answers++
				}
			}
		}
		if answers == 0 {
			t.Errorf("%s: no sample has an answer", name)
		}
	}
	for _, f := range drv.Findings() {
		t.Error(f)
	}
}

func graph(t *testing.T, op *ir.Op, s opstest.Sample) (*ir.Graph, map[string]tensor.Datum) {
	t.Helper()
	b := ir.NewBuilder("sample", ops.Default, ops.Opsets())
	in := map[string]tensor.Datum{}
	var list []*ir.Value
	for i, d := range s.In {
		name := fmt.Sprintf("in%d", i)
		x, whole := d.(*tensor.Tensor)
		switch {
		case d == nil:
			list = append(list, nil)
		case whole && i > 0 && x.Len() < 10 && x.DType().IsInt() && !strings.HasPrefix(op.Name, "Gather") &&
			!strings.HasPrefix(op.Name, "Scatter"): // sizes, axes, places
			list = append(list, b.Const(name, x))
		default:
			list = append(list, b.Input(name, opstest.TypeOf(d, func(_, size int) ir.Dim { return ir.Const(int64(size)) })))
			in[name] = d
		}
	}
	for i, v := range b.Apply(op, s.Outs, list, ir.NewAttrs(s.Attrs...)) {
		if v != nil {
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, in
}

func sampleAnswers(t *testing.T, name string, b runtime.Backend, g *ir.Graph, in map[string]tensor.Datum) bool {
	t.Helper()
	truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Close()
	want, err := truth.NewSession().Run(context.Background(), in)
	m, failed := runtime.New(g, runtime.Options{Backend: b})
	if errors.Is(failed, runtime.ErrUnsupported) {
		return false
	}
	if failed != nil {
		t.Errorf("%s: %v", name, failed)
		return false
	}
	defer m.Close()
	got, failed := m.NewSession().Run(context.Background(), in)
	switch {
	case errors.Is(failed, runtime.ErrUnsupported):
		return false
	case (err == nil) != (failed == nil):
		t.Errorf("%s: expected error %v, found %v", name, err, failed)
		return false
	}
	n := g.Nodes[0]
	operands := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			operands[i] = in[v.Name]
		}
	}
	for _, v := range g.Outputs {
		if diff := backendtest.DiffNode(n, operands, slices.Index(n.Outputs, v), got[v.Name], want[v.Name]); diff != "" {
			t.Errorf("%s: output %s: %s", name, v.Name, diff)
		}
	}
	return err == nil
}

// TestOutOfRange checks that an index out of range is an error of its node.
func TestOutOfRange(t *testing.T) {
	drv := emu.New(emu.Options{})
	backend, err := cuda.New(drv, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{ir.Const(5), ir.Const(3)}})
	i := b.Input("i", &ir.TensorType{Elem: tensor.Int64, Shape: ir.Shape{ir.Sym("N")}})
	b.Output("y", b.Op("", "Gather", []*ir.Value{x, i}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: backend})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	for k, want := range map[int64]bool{4: true, -5: true, 5: false, -6: false, 1 << 40: false} {
		_, err := s.Run(context.Background(), map[string]tensor.Datum{"x": tensor.FromSlice(make([]float32, 15), 5, 3),
			"i": tensor.FromSlice([]int64{0, k}, 2)})
		var node *runtime.NodeError
		if want != (err == nil) || err != nil && (!errors.As(err, &node) || !strings.Contains(err.Error(), "index")) {
			t.Errorf("index %d of 5: %v", k, err)
		}
	}
	for _, f := range drv.Findings() {
		t.Error(f)
	}
}
