package kernels_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/cpu/kernels"
	"github.com/essmc/essmc/runtime/cpu/kernels/kernelstest"
)

const domain = "kernels.test"

// scaled defines w·x − mean(x), along rows; w may be absent.
func scaled(name string) *ir.Op {
	return ops.Register(&ir.Op{Domain: domain, Name: name, Doc: name + " is w·x − mean(x), along the last axis.",
		In: ops.Sig("x:T[B,L,N]", "w:T[N]?"), Out: ops.Sig("y:T[B,L,N]"), Along: ops.AlongRows, Tol: ir.Summing,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.Tensor(in, 0)
			y := ops.Clone(c, ops.F64(c, in, 0))
			w := []float64(nil)
			if ops.Tensor(in, 1) != nil {
				w = ops.F64(c, in, 1)
			}
			n := x.Dim(2)
			for row := range slices.Chunk(y, n) {
				mean := 0.0
				for _, v := range row {
					mean += v / float64(n)
				}
				for i := range row {
					if w != nil {
						row[i] *= w[i]
					}
					row[i] -= mean
				}
			}
			return ops.One(ops.Real(c, x.DType(), y, x.Shape()...))
		}})
}

// scaledRow is the row kernel of scaled. It computes the products in its scratch memory.
func scaledRow(n *kernels.Node) (kernels.RowFunc, error) {
	w := n.Numbers(1)
	width := n.In(0)[len(n.In(0))-1]
	n.Scratch(width)
	return func(y []float32, x [][]float32, scratch []float32) error {
		mean := 0.0
		for i, v := range x[0] {
			if scratch[i] = v; w != nil {
				scratch[i] *= w[i]
			}
			mean += float64(v)
		}
		for i := range y {
			y[i] = scratch[i] - float32(mean/float64(width))
		}
		return nil
	}, nil
}

var (
	rowed  = scaled("Scaled")
	joined = ops.Register(&ir.Op{Domain: domain, Name: "Joined", Doc: "Joined is the largest of both, without its own element.",
		In: ops.Sig("a:T[B,L,N]", "b:T[B,L,M]"), Out: ops.Sig("y:T[B,L,1]"), Along: ops.AlongRows, Tol: ir.Exact,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			a, b := ops.Tensor(in, 0), ops.Tensor(in, 1)
			x, z := ops.F64(c, in, 0), ops.F64(c, in, 1)
			y := ops.Make[float64](c, a.Dim(0)*a.Dim(1))
			for i := range y {
				y[i] = max(slices.Max(x[i*a.Dim(2):(i+1)*a.Dim(2)]), slices.Max(z[i*b.Dim(2):(i+1)*b.Dim(2)]))
			}
			return ops.One(ops.Real(c, a.DType(), y, a.Dim(0), a.Dim(1), 1))
		}})
	largest = ops.Register(&ir.Op{Domain: domain, Name: "Largest",
		Doc: "Largest is the largest element of each row, and its index plus bias.",
		In:  ops.Sig("x:float[B,N]", "bias:int64?"), Out: ops.Sig("y:float[B]", "i:int64[B]?"), Tol: ir.Exact,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.Tensor(in, 0)
			y, at := tensor.New(tensor.Float32, x.Dim(0)), tensor.New(tensor.Int64, x.Dim(0))
			for r := range x.Dim(0) {
				v := ops.F64(c, in, 0)[r*x.Dim(1) : (r+1)*x.Dim(1)]
				top := slices.Max(v)
				tensor.Data[float32](y)[r] = float32(top)
				tensor.Data[int64](at)[r] = int64(slices.Index(v, top))
				if b := ops.Tensor(in, 1); b != nil {
					tensor.Data[int64](at)[r] += tensor.Data[int64](b)[0]
				}
			}
			return []tensor.Datum{y, at}, nil
		}})
)

// shifted adds a constant, which its kernel reads when it is made. decides has a kernel for some constants only.
var (
	shifted = ops.Register(&ir.Op{Domain: domain, Name: "Shifted", Doc: "Shifted is x + by.", Tol: ir.Rounding,
		In: ops.Sig("x:float[B,L,N]", "by:float[1]"), Out: ops.Sig("y:float[B,L,N]"), Along: ops.AlongRows,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			y := ops.Clone(c, ops.F64(c, in, 0))
			for i := range y {
				y[i] += ops.F64(c, in, 1)[0]
			}
			return ops.One(ops.Real(c, ops.Tensor(in, 0).DType(), y, ops.Tensor(in, 0).Shape()...))
		}})
	decides = scaled("Decides")
)

