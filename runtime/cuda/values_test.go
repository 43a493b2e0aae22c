package cuda_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
)

// reshaping returns a graph in which the values of inputs decide about shapes: y is x in another shape, times two, and z the
// first k columns of y.
func reshaping(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("reshaping", ops.Default, map[string]int{"test": 1, "": ops.Opsets()[""]})
	x, shape := b.Input("x", ir.Tensor(tensor.Float32, "N")), b.Input("shape", ir.Tensor(tensor.Int64, 2))
	k := b.Input("k", ir.Tensor(tensor.Int64))
	y := b.Op("", "Reshape", []*ir.Value{x, shape})
	y = b.Op("", "Add", []*ir.Value{y, y})
	ends := b.Op("", "Unsqueeze", []*ir.Value{k, b.Const("", tensor.FromSlice([]int64{0}, 1))})
	zero := b.Const("", tensor.FromSlice([]int64{0}, 1))
	one := b.Const("", tensor.FromSlice([]int64{1}, 1))
	b.Output("y", y)
	b.Output("z", b.Op("", "Slice", []*ir.Value{y, zero, ends, one}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Runs bind the program for the values that decide about shapes. No more than the last of them stay.
func TestValues(t *testing.T) {
	g := reshaping(t)
	m, err := runtime.New(g, runtime.Options{Backend: emulated(t, cuda.Options{})()})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	in := data{"x": numbers(12, 1)}
	run := func(rows, columns, k int64) {
		t.Helper()
		in["shape"], in["k"] = tensor.FromSlice([]int64{rows, columns}, 2), tensor.Scalar(k)
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if want := answers(t, g, in); !equal(got, want) {
			t.Errorf("%d × %d, %d: found %v, expected %v", rows, columns, k, got, want)
		}
	}
	for _, rows := range []int64{1, 2, 3, 4, 6, 12, -1} {
		for k := range int64(3) {
			run(rows, 12/max(rows, 1), k)
			run(rows, 12/max(rows, 1), k) // from the cache
		}
	}
	run(4, 3, 2)
	held := s.Memory()
	for k := range int64(20) {
		run(4, 3, k%3)
		run(3, 4, k%5)
	}
	if now := s.Memory(); held == 0 || now > 9*held {
		t.Errorf("%d bytes are held, of which one run needs at most %d", now, held)
	}
	// The values were the caller's: they may change behind a run.
	shape := tensor.FromSlice([]int64{2, 6}, 2)
	in["shape"] = shape
	for _, rows := range []int64{2, 6, 2} {
		tensor.Data[int64](shape)[0], tensor.Data[int64](shape)[1] = rows, 12/rows
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if y := got["y"].(*tensor.Tensor); y.Dim(0) != int(rows) {
			t.Errorf("expected %d rows, found %s", rows, y)
		}
	}
	in["shape"] = tensor.FromSlice([]int64{5, 5}, 2)
	var node *runtime.NodeError
	if _, err := s.Run(context.Background(), in); !errors.As(err, &node) || !strings.Contains(err.Error(), "Reshape") {
		t.Errorf("12 numbers as 5 × 5: expected an error of the node, found %v", err)
	}
	run(2, 6, 1) // and the session goes on
	if err := errors.Join(s.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
