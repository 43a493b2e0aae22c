package ops_test

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std"
)

func TestBroadcast(t *testing.T) {
	tests := []struct {
		in   [][]int
		want []int // nil: an error
	}{
		{[][]int{{2, 3}, {3}}, []int{2, 3}}, {[][]int{{5, 1}, {2, 1, 3}}, []int{2, 5, 3}}, {[][]int{{}, {}}, []int{}},
		{[][]int{{0}, {1}}, []int{0}}, {[][]int{{0}, {2}}, nil}, {[][]int{{2}, {3}}, nil},
		{[][]int{{1 << 20, 1}, {1 << 20}}, nil},
	}
	for _, tt := range tests {
		got, err := ops.Broadcast(tt.in...)
		if (err != nil) != (tt.want == nil) || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%v: found %v, %v; expected %v", tt.in, got, err, tt.want)
		}
	}
}

func TestBroadcastShape(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"float[B,L,8]", "float[8]", "[B,L,8]"}, {"float[B,1]", "float[1,L]", "[B,L]"}, {"float[L]", "float[4]", "[4]"},
		{"float[L]", "float[M]", "[?]"}, {"float[L+1]", "float[L+1]", "[L+1]"}, {"float[2]", "float[3]", ""},
		{"float[?]", "float[1]", "[?]"}, {"float[0]", "float[1]", "[0]"},
	}
	shape := func(s string) ir.Shape {
		var out ir.Shape
		for _, d := range splitDims(s) {
			e, err := ir.ParseDim(d)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		return out
	}
	for _, tt := range tests {
		got, err := ops.BroadcastShape(shape(tt.a), shape(tt.b))
		if (err != nil) != (tt.want == "") || err == nil && got.String() != tt.want {
			t.Errorf("%s with %s: found %v, %v; expected %s", tt.a, tt.b, got, err, tt.want)
		}
	}
}

// splitDims takes "float[a,b]" apart; expressions hold no commas here.
func splitDims(s string) []string {
	from, to := slices.Index([]byte(s), '['), len(s)-1
	var out []string
	for start, i := from+1, from+1; i <= to; i++ {
		if i == to || s[i] == ',' {
			out, start = append(out, s[start:i]), i+1
		}
	}
	return out
}

func TestSliceRange(t *testing.T) {
	const most, least = 1<<63 - 1, -1 << 63
	for dim := int64(0); dim < 5; dim++ {
		for _, start := range []int64{least, -6, -2, -1, 0, 1, 3, 9, most} {
			for _, end := range []int64{least, -6, -2, -1, 0, 1, 3, 9, most} {
				for _, step := range []int64{least, -3, -1, 1, 2, most} {
					first, n := ops.SliceRange(start, end, step, dim)
					if n < 0 || n > dim {
						t.Fatalf("[%d:%d:%d] of %d: %d elements", start, end, step, dim, n)
					}
					if n > 0 && (first < 0 || first >= dim) || n > 1 && (first+(n-1)*step < 0 || first+(n-1)*step >= dim) {
						t.Fatalf("[%d:%d:%d] of %d: %d elements from %d", start, end, step, dim, n, first)
					}
				}
			}
		}
	}
}

// TestDimsOf follows a shape as exporters compute it: the last axis of x (B,L,8) cut in two halves.
func TestDimsOf(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 8))
	shape := b.Op("", "Shape", []*ir.Value{x})
	at := func(i int64) *ir.Value { return b.Op("", "Gather", []*ir.Value{shape, b.Ints(i)}) }
	half := b.Op("", "Div", []*ir.Value{at(2), b.Ints(2)})
	to := b.Op("", "Concat", []*ir.Value{at(0), at(1), b.Ints(2), half}, ir.A("axis", 0))
	y := b.Op("", "Reshape", []*ir.Value{x, to})
	merged := b.Op("", "Reshape", []*ir.Value{y, b.Op("", "Concat", []*ir.Value{at(0), b.Ints(-1)}, ir.A("axis", 0))})
	lead := b.Op("", "Slice", []*ir.Value{shape, b.Ints(0), b.Ints(2)})
	zeros := b.Op("", "ConstantOfShape", []*ir.Value{lead})
	short := b.Op("", "Slice", []*ir.Value{x, b.Ints(0), b.Ints(-1), b.Ints(1)})
	again := b.Op("", "Concat",
		[]*ir.Value{short, b.Op("", "Slice", []*ir.Value{x, b.Ints(-1), b.Ints(1 << 62), b.Ints(1)})}, ir.A("axis", 1))
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		v    *ir.Value
		want string
	}{{y, "[B,L,2,4]"}, {merged, "[B,8*L]"}, {zeros, "[B,L]"}, {short, "[B,L-1,8]"}, {again, "[B,L,8]"}} {
		if got := tt.v.Shape().String(); got != tt.want {
			t.Errorf("%v: found %s, expected %s", tt.v.Def, got, tt.want)
		}
	}
	// A value that doubles itself many times over is followed in linear time.
	v := at(1)
	for range 60 {
		v = b.Op("", "Add", []*ir.Value{v, v})
	}
	if d, ok := ops.DimsOf(v); !ok || len(d) != 1 {
		t.Errorf("found %v, %v", d, ok)
	}
}

