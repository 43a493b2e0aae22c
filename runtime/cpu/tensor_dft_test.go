package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// transformCase is an operator over one tensor of a given shape.
type transformCase struct {
	name  string // with its version, like "DFT-17"
	shape []int
	in    [][]int64 // further inputs, constants; nil where absent
	win   int       // numbers of a window, for STFT
	attrs []ir.Attr
	eval  bool // has no kernel
}

func (c transformCase) String() string { return fmt.Sprint(c.name, c.shape, c.in, c.win, c.attrs) }

func (c transformCase) graph(t testing.TB) *ir.Graph {
	t.Helper()
	opsets := ops.Opsets()
	name, version, _ := strings.Cut(c.name, "-")
	if version != "" {
		opsets[""] = 17
	}
	b := ir.NewBuilder("transform", ops.Default, opsets)
	shape := make([]any, len(c.shape))
	for i, n := range c.shape {
		shape[i] = n
	}
	in := []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, shape...))}
	for _, v := range c.in {
		switch {
		case v == nil && c.win > 0:
			in = append(in, b.Const("window", NewGen(3).Floats(1, c.win)))
		case v == nil:
			in = append(in, nil)
		default:
			in = append(in, b.Const("size", tensor.FromSlice([]int64{v[0]})))
		}
	}
	b.Output("y", b.Op("", name, in, c.attrs...))
	g, err := b.Build()
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return g
}

func transformCases() []transformCase {
	inverse, onesided := ir.A("inverse", 1), ir.A("onesided", 1)
	both := []ir.Attr{inverse, onesided}
	return []transformCase{
		{name: "DFT", shape: []int{19, 64, 1}},
		{name: "DFT", shape: []int{19, 64, 1}, attrs: []ir.Attr{onesided}},
		{name: "DFT", shape: []int{2, 3, 100, 2}},
		{name: "DFT", shape: []int{3, 1000, 1}, attrs: []ir.Attr{onesided}},
		{name: "DFT", shape: []int{3, 1000, 1}},
		{name: "DFT", shape: []int{2, 37, 2}, attrs: []ir.Attr{inverse}},
		{name: "DFT", shape: []int{9, 51, 2}, attrs: both},
		{name: "DFT", shape: []int{9, 51, 2}, in: [][]int64{{101}}, attrs: both},
		{name: "DFT", shape: []int{9, 51, 2}, in: [][]int64{{60}}, attrs: both},
		{name: "DFT", shape: []int{9, 51, 2}, in: [][]int64{{200}}, attrs: both},
		{name: "DFT", shape: []int{2, 50, 1}, in: [][]int64{{64}}},
		{name: "DFT", shape: []int{11, 51, 1}, in: [][]int64{{64}}, attrs: []ir.Attr{onesided}},
		{name: "DFT", shape: []int{2, 50, 1}, in: [][]int64{{33}}, attrs: []ir.Attr{onesided}},
		{name: "DFT", shape: []int{2, 50, 2}, in: [][]int64{{33}}, attrs: []ir.Attr{onesided}},
		{name: "DFT", shape: []int{2, 50, 2}, in: [][]int64{{77}}, attrs: []ir.Attr{inverse}},
		{name: "DFT", shape: []int{2, 40, 3, 5, 1}, in: [][]int64{nil, {1}}},
		{name: "DFT", shape: []int{2, 40, 3, 5, 2}, in: [][]int64{{47}, {1}}, attrs: []ir.Attr{inverse}},
		{name: "DFT", shape: []int{40, 3, 2}, in: [][]int64{nil, {-3}}, attrs: both},
		{name: "DFT", shape: []int{4, 10, 1}, attrs: []ir.Attr{inverse}, eval: true},
		{name: "DFT", shape: []int{0, 10, 1}},
		{name: "DFT", shape: []int{2, 1, 1}},
		{name: "DFT-17", shape: []int{2, 40, 3, 1}},
		{name: "DFT-17", shape: []int{2, 40, 3, 1}, in: [][]int64{{16}}, attrs: []ir.Attr{ir.A("axis", 2), onesided}},
		{name: "STFT", shape: []int{2, 300, 1}, in: [][]int64{{13}, nil, {50}}},
		{name: "STFT", shape: []int{2, 300, 1}, in: [][]int64{{13}, nil}, win: 64},
		{name: "STFT", shape: []int{2, 300, 2}, in: [][]int64{{30}, nil, {45}}, win: 45,
			attrs: []ir.Attr{ir.A("onesided", 0)}},
		{name: "STFT", shape: []int{2, 20, 1}, in: [][]int64{{3}, nil, {20}}},
	}
}

// TestTransforms compares each form with the interpreter, and the answers of several threads with those of one.
func TestTransforms(t *testing.T) {
	for _, c := range transformCases() {
		g := c.graph(t)
		in := map[string]tensor.Datum{"x": NewGen(4).Floats(1, c.shape...)}
		want := Truth(t, g, in)
		var one map[string]tensor.Datum
		for _, threads := range []int{1, 3} {
			got := Run(t, g, runtime.Options{Backend: New(), Threads: threads}, in)
			CloseTo(t, c.String(), got, want, 5e-7)
			if one == nil {
				one = got
			} else if !tensor.Equal(one["y"].(*tensor.Tensor), got["y"].(*tensor.Tensor)) {
				t.Errorf("%v: answers with %d threads differ from those with 1", c, threads)
			}
		}
		p, err := compile(g, runtime.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		u := p.lookup(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}}).units()
		if has := u[len(u)-1].kernel != nil; has == c.eval {
			t.Errorf("%v: has a kernel: %v", c, has)
		}
	}
}