func init() {
	kernels.MustRow(rowed, kernels.Row{Constant: []int{1}, Make: scaledRow})
	kernels.MustRow(joined, kernels.Row{Make: func(*kernels.Node) (kernels.RowFunc, error) {
		return func(y []float32, x [][]float32, _ []float32) error {
			y[0] = max(slices.Max(x[0]), slices.Max(x[1]))
			return nil
		}, nil
	}})
	kernels.MustTensor(largest, kernels.Tensor{Make: func(n *kernels.Node) (kernels.TensorFunc, error) {
		x, y, at := kernels.Input[float32](n, 0), kernels.Output[float32](n, 0), kernels.Output[int64](n, 1)
		bias := kernels.Input[int64](n, 1)
		rows, width := n.In(0)[0], n.In(0)[1]
		n.Scratch(1)
		n.Temp(rows)
		return func(r *kernels.Run) error {
			x, y := x.In(r), y.In(r)
			if err := r.Parallel(rows, func(w kernels.Worker, i int) error {
				row := x[i*width : (i+1)*width]
				w.Scratch[0] = slices.Max(row)
				y[i], r.Temp[i] = w.Scratch[0], float32(slices.Index(row, w.Scratch[0]))
				return nil
			}); err != nil || at.Absent() {
				return err
			}
			for i := range ops.Each(r.Steps(), rows) {
				at.In(r)[i] = int64(r.Temp[i])
				if !bias.Absent() {
					at.In(r)[i] += bias.In(r)[0]
				}
			}
			return nil
		}, nil
	}})
	kernels.MustTensor(shifted, kernels.Tensor{Constant: []int{1}, Make: func(n *kernels.Node) (kernels.TensorFunc, error) {
		x, y, by := kernels.Input[float32](n, 0), kernels.Output[float32](n, 0), tensor.Data[float32](n.Tensor(1))[0]
		return func(r *kernels.Run) error {
			for i, v := range x.In(r) {
				y.In(r)[i] = v + by
			}
			return nil
		}, nil
	}})
	kernels.MustRow(decides, kernels.Row{Constant: []int{1}, Make: func(n *kernels.Node) (kernels.RowFunc, error) {
		if n.Numbers(1)[0] > 1 {
			return nil, nil
		}
		return func(y []float32, x [][]float32, _ []float32) error { right(y, x[0]); return nil }, nil
	}})
	for name, k := range bad {
		k.op = scaled(name)
		if k.row.Make != nil {
			kernels.MustRow(k.op, k.row)
		} else {
			kernels.MustTensor(k.op, k.tensor)
		}
	}
}

// greed is the numbers of working memory that some kernels ask for.
const greed = 1 << 22

var (
	greedyRow, greedyTensor, slow = scaled("GreedyRow"), scaled("GreedyTensor"), scaled("Slow")
	slowRows                      int
	slowCancel                    func()
)

func init() {
	kernels.MustRow(greedyRow, kernels.Row{Constant: []int{1}, Make: func(n *kernels.Node) (kernels.RowFunc, error) {
		n.Scratch(greed)
		return func([]float32, [][]float32, []float32) error { return nil }, nil
	}})
	kernels.MustTensor(greedyTensor, kernels.Tensor{Make: func(n *kernels.Node) (kernels.TensorFunc, error) {
		kernels.Output[float32](n, 0)
		n.Temp(greed)
		return func(*kernels.Run) error { return nil }, nil
	}})
	kernels.MustRow(slow, rowThat(func([]float32, [][]float32) error {
		if slowRows++; slowRows == 10 {
			slowCancel()
		}
		return nil
	}))
}