func TestJoin(t *testing.T) {
	step := func(axis int) ir.Fact { return ir.Fact{Symbol: "L", Axis: axis, Stride: 1} }
	back := func(k int64) ir.Fact { f := step(1); f.Back = k; return f }
	n := &ir.Node{Op: ops.Default.Resolve("", "Add", 24)}
	tests := []struct {
		name  string
		in    []ir.Fact
		ranks []int
		want  string
	}{
		{"constants do not count", []ir.Fact{step(1), {}}, []int{3, 1}, "each step by itself, axis 1"},
		{"ranks align at the end", []ir.Fact{step(1), step(0)}, []int{3, 2}, "each step by itself, axis 1"},
		{"other axes", []ir.Fact{step(1), step(1)}, []int{3, 2}, "global"},
		{"windows join", []ir.Fact{back(3), back(5)}, []int{3, 3}, "back 5, axis 1"},
		{"nothing varies", []ir.Fact{{}, {}}, []int{3, 3}, "constant"},
	}
	for _, tt := range tests {
		if got := ops.Join(n, tt.in, tt.ranks, 3).String(); got != tt.want {
			t.Errorf("%s: found %q, expected %q", tt.name, got, tt.want)
		}
	}
}

// TestRegistry checks the promises of the registry for every operator.
func TestRegistry(t *testing.T) {
	all := ops.Default.All()
	for _, op := range all {
		if op.Infer == nil || op.Eval == nil && op.Body == nil {
			t.Errorf("%s has no inference, or no meaning", op.FullName())
		}
		if op.Doc == "" {
			t.Errorf("%s has no documentation", op.FullName())
		}
		for _, a := range op.Attrs {
			if a.Default != nil && (ir.Attr{Value: a.Default}).Kind() != a.Kind {
				t.Errorf("%s: attribute %s is of kind %s, its default is %T", op.FullName(), a.Name, a.Kind, a.Default)
			}
		}
		if got := ops.Default.Resolve(op.Domain, op.Name, op.Since); got != op {
			t.Errorf("%s: version %d resolves to another operator", op.FullName(), op.Since)
		}
		if got := ops.Default.Resolve(op.Domain, op.Name, op.Since-1); got == op {
			t.Errorf("%s: version %d resolves to it", op.FullName(), op.Since-1)
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d operators", len(all))
	}
}

func TestSig(t *testing.T) {
	op := &ir.Op{Name: "F", In: ops.Sig("x:T[B,...,N]", "w:T[N,M]", "k:int64[]?"), Out: ops.Sig("y:T[B,...,2*M+1]")}
	value := func(d tensor.DType, dims ...any) *ir.Value { return &ir.Value{Name: "v", Type: ir.Tensor(d, dims...)} }
	f := tensor.Float32
	tests := []struct {
		in   []*ir.Value
		want string // empty: an error
	}{
		{[]*ir.Value{value(f, "B", "L", 3), value(f, 3, 4)}, "float[B,L,9]"},
		{[]*ir.Value{value(f, "B", 3), value(f, 3, "M")}, "float[B,2*M+1]"},
		{[]*ir.Value{value(f, "B", 3), value(f, 4, 4)}, ""},
		{[]*ir.Value{value(f, "B", 3), value(tensor.Float64, 3, 4)}, ""},
		{[]*ir.Value{value(f, 3), value(f, 3, 4)}, ""},
		{[]*ir.Value{value(f, 2, 3), value(f, 3, 4), value(f)}, ""},
	}
	for i, tt := range tests {
		b, err := ops.Bind(&ir.Node{Op: op, Inputs: tt.in})
		var types []ir.Type
		if err == nil {
			types, err = b.Outputs(op)
		}
		if (err != nil) != (tt.want == "") || err == nil && types[0].String() != tt.want {
			t.Errorf("case %d: found %v, %v; expected %s", i, types, err, tt.want)
		}
	}
}