// TestTransformAllocations checks that a transform allocates nothing after the first run, except for threads.
func TestTransformAllocations(t *testing.T) {
	for _, threads := range []int{1, 2} {
		g := transformCase{name: "DFT", shape: []int{20, 500, 1}}.graph(t)
		p, err := compile(g, runtime.Config{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
		if err != nil {
			t.Fatal(err)
		}
		in, out := []tensor.Datum{NewGen(1).Floats(1, 20, 500, 1)},
			[]tensor.Datum{tensor.New(tensor.Float32, 20, 500, 2)}
		n := testing.AllocsPerRun(5, func() {
			if err := e.Run(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		})
		if n > float64(3*(threads-1)) {
			t.Errorf("%d threads: %v allocations per run", threads, n)
		}
	}
}

// BenchmarkTransforms runs the operator DFT on 64 signals.
func BenchmarkTransforms(b *testing.B) {
	for _, n := range []int{1000, 2000, 4096, 16000, 16384, 16411} {
		for _, onesided := range []int{0, 1} {
			b.Run(fmt.Sprintf("%d/onesided=%d", n, onesided), func(b *testing.B) {
				g := transformCase{name: "DFT", shape: []int{64, n, 1},
					attrs: []ir.Attr{ir.A("onesided", onesided)}}.graph(b)
				p, err := compile(g, runtime.Config{Threads: 1})
				if err != nil {
					b.Fatal(err)
				}
				e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
				if err != nil {
					b.Fatal(err)
				}
				terms := n
				if onesided == 1 {
					terms = n/2 + 1
				}
				in, out := []tensor.Datum{NewGen(1).Floats(1, 64, n, 1)},
					[]tensor.Datum{tensor.New(tensor.Float32, 64, terms, 2)}
				for b.Loop() {
					if err := e.Run(context.Background(), in, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestTransformMemory checks that the scratch and the tables of transforms count against the memory limit.
func TestTransformMemory(t *testing.T) {
	for _, n := range []int{1 << 16, 65537} {
		g := transformCase{name: "DFT", shape: []int{1, n, 1}}.graph(t)
		bind := func(limit int64) (runtime.Executable, error) {
			p, err := compile(g, runtime.Config{Threads: 2, MaxMemory: limit})
			if err != nil {
				t.Fatal(err)
			}
			return p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
		}
		e, err := bind(0)
		if err != nil {
			t.Fatal(err)
		}
		need := e.ArenaBytes()
		if least := int64(2*4*4*n/2 + 8*n/2); need < least {
			t.Errorf("length %d: %d bytes, of which the transform alone takes %d", n, need, least)
		}
		if _, err := bind(need); err != nil {
			t.Errorf("length %d: %v", n, err)
		}
		if _, err := bind(need - 1); !errors.Is(err, runtime.ErrMemory) {
			t.Errorf("length %d: found %v", n, err)
		}
	}
}

// TestTransformCancel cancels runs inside a long transform: while its tables are made, and between its passes.
func TestTransformCancel(t *testing.T) {
	const n = 1 << 18
	g := transformCase{name: "DFT", shape: []int{1, n, 2}}.graph(t)
	p, err := compile(g, runtime.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
	if err != nil {
		t.Fatal(err)
	}
	in, out := []tensor.Datum{NewGen(1).Floats(1, 1, n, 2)}, make([]tensor.Datum, 1)
	run := func(looks int) (used int, err error) {
		ctx := &patience{context.Background(), looks}
		err = e.Run(ctx, in, out)
		return looks - ctx.left, err
	}
	for k := 1; ; k++ {
		used, err := run(k)
		if err == nil {
			if k < 8 { // the transform makes four of them
				t.Errorf("a run that makes tables looks %d times", used)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if k > 1000 {
			t.Fatal("never done")
		}
	}
	want, _ := run(1 << 30)
	if used, err := run(want - 3); !errors.Is(err, context.Canceled) || used > want+8 {
		t.Errorf("a run of %d looks, cancelled at the last but two: %d looks, %v", want, used, err)
	}
}

// TestTransformInBranch checks that branches use the scratch of the model's workers.
func TestTransformInBranch(t *testing.T) {
	r := NewGen(15)
	b := ir.NewBuilder("branches", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 12))
	cond := b.Input("cond", ir.Tensor(tensor.Bool))
	branch := func(of func(sub *ir.Builder) *ir.Value) *ir.Graph {
		sub := b.Sub("branch")
		sub.Output("", of(sub))
		g, err := sub.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	transform := branch(func(sub *ir.Builder) *ir.Value {
		y := sub.Op("", "Unsqueeze", []*ir.Value{x, sub.Ints(3)})
		y = sub.Op("", "DFT", []*ir.Value{y, nil, sub.Const("axis", tensor.Scalar(int64(1)))})
		return sub.Op("", "ReduceSum", []*ir.Value{y, sub.Ints(3)}, ir.A("keepdims", 0))
	})
	layers := branch(func(sub *ir.Builder) *ir.Value {
		y := x
		for _, direction := range []string{"bidirectional", "forward", "bidirectional"} {
			s := plain
			s.direction = direction
			y = sub.Op("", "Tanh", s.ssm(r, sub, y, nil))
		}
		return y
	})
	b.Output("y", b.Op("", "If", []*ir.Value{cond}, ir.A("then_branch", transform), ir.A("else_branch", layers)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"", "fft"} {
		for _, threads := range []int{1, 3} {
			for _, then := range []bool{true, false} {
				in := map[string]tensor.Datum{"x": r.Floats(1, 2, 300, 12), "cond": tensor.Scalar(then)}
				got := Run(t, g, runtime.Options{Backend: New(), Threads: threads, Kernel: form}, in)
				CloseTo(t, fmt.Sprint(form, " ", then), got, Truth(t, g, in), 5e-5)
			}
		}
	}
}
