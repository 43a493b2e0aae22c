// Package kernelstest checks kernels (package runtime/cpu/kernels) against the definition of their operator.
//
//	func TestGate(t *testing.T) {
//		x := ir.Tensor(tensor.Float32, "B", "L", 5)
//		kernelstest.Check(t, kernelstest.Case{Op: gate, In: []any{x, x}})
//	}
//
// It imports ir, ops, runtime and its backends cpu and ref, and only tests import it.
package kernelstest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// Case is an application of an operator.
type Case struct {
	Op    *ir.Op
	Attrs []ir.Attr
	// In are the inputs: an ir.Type for one that varies, a *tensor.Tensor for a constant, nil for an absent one. The
	// symbol L stands for the steps of a sequence and B for its samples; other symbols may be used, too.
	In []any
	// Outputs is the number of outputs that are wanted; 0: one.
	Outputs int
	// Fill sets the elements of input i, for types besides float32 and float64, or for other numbers than those of a
	// normal distribution.
	Fill func(i int, x *tensor.Tensor, r *rand.Rand)
}

// sizes are numbers of samples and steps, most of them odd.
var sizes = []map[string]int{{"B": 1, "L": 1}, {"B": 2, "L": 7}, {"B": 3, "L": 129}, {"B": 1, "L": 1031},
	{"B": 0, "L": 3}}

// chunks are the lengths of the chunks of a stream, in turn.
var chunks = []int{1, 13, 64, 2}

// Check runs the operator by its kernel, and fails the test where
//
//   - the backend does not use a kernel of the operator for the case,
//   - answers differ from the definition (Eval, Body), in float64, by more than Op.Tol,
//   - answers on two threads, or of a second run, differ from those on one thread in any bit,
//   - a stream that gets the sequence in chunks gives other answers, if the operator looks back only (Op.Along),
//   - answers are wrong after the content of constants of floats, as parameters, was replaced.
func Check(t testing.TB, c Case) {
	t.Helper()
	if c.Outputs == 0 {
		c.Outputs = 1
	}
	plain, err := c.graph(false)
	if err != nil {
		t.Fatal(err)
	}
	one, used := c.model(t, plain, 1)
	two, _ := c.model(t, plain, 2)
	for i, size := range sizes {
		in := c.data(t, plain, size, uint64(i))
		what := fmt.Sprintf("%s, %v", c.Op.FullName(), size)
		got := run(t, one, in, what)
		same(t, what+": a second run", got, run(t, one, in, what))
		same(t, what+": two threads", got, run(t, two, in, what))
		near(t, what, c.Op.Tol, got, c.defined(t, plain, in))
		if size["L"] > chunks[0] && size["B"] > 0 {
			stream(t, what, two, size, in, got)
		}
	}
	c.parameters(t)
	if n := used.ways[cpu.WayRow] + used.ways[cpu.WayTensor]; n < len(sizes)-1 { // an empty batch may need none
		t.Errorf("%s: the backend uses a kernel for %d of %d sizes: it runs by %v", c.Op.FullName(), n, len(sizes), used.ways)
	}
}

// graph makes a graph of the operator, with its constants of floats as parameters if asked for.
func (c Case) graph(parameters bool) (*ir.Graph, error) {
	b := ir.NewBuilder("kernel", ops.Default, ops.Opsets())
	b.Import(c.Op.Domain, c.Op.Since)
	meta := b.Graph().Meta
	in := make([]*ir.Value, len(c.In))
	for i, x := range c.In {
		name := fmt.Sprintf("x%d", i)
		switch x := x.(type) {
		case nil:
		case *tensor.Tensor:
			if parameters && x.DType().IsFloat() {
				in[i] = b.Parameter(name, x)
			} else {
				in[i] = b.Const(name, x)
			}
		case ir.Type:
			in[i] = b.Input(name, x)
			for _, d := range in[i].Shape() {
				if slices.Equal(d.Symbols(), []string{"L"}) {
					meta[ir.MetaTime] = "L"
				} else if slices.Equal(d.Symbols(), []string{"B"}) {
					meta[ir.MetaBatch] = "B"
				}
			}
		default:
			return nil, fmt.Errorf("input %d: expected an ir.Type, a *tensor.Tensor or nil, found %T", i, x)
		}
	}
	for i, y := range b.Ops(c.Op.Domain, c.Op.Name, c.Outputs, in, c.Attrs...) {
		if y != nil {
			b.Output(fmt.Sprintf("y%d", i), y)
		}
	}
	return b.Build()
}