// bad are faulty kernels of Scaled, with the error of a run; where there is none, kernelstest must find the fault.
var bad = map[string]*struct {
	row    kernels.Row
	tensor kernels.Tensor
	want   string
	op     *ir.Op
}{
	"Panics": {row: rowThat(func(y []float32, x [][]float32) error { y[len(x[0])] = 1; return nil }),
		want: "row kernel of kernels.test.Panics: panic: runtime error: index out of range"},
	"Fails": {row: rowThat(func([]float32, [][]float32) error { return errors.New("odd weather") }),
		want: "row kernel of kernels.test.Fails: odd weather"},
	"MakesError": {row: kernels.Row{Constant: []int{1}, Make: func(*kernels.Node) (kernels.RowFunc, error) { return nil, errors.New("no sun") }},
		want: "row kernel of kernels.test.MakesError: no sun"},
	"MakesPanic": {row: kernels.Row{Constant: []int{1}, Make: func(n *kernels.Node) (kernels.RowFunc, error) { n.Scratch(-1); return nil, nil }},
		want: "row kernel of kernels.test.MakesPanic: panic: Scratch(-1): expected 0 to"},
	"AsksSlot": {row: kernels.Row{Constant: []int{1}, Make: func(n *kernels.Node) (kernels.RowFunc, error) {
		kernels.Input[float32](n, 0)
		return nil, nil
	}}, want: "row kernel of kernels.test.AsksSlot: panic: Input and Output are for tensor kernels"},
	"ForgetsOutput": {tensor: kernels.Tensor{Make: func(*kernels.Node) (kernels.TensorFunc, error) {
		return func(*kernels.Run) error { return nil }, nil
	}}, want: "tensor kernel of kernels.test.ForgetsOutput: Make does not ask for output 0, which is wanted"},
	"ItemPanics": {tensor: tensorThat(func(y []float32, item int) error { panic(fmt.Sprint("item ", item)) }),
		want: "tensor kernel of kernels.test.ItemPanics: panic: item "},
	"ItemFails": {tensor: tensorThat(func(y []float32, item int) error { return errors.New("rain") }),
		want: "tensor kernel of kernels.test.ItemFails: rain"},
	"Nests": {tensor: kernels.Tensor{Make: func(n *kernels.Node) (kernels.TensorFunc, error) {
		kernels.Output[float32](n, 0)
		return func(r *kernels.Run) error {
			return r.Parallel(2, func(kernels.Worker, int) error { return r.Parallel(1, nil) })
		}, nil
	}}, want: "tensor kernel of kernels.test.Nests: Parallel is called by an item of Parallel"},
	"Wrong":    {row: rowThat(func(y []float32, x [][]float32) error { copy(y, x[0]); return nil })},
	"Declines": {row: kernels.Row{Constant: []int{1}, Make: func(*kernels.Node) (kernels.RowFunc, error) { return nil, nil }}},
	"Remembers": {row: func() kernels.Row {
		var last atomic.Uint32 // since the race detector would find it otherwise
		return rowThat(func(y []float32, x [][]float32) error {
			right(y, x[0])
			y[0] += 1e-7 * math.Float32frombits(last.Swap(math.Float32bits(x[0][0])))
			return nil
		})
	}()},
}

func right(y, x []float32) {
	mean := 0.0
	for _, v := range x {
		mean += float64(v)
	}
	for i := range y {
		y[i] = x[i] - float32(mean/float64(len(x)))
	}
}

func rowThat(f func(y []float32, x [][]float32) error) kernels.Row {
	return kernels.Row{Constant: []int{1}, Make: func(*kernels.Node) (kernels.RowFunc, error) {
		return func(y []float32, x [][]float32, _ []float32) error { return f(y, x) }, nil
	}}
}

func tensorThat(f func(y []float32, item int) error) kernels.Tensor {
	return kernels.Tensor{Make: func(n *kernels.Node) (kernels.TensorFunc, error) {
		y := kernels.Output[float32](n, 0)
		return func(r *kernels.Run) error {
			return r.Parallel(9, func(_ kernels.Worker, item int) error { return f(y.In(r), item) })
		}, nil
	}}
}

// TestKernels checks kernels of both kinds, with and without optional inputs and outputs, scratch memory and constants.
func TestKernels(t *testing.T) {
	x := ir.Tensor(tensor.Float32, "B", "L", 5)
	w := tensor.FromSlice([]float32{1, -2, 3, 0.5, 4}, 5)
	kernelstest.Check(t, kernelstest.Case{Op: rowed, In: []any{x}})
	kernelstest.Check(t, kernelstest.Case{Op: rowed, In: []any{x, w}})
	kernelstest.Check(t, kernelstest.Case{Op: joined, In: []any{x, ir.Tensor(tensor.Float32, "B", "L", 3)}})
	kernelstest.Check(t, kernelstest.Case{Op: shifted, In: []any{x, tensor.FromSlice([]float32{0.5}, 1)}})
	in := []any{ir.Tensor(tensor.Float32, "L", 3), ir.Tensor(tensor.Int64)}
	for outputs := 1; outputs <= 2; outputs++ {
		kernelstest.Check(t, kernelstest.Case{Op: largest, In: in[:outputs], Outputs: outputs,
			Fill: func(i int, x *tensor.Tensor, r *rand.Rand) {
				if i == 1 {
					tensor.Data[int64](x)[0] = 7
					return
				}
				for k, v := 0, tensor.Data[float32](x); k < len(v); k++ {
					v[k] = float32(r.IntN(9))
				}
			}})
	}
}

