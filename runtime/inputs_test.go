package runtime_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// ports makes a model that does nothing but take inputs of the given types, named a, b, c, …
func ports(t testing.TB, o runtime.Options, types ...ir.Type) *runtime.Model {
	t.Helper()
	b := ir.NewBuilder("ports", makeOps(), opset)
	for i, typ := range types {
		b.Input(string(rune('a'+i)), typ)
	}
	g := b.Graph()
	g.Meta[ir.MetaTime], g.Meta[ir.MetaBatch] = "L", "B"
	g.Outputs = g.Inputs[:1]
	return model(t, g, o)
}

func ints[T tensor.Elem](v ...T) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func TestInputChecks(t *testing.T) {
	f, i := tensor.Float32, tensor.Int64
	one := func(x any) []ir.Type { return []ir.Type{ir.Tensor(f, x, 2)} }
	opt := &ir.OptionalType{Elem: ir.Tensor(i, "B")}
	for _, c := range []struct {
		name  string
		types []ir.Type
		in    data
		want  string // empty: accepted
	}{
		{"missing", one("L"), data{}, `input "a": is missing; expected float[L,2]`},
		{"nil", one("L"), data{"a": nil}, `input "a": is missing; expected float[L,2]`},
		{"nil tensor", one("L"), data{"a": (*tensor.Tensor)(nil)}, `input "a": is missing; expected float[L,2]`},
		{"unknown", one("L"), data{"a": floats(1, 2), "A": floats(1)},
			`input "A": the model has no such input; it has a; did you mean "a"?`},
		{"unknown, far", one("L"), data{"a": floats(1, 2), "temperature": floats(1)},
			`input "temperature": the model has no such input; it has a`},
		{"rank", one("L"), data{"a": floats(2)}, `input "a": expected 2 dimensions [L,2], found 1: float32[2]`},
		{"known", one("L"), data{"a": floats(2, 3)}, `input "a": dimension 1: expected 2, found 3: float32[2,3]`},
		{"dtype", one("L"), data{"a": tensor.New(i, 1, 2)}, `input "a": expected element type float32, found int64; convert it: Tensor.Convert(tensor.Float32, false)`},
		{"double", one("L"), data{"a": tensor.New(tensor.Float64, 1, 2)},
			`input "a": expected element type float32, found float64; convert it: Tensor.Convert(tensor.Float32, false)`},
		{"half", one("L"), data{"a": tensor.New(tensor.Float16, 1, 2)}, ""},
		{"kind", one("L"), data{"a": &tensor.Sequence{}}, `input "a": expected a tensor, found a sequence`},
		{"no steps", one("L"), data{"a": floats(0, 2)},
			`input "a": dimension 0: is 0 for dimension L: a sequence has at least one step`},
		{"no samples", one("B"), data{"a": floats(0, 2)}, ""},
		{"other zero", one("N"), data{"a": floats(0, 2)}, ""},
		{"even", one("2*P"), data{"a": floats(6, 2)}, ""},
		{"odd", one("2*P"), data{"a": floats(7, 2)}, `input "a": dimension 0: must be even: 2*P, found 7`},
		{"thirds", one("3*P"), data{"a": floats(7, 2)}, `input "a": dimension 0: must be a multiple of 3: 3*P, found 7`},
		{"at least", one("P+3"), data{"a": floats(2, 2)}, `input "a": dimension 0: must be at least 3: P+3, found 2`},
		{"affine", one("2*P+1"), data{"a": floats(4, 2)},
			`input "a": dimension 0: must be 2*P+1 for a whole number P, found 4`},
		{"any", one("?"), data{"a": floats(0, 2)}, ""},
		{"no rank", []ir.Type{&ir.TensorType{Elem: f, NoRank: true}}, data{"a": floats(0, 2, 5)}, ""},
		{"consistent", []ir.Type{ir.Tensor(f, "B", "L"), ir.Tensor(i, "B")},
			data{"a": floats(2, 3), "b": ints[int64](1, 2)}, ""},
		{"inconsistent", []ir.Type{ir.Tensor(f, "B", "L"), ir.Tensor(i, "B")},
			data{"a": floats(2, 3), "b": ints[int64](1, 2, 3)},
			`input "b": dimension 0: expected B = 2, found 3; B is 2 by dimension 0 of input "a"`},
		{"derived first", []ir.Type{ir.Tensor(f, "2*P"), ir.Tensor(i, "P")}, data{"a": floats(6), "b": ints[int64](1, 2)},
			`input "a": dimension 0: expected 2*P = 4, found 6; P is 2 by dimension 0 of input "b"`},
		{"two steps", []ir.Type{ir.Tensor(f, "P+Q"), ir.Tensor(f, "2*P")}, data{"a": floats(5), "b": floats(4)}, ""},
		{"two steps, negative", []ir.Type{ir.Tensor(f, "P+Q"), ir.Tensor(f, "2*P")}, data{"a": floats(1), "b": floats(4)},
			`input "a": dimension 0: must be at least 2: P+Q, found 1`},
		{"undetermined", one("floordiv(L,2)"), data{"a": floats(5, 2)}, ""},
		{"function", []ir.Type{ir.Tensor(f, "floordiv(N,2)"), ir.Tensor(f, "N")}, data{"a": floats(3), "b": floats(5)},
			`input "a": dimension 0: expected floordiv(N,2) = 2, found 3; N is 5 by dimension 0 of input "b"`},
		{"optional absent", []ir.Type{ir.Tensor(f, "B"), opt}, data{"a": floats(2)}, ""},
		{"optional nil", []ir.Type{ir.Tensor(f, "B"), opt}, data{"a": floats(2), "b": nil}, ""},
		{"optional empty", []ir.Type{ir.Tensor(f, "B"), opt}, data{"a": floats(2), "b": &tensor.Optional{}}, ""},
		{"optional given", []ir.Type{ir.Tensor(f, "B"), opt}, data{"a": floats(2), "b": ints[int64](1, 2)}, ""},
		{"optional wrapped", []ir.Type{ir.Tensor(f, "B"), opt},
			data{"a": floats(2), "b": &tensor.Optional{Value: ints[int64](1, 2)}}, ""},
		{"optional wrong", []ir.Type{ir.Tensor(f, "B"), opt}, data{"a": floats(2), "b": ints[int64](1)},
			`input "b": dimension 0: expected B = 2, found 1; B is 2 by dimension 0 of input "a"`},
		{"int32 tokens", []ir.Type{ir.Tensor(i, "L")}, data{"a": ints[int32](1, -2)}, ""},
		{"uint64 fits", []ir.Type{ir.Tensor(i, "L")}, data{"a": ints[uint64](1, math.MaxInt64)}, ""},
		{"uint64 does not", []ir.Type{ir.Tensor(i, "L")}, data{"a": ints[uint64](1, math.MaxUint64)},
			`input "a": expected element type int64, found uint64 with 18446744073709551615 at element 1`},
		{"int64 fits int32", []ir.Type{ir.Tensor(tensor.Int32, "L")},
			data{"a": ints[int64](math.MinInt32, math.MaxInt32)}, ""},
		{"int64 beyond int32", []ir.Type{ir.Tensor(tensor.Int32, "L")}, data{"a": ints[int64](1 << 31)},
			`input "a": expected element type int32, found int64 with 2147483648 at element 0, beyond its range`},
		{"negative to uint8", []ir.Type{ir.Tensor(tensor.Uint8, "L")}, data{"a": ints[int8](-1)},
			`input "a": expected element type uint8, found int8 with -1 at element 0, beyond its range`},
		{"bool is no int", []ir.Type{ir.Tensor(i, "L")}, data{"a": tensor.New(tensor.Bool, 2)},
			`input "a": expected element type int64, found bool; convert it: Tensor.Convert(tensor.Int64, false)`},
		{"sequence", []ir.Type{&ir.SequenceType{Elem: ir.Tensor(f, "N", 2)}},
			data{"a": &tensor.Sequence{Items: []tensor.Datum{floats(1, 2), floats(3, 2)}}}, ""},
		{"sequence item", []ir.Type{&ir.SequenceType{Elem: ir.Tensor(f, "N", 2)}},
			data{"a": &tensor.Sequence{Items: []tensor.Datum{floats(1, 2), floats(3, 3)}}},
			`input "a": item 1: dimension 1: expected 2, found 3: float32[3,3]`},
		{"sequence hole", []ir.Type{&ir.SequenceType{Elem: ir.Tensor(f, "N", 2)}},
			data{"a": &tensor.Sequence{Items: []tensor.Datum{nil}}}, `input "a": item 0 is missing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ports(t, runtime.Options{}, c.types...).NewSession()
			_, err := s.Run(context.Background(), c.in)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || err.Error() != c.want):
				t.Errorf("expected %s\n   found %v", c.want, err)
			case c.want != "" && !errors.Is(err, runtime.ErrInput):
				t.Errorf("%v is no ErrInput", err)
			}
		})
	}
}

// Numbers survive the conversion of element types.
func TestInputConversion(t *testing.T) {
	s := ports(t, runtime.Options{}, ir.Tensor(tensor.Int64, "L")).NewSession()
	out, err := s.Run(context.Background(), data{"a": ints[int32](-7, math.MaxInt32)})
	if err != nil {
		t.Fatal(err)
	}
	if got := out["a"].(*tensor.Tensor); !tensor.Equal(got, ints[int64](-7, math.MaxInt32)) {
		t.Errorf("found %v", tensor.Data[int64](got))
	}
	wide := ports(t, runtime.Options{Precision: tensor.Float64}, ir.Tensor(tensor.Float32, "L")).NewSession()
	for _, x := range []*tensor.Tensor{ints(0.1, 0.2), ints[float32](0.5, 0.25)} {
		out, err := wide.Run(context.Background(), data{"a": x})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := x.Convert(tensor.Float64, false)
		if got := out["a"].(*tensor.Tensor); !tensor.Equal(got, want) {
			t.Errorf("expected %s, found %s", want, got)
		}
	}
}

// A session keeps what it planned for a few shapes, and drops the oldest.
func TestBindOnce(t *testing.T) {
	c := &counting{Backend: backend()}
	s := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double"), runtime.Options{Backend: c}).NewSession()
	run := func(shape ...int) {
		t.Helper()
		if _, err := s.Run(context.Background(), data{"x": floats(shape...)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		run(1, 10)
		run(1, 11)
	}
	if c.bound != 2 {
		t.Errorf("bound %d times, expected 2", c.bound)
	}
	for n := range 8 {
		run(1, n+1)
		run(1, 10) // used all the time, never dropped
	}
	if c.bound != 10 || c.closed != 6 {
		t.Errorf("bound %d and closed %d executables, expected 10 and 6", c.bound, c.closed)
	}
	if err := s.Close(); err != nil || c.closed != 10 {
		t.Errorf("closed %d executables: %v", c.closed, err)
	}
	run(1, 10)
}

// counting counts how often shapes are bound and released, and pretends that an executable holds 100 bytes.
type counting struct {
	runtime.Backend
	bound, closed int
}

type countingProgram struct {
	runtime.Program
	c *counting
}

type countingExecutable struct {
	runtime.Executable
	c *counting
}

func (c *counting) Compile(g *ir.Graph, cfg runtime.Config) (runtime.Program, error) {
	p, err := c.Backend.Compile(g, cfg)
	return countingProgram{p, c}, err
}

func (p countingProgram) Bind(b runtime.Binding) (runtime.Executable, error) {
	p.c.bound++
	e, err := p.Program.Bind(b)
	return countingExecutable{e, p.c}, err
}

func (e countingExecutable) Run(_ context.Context, in, out []tensor.Datum) error { return nil }
func (e countingExecutable) ArenaBytes() int64                                   { return 100 }
func (e countingExecutable) Close() error                                        { e.c.closed++; return nil }

func TestMemoryLimit(t *testing.T) {
	g := chain(t, ir.Tensor(tensor.Float32, "L"), "Double", "Double")
	s := model(t, g, runtime.Options{Backend: &counting{Backend: backend()}, MaxMemory: 99}).NewSession()
	_, err := s.Run(context.Background(), data{"x": floats(3)})
	var me *runtime.MemoryError
	if !errors.As(err, &me) || me.Need != 100 || me.Limit != 99 {
		t.Errorf("found %v", err)
	}
	s = model(t, g, runtime.Options{MaxMemory: 24}).NewSession()
	if _, err := s.Run(context.Background(), data{"x": floats(3)}); err != nil {
		t.Errorf("input and one result are 24 bytes: %v", err)
	}
	if _, err := s.Run(context.Background(), data{"x": floats(4)}); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("found %v", err)
	}
}

// Running with shapes that are known, into memory that is given, allocates nothing in this package.
func TestNoAllocation(t *testing.T) {
	s := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double"),
		runtime.Options{Backend: &counting{Backend: backend()}}).NewSession()
	in, out := data{"x": floats(1, 1)}, data{"y": floats(1, 1).Clone()}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if err := s.RunInto(ctx, in, out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func TestExplain(t *testing.T) {
	m := ports(t, runtime.Options{}, ir.Tensor(tensor.Float32, "2*P", "L"))
	if _, err := m.Explain(map[string]int64{"P": 2, "L": 5}); err != nil {
		t.Error(err)
	}
	if _, err := m.Explain(map[string]int64{"P": 2}); err == nil ||
		err.Error() != `input "a": dimension 1: dimension L is not bound; give a value for it` {
		t.Errorf("found %v", err)
	}
	if _, err := m.Explain(map[string]int64{"P": -2, "L": 5}); err == nil ||
		err.Error() != `input "a": dimension 0: 2*P is -4` {
		t.Errorf("found %v", err)
	}
}