// model compiles a graph for the CPU.
func (c Case) model(t testing.TB, g *ir.Graph, threads int) (*runtime.Model, *recorder) {
	t.Helper()
	used := &recorder{Backend: cpu.New(), name: c.Op.FullName(), ways: map[string]int{}}
	m, err := runtime.New(g, runtime.Options{Backend: used, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, used
}

// recorder counts how a backend runs an operator.
type recorder struct {
	runtime.Backend
	name string
	ways map[string]int
}

// Compile is the backend's.
func (r *recorder) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	p, err := r.Backend.Compile(g, c)
	if err != nil {
		return nil, err
	}
	return &recorded{p, r}, nil
}

type recorded struct {
	runtime.Program
	r *recorder
}

// Bind is the program's.
func (p *recorded) Bind(b runtime.Binding) (runtime.Executable, error) {
	e, err := p.Program.Bind(b)
	if err != nil {
		return nil, err
	}
	for _, i := range cpu.Implementations(p.Program, e) {
		if i.Op == p.r.name {
			p.r.ways[i.Way]++
		} else {
			p.r.ways[i.Op+" "+i.Way]++
		}
	}
	return e, nil
}

// data makes inputs of a graph.
func (c Case) data(t testing.TB, g *ir.Graph, size map[string]int, seed uint64) map[string]tensor.Datum {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	in := map[string]tensor.Datum{}
	for i := range c.In {
		v := g.Input(fmt.Sprintf("x%d", i))
		if v == nil {
			continue
		}
		shape := []int{}
		for _, d := range v.Shape() {
			n, known := d.Known()
			if !known {
				n = 3
				if s, ok := size[d.String()]; ok {
					n = int64(s)
				}
			}
			shape = append(shape, int(n))
		}
		x := tensor.New(v.Type.(*ir.TensorType).Elem, shape...)
		switch {
		case c.Fill != nil:
			c.Fill(i, x, r)
		case x.DType() == tensor.Float32:
			for k, v := 0, tensor.Data[float32](x); k < len(v); k++ {
				v[k] = float32(r.NormFloat64())
			}
		case x.DType() == tensor.Float64:
			for k, v := 0, tensor.Data[float64](x); k < len(v); k++ {
				v[k] = r.NormFloat64()
			}
		default:
			t.Fatalf("input %d is %v: expected Case.Fill for types besides float32 and float64", i, x.DType())
		}
		in[v.Name] = x
	}
	return in
}

func run(t testing.TB, m *runtime.Model, in map[string]tensor.Datum, what string) map[string]tensor.Datum {
	t.Helper()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return out
}

// defined computes a graph as its operators define it, in float64 where it has float32.
func (c Case) defined(t testing.TB, g *ir.Graph, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return run(t, m, in, c.Op.FullName()+" as it is defined")
}

// parameters replaces the content of constants of floats.
func (c Case) parameters(t testing.TB) {
	t.Helper()
	g, err := c.graph(true)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Parameters) == 0 {
		return
	}
	m, _ := c.model(t, g, 2)
	in := c.data(t, g, sizes[2], 7)
	s := m.NewSession()
	if _, err := s.Run(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	for _, factor := range []float64{1.25, 0.75, 1.5, 0.5, 1.1} { // so many that contents come into memory that had others
		content, other := c.scaled(t, g, factor)
		if err := m.Set().Replace(context.Background(), content); err != nil {
			t.Fatal(err)
		}
		got, err := s.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := other.graph(false)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.Op.FullName()+" after the replacement of parameters", c.Op.Tol, got, c.defined(t, plain, in))
	}
}

// scaled returns contents for the parameters of g, their own times a factor, and the case with them as constants.
func (c Case) scaled(t testing.TB, g *ir.Graph, factor float64) (content map[string]tensor.Datum, other Case) {
	t.Helper()
	content, other = map[string]tensor.Datum{}, c
	other.In = slices.Clone(c.In)
	for i := range c.In {
		p := g.Parameter(fmt.Sprintf("x%d", i))
		if p == nil {
			continue
		}
		x, err := p.Init.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		x = slices.Clone(x)
		for k := range x {
			x[k] *= factor
		}
		y, err := tensor.FromSlice(x, p.Init.Shape()...).Convert(p.Init.DType(), false)
		if err != nil {
			t.Fatal(err)
		}
		content[p.Name], other.In[i] = y, y
	}
	return content, other
}