// TestMisfits checks that nodes which a kernel does not fit run as the operator defines them.
func TestMisfits(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	b.Import(domain, 1)
	x := b.Input("x", ir.Tensor(tensor.Float32, 1, 2, 3))
	wide := b.Input("wide", ir.Tensor(tensor.Float64, 1, 2, 3))
	b.Output("varies", b.Op(domain, "Scaled", []*ir.Value{x, b.Input("w", ir.Tensor(tensor.Float32, 3))}))
	b.Output("wide64", b.Op(domain, "Scaled", []*ir.Value{wide}))
	b.Output("constant", b.Op(domain, "Joined", []*ir.Value{x, b.Const("c", tensor.FromSlice([]float32{1, 9}, 1, 2, 1))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	out, err := s.Run(context.Background(), map[string]tensor.Datum{"w": tensor.FromSlice([]float32{1, 2, 3}, 3),
		"x":    tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3),
		"wide": tensor.FromSlice([]float64{1, 2, 3, 4, 5, 6}, 1, 2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"varies": "[[[-1 2 7] [-1 5 13]]]", "wide64": "[[[-1 0 1] [-1 0 1]]]", "constant": "[[[3] [9]]]"} {
		if got := fmt.Sprint(out[name]); !strings.Contains(got, want) {
			t.Errorf("%s: found %s, expected %s", name, got, want)
		}
	}
	for _, step := range s.Profile() {
		if step.Form != "eval" {
			t.Errorf("%s runs by form %q, expected evaluations", step.Name, step.Form)
		}
	}
}

// fakeT records that a test has failed.
type fakeT struct {
	testing.TB
	failed []string
}

type stopped struct{}

func (f *fakeT) Helper() {}
func (f *fakeT) Errorf(format string, args ...any) {
	f.failed = append(f.failed, fmt.Sprintf(format, args...))
}
func (f *fakeT) Fatalf(format string, args ...any) { f.Errorf(format, args...); panic(stopped{}) }
func (f *fakeT) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }

// TestFaults checks that errors of faulty kernels name node and operator, that the session can be used again, and that
// kernelstest finds faults that are not errors.
func TestFaults(t *testing.T) {
	for name, k := range bad {
		x := ir.Tensor(tensor.Float32, "B", "L", 5)
		if k.want == "" {
			f := &fakeT{TB: t}
			func() {
				defer func() {
					if v := recover(); v != nil && v != (stopped{}) {
						panic(v)
					}
				}()
				kernelstest.Check(f, kernelstest.Case{Op: k.op, In: []any{x}})
			}()
			if len(f.failed) == 0 {
				t.Errorf("%s: kernelstest finds no fault", name)
			}
			continue
		}
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		b.Import(domain, 1)
		b.Output("y", b.Op("", "Add", []*ir.Value{b.Op(domain, name, []*ir.Value{b.Op("", "Neg", []*ir.Value{b.Input("x", x)})}),
			b.Const("one", tensor.Scalar(float32(1)))}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		for range 2 {
			_, err = s.Run(context.Background(), map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 2, 300, 5)})
			var own *kernels.Error
			if err == nil || !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), "node kernels.test."+name) ||
				!errors.As(err, &own) || own.Op != k.op {
				t.Errorf("%s: found %v, expected %s", name, err, k.want)
			}
			if strings.Contains(k.want, "panic") != errors.Is(err, runtime.ErrInternal) {
				t.Errorf("%s: a panic is an ErrInternal, found %v", name, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMemory checks that working memory of both kinds is charged before it is allocated.
func TestMemory(t *testing.T) {
	for _, k := range []*ir.Op{greedyRow, greedyTensor} {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		b.Import(domain, 1)
		b.Output("y", b.Op(domain, k.Name, []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 1, "L", 5))}))
		m, err := runtime.New(must(b.Build()), runtime.Options{Backend: cpu.New(), Threads: 1, MaxMemory: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.NewSession().Run(context.Background(), map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 1, 3, 5)})
		var over *runtime.MemoryError
		if !errors.As(err, &over) || over.Need < 4*greed {
			t.Errorf("%s: found %v, expected an error about %d bytes", k.Name, err, 4*greed)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCancel checks that a run ends between two rows.
func TestCancel(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	b.Import(domain, 1)
	b.Output("y", b.Op(domain, slow.Name, []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 1, "L", 5))}))
	m, err := runtime.New(must(b.Build()), runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const length = 100_000
	ctx, cancel := context.WithCancel(t.Context())
	slowRows, slowCancel = 0, cancel
	_, err = m.NewSession().Run(ctx, map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 1, length, 5)})
	if !errors.Is(err, context.Canceled) || slowRows > length/10 {
		t.Errorf("found %v after %d rows", err, slowRows)
	}
}

// TestDecides checks the error for a kernel that is made for some contents of a parameter only.
func TestDecides(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	b.Import(domain, 1)
	w := b.Parameter("w", tensor.FromSlice([]float32{1, 1}, 2))
	b.Output("y", b.Op(domain, decides.Name, []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 1, "L", 2)), w}))
	m, err := runtime.New(must(b.Build()), runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, in := m.NewSession(), map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 1, 3, 2)}
	if _, err := s.Run(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	for _, w := range []float32{1, 1, 1, 1, 2} { // the last ones come into memory that had others
		if err = m.Set().Replace(context.Background(), map[string]tensor.Datum{"w": tensor.FromSlice([]float32{w, 1}, 2)}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Run(context.Background(), in)
	}
	if err == nil || !strings.Contains(err.Error(),
		"row kernel of kernels.test.Decides: Make decides by the content of a parameter") {
		t.Errorf("found %v", err)
	}
}

// TestRefused checks registrations that are refused.
func TestRefused(t *testing.T) {
	for _, c := range refused {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("found %v, expected %s", c.err, c.want)
		}
	}
	m, err := runtime.New(must(ir.NewBuilder("g", ops.Default, ops.Opsets()).Build()), runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := kernels.RegisterRow(rowed, kernels.Row{Make: scaledRow}); err == nil ||
		err.Error() != "row kernel of kernels.test.Scaled: a graph was compiled before; register kernels when packages are initialized" {
		t.Errorf("after a graph was compiled: found %v", err)
	}
}

func must(g *ir.Graph, err error) *ir.Graph {
	if err != nil {
		panic(err)
	}
	return g
}

// refused are registrations, made when this package is initialized.
var refused = func() (all []struct {
	err  error
	want string
}) {
	add := func(err error, want string) {
		all = append(all, struct {
			err  error
			want string
		}{err, want})
	}
	row := kernels.Row{Make: scaledRow}
	twice, older := scaled("Twice"), scaled("Older")
	if err := kernels.RegisterRow(twice, row); err != nil {
		panic(err)
	}
	element := ops.Register(&ir.Op{Domain: domain, Name: "Doubled", Doc: "Doubled is 2·x.", In: ops.Sig("x:T"), Out: ops.Sig("y:T"),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Add(x[0], x[0]) }})
	newer := *older
	newer.Since = 2
	ops.Register(&newer)
	add(kernels.RegisterRow(twice, row), "row kernel of kernels.test.Twice: the operator has a row kernel already")
	add(kernels.RegisterRow(nil, row), "row kernel of nil: no operator")
	add(kernels.RegisterRow(older, row), "version 1 of the operator is not its newest")
	add(kernels.RegisterRow(&ir.Op{Domain: domain, Name: "None"}, row), "row kernel of kernels.test.None: the operator is not registered")
	add(kernels.RegisterRow(std.Softmax, row), "row kernel of Softmax: the operator belongs to github.com/essmc/essmc/ops/std")
	add(kernels.RegisterRow(element, row), "the operator has an Element, from which its kernels follow")
	add(kernels.RegisterTensor(&newer, kernels.Tensor{}), "tensor kernel of kernels.test.Older: Make is nil")
	add(kernels.RegisterRow(&newer, kernels.Row{Constant: []int{2}, Make: scaledRow}), "Constant has input 2, the operator has 2 inputs")
	return all
}()