// stream gives a stream the sequence in chunks, and compares the answers with those for the whole.
func stream(t testing.TB, what string, m *runtime.Model, size map[string]int, in, want map[string]tensor.Datum) {
	t.Helper()
	s, err := m.NewStream(size["B"])
	if err != nil {
		return // it does not look back only
	}
	defer s.Close()
	if timing := s.Timing(); timing.Latency != 0 || timing.Multiple != 1 {
		return
	}
	length := size["L"]
	for at, k := 0, 0; at < length; k++ {
		n := min(chunks[k%len(chunks)], length-at)
		part := map[string]tensor.Datum{}
		for name, x := range in {
			part[name] = x
			if axis := timeAxis(m.Inputs(), name); axis >= 0 {
				part[name] = cut(x.(*tensor.Tensor), axis, at, n)
			}
		}
		got := map[string]tensor.Datum{}
		if err := s.Step(context.Background(), part, got); err != nil {
			t.Fatalf("%s: chunk of %d steps from %d on: %v", what, n, at, err)
		}
		for name, y := range want {
			axis := timeAxis(m.Outputs(), name)
			if axis < 0 {
				continue
			}
			same(t, fmt.Sprintf("%s: chunk of %d steps from %d on", what, n, at),
				map[string]tensor.Datum{name: cut(y.(*tensor.Tensor), axis, at, n)}, map[string]tensor.Datum{name: got[name]})
		}
		at += n
	}
}

// timeAxis returns the axis L of an input or output, or -1.
func timeAxis(ports []runtime.Port, name string) int {
	for _, p := range ports {
		if t, ok := p.Type.(*ir.TensorType); ok && p.Name == name {
			return slices.IndexFunc(t.Shape, func(d ir.Dim) bool { return slices.Contains(d.Symbols(), "L") })
		}
	}
	return -1
}

// cut returns n steps of a tensor along an axis.
func cut(x *tensor.Tensor, axis, from, n int) *tensor.Tensor {
	shape := slices.Clone(x.Shape())
	steps := shape[axis]
	shape[axis] = n
	y := tensor.New(x.DType(), shape...)
	if x.Len() == 0 || y.Len() == 0 {
		return y
	}
	outer := 1
	for _, d := range shape[:axis] {
		outer *= d
	}
	row := len(x.Bytes()) / (outer * steps)
	for i := range outer {
		copy(y.Bytes()[i*n*row:(i+1)*n*row], x.Bytes()[(i*steps+from)*row:])
	}
	return y
}

// same compares answers bit by bit.
func same(t testing.TB, what string, want, got map[string]tensor.Datum) {
	t.Helper()
	for name, w := range want {
		x, y := w.(*tensor.Tensor), got[name].(*tensor.Tensor)
		if !slices.Equal(x.Shape(), y.Shape()) || !slices.Equal(x.Bytes(), y.Bytes()) {
			t.Errorf("%s: output %s differs: expected %v, found %v", what, name, x, y)
		}
	}
}

// units are the rounding units of types; others are compared exactly.
var units = map[tensor.DType]float64{tensor.Float64: 0x1p-53, tensor.Float32: 0x1p-24, tensor.Float16: 0x1p-11,
	tensor.BFloat16: 0x1p-8}

// near compares answers with those of the definition.
func near(t testing.TB, what string, tol ir.Tolerance, got, want map[string]tensor.Datum) {
	t.Helper()
	for name, w := range want {
		x, errX := w.(*tensor.Tensor).Float64s()
		y, errY := got[name].(*tensor.Tensor).Float64s()
		if errX != nil || errY != nil || len(x) != len(y) {
			t.Errorf("%s: output %s: expected %v, found %v", what, name, w, got[name])
			continue
		}
		scale := 1e-30
		for _, v := range x {
			if a := math.Abs(v); a > scale && !math.IsInf(a, 0) {
				scale = a
			}
		}
		bound := max(tol.Ulps, 1) * units[got[name].(*tensor.Tensor).DType()] * scale // 1: the definition is in float64
		for i := range x {
			if x[i] != y[i] && !(math.Abs(x[i]-y[i]) <= bound) && !(math.IsNaN(x[i]) && math.IsNaN(y[i])) {
				t.Errorf("%s: output %s, element %d: expected %g within %g, found %g", what, name, i, x[i], bound, y[i])
				break
			}
		}
	}
}
