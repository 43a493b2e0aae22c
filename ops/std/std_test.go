package std

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// eachSample runs a test for every sample of every operator of ai.onnx.
func eachSample(t *testing.T, f func(t *testing.T, op *ir.Op, s sample)) {
	for _, op := range ops.Default.All() {
		if op.Domain != "" {
			continue
		}
		samples := samplesOf(op)
		if len(samples) == 0 {
			t.Errorf("%s has no sample", op.Name)
		}
		for i, s := range samples {
			t.Run(fmt.Sprintf("%s/%d", op.Name, i), func(t *testing.T) { f(t, op, s) })
		}
	}
}

// typeOf is the type of a datum, with its own sizes; dims may rename them.
func typeOf(d tensor.Datum, dim func(axis, size int) ir.Dim) ir.Type {
	switch d := d.(type) {
	case *tensor.Tensor:
		s := ir.Shape{}
		for i, n := range d.Shape() {
			s = append(s, dim(i, n))
		}
		return &ir.TensorType{Elem: d.DType(), Shape: s}
	case *tensor.Sequence:
		e := typeOf(d.Items[0], dim)
		for _, x := range d.Items {
			e, _ = unionType(e, typeOf(x, dim))
		}
		return &ir.SequenceType{Elem: e}
	case *tensor.Optional:
		return &ir.OptionalType{Elem: typeOf(d.Value, dim)}
	}
	return nil
}

func itself(_, size int) ir.Dim { return ir.Const(int64(size)) }

// node applies an operator to a sample, with dimensions as dim names them.
func node(t *testing.T, op *ir.Op, s sample, dim func(input, axis, size int) ir.Dim) *ir.Node {
	t.Helper()
	n := &ir.Node{Op: op, Attrs: ir.NewAttrs(s.attrs...)}
	for i, d := range s.in {
		var v *ir.Value
		switch x, ok := d.(*tensor.Tensor); {
		case d == nil:
		case ok && slices.Contains(s.consts, i):
			v = ir.NewConst(fmt.Sprintf("in%d", i), x)
		default:
			v = &ir.Value{Name: fmt.Sprintf("in%d", i), Type: typeOf(d, func(axis, size int) ir.Dim { return dim(i, axis, size) })}
		}
		n.Inputs = append(n.Inputs, v)
	}
	for i := range s.outs {
		n.Outputs = append(n.Outputs, &ir.Value{Name: fmt.Sprintf("out%d", i), Def: n})
	}
	if err := ir.InferNode(n); err != nil {
		t.Fatal(err)
	}
	return n
}

func plainNode(t *testing.T, op *ir.Op, s sample) *ir.Node {
	return node(t, op, s, func(_, a, n int) ir.Dim { return itself(a, n) })
}

func eval(n *ir.Node, in []tensor.Datum, wide bool) ([]tensor.Datum, error) {
	c := &ir.EvalCtx{Node: n, Wide: wide}
	c.Call = func(g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
		return interpret(&ir.EvalCtx{Wide: wide}, g, in)
	}
	return evalNode(c, in)
}

// widened carries float32 as float64.
func widened(in []tensor.Datum) []tensor.Datum {
	out := make([]tensor.Datum, len(in))
	for i, d := range in {
		out[i] = d
		switch x := d.(type) {
		case *tensor.Tensor:
			if x.DType() == tensor.Float32 {
				out[i], _ = x.Convert(tensor.Float64, false)
			}
		case *tensor.Sequence:
			out[i] = &tensor.Sequence{Items: widened(x.Items)}
		case *tensor.Optional:
			out[i] = &tensor.Optional{Value: widened([]tensor.Datum{x.Value})[0]}
		}
	}
	return out
}

// TestInfer holds inferred types against results: for known sizes, for sizes that have names, and for sizes unknown.
func TestInfer(t *testing.T) {
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		n := plainNode(t, op, s)
		got, err := eval(n, s.in, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < s.outs {
			t.Fatalf("%d outputs, expected %d", len(got), s.outs)
		}
		for i, v := range n.Outputs {
			if err := fits(got[i], v.Type); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
		// Equal sizes get equal names; 0 and 1 keep theirs, since they are no one's size in general.
		bind := map[string]int64{}
		named := node(t, op, s, func(_, _, size int) ir.Dim {
			if size < 2 {
				return ir.Const(int64(size))
			}
			name := fmt.Sprintf("n%d", size)
			bind[name] = int64(size)
			return ir.Sym(name)
		})
		for i, v := range named.Outputs {
			x, ok := got[i].(*tensor.Tensor)
			if !ok {
				continue
			}
			typ, _ := v.TensorType()
			if typ.Elem != x.DType() || !typ.NoRank && len(typ.Shape) != x.Rank() {
				t.Errorf("output %d: inferred %v, found %v", i, typ, x)
				continue
			}
			for j, d := range typ.Shape {
				if k, err := d.Eval(bind); err == nil && k != int64(x.Dim(j)) {
					t.Errorf("output %d: inferred %v, found %v with %v", i, typ, x, bind)
				}
			}
		}
		unknown := node(t, op, s, func(int, int, int) ir.Dim { return ir.Unknown })
		for i, v := range unknown.Outputs {
			if err := fits(got[i], v.Type); err != nil {
				t.Errorf("output %d, from unknown sizes: %v", i, err)
			}
		}
	})
}

// TestBody holds evaluations against bodies, in float64.
func TestBody(t *testing.T) {
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		if op.Body == nil || op.Eval == nil {
			t.Skip("has only one of Eval and Body")
		}
		n, in := plainNode(t, op, s), widened(s.in)
		want, err := eval(n, in, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := evalBody(&ir.EvalCtx{Node: n, Wide: true}, in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			// Constants in a body are float32, so it may be off by their rounding.
			if err := near(got[i], want[i], 2e-6, 1e-6); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
}

// TestWide holds evaluations in float64 against those in float32: same shapes, element types widened, numbers near.
func TestWide(t *testing.T) {
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		n := plainNode(t, op, s)
		narrow, err := eval(n, s.in, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eval(n, widened(s.in), true)
		if err != nil {
			t.Fatal(err)
		}
		want := widened(narrow)
		for i := range n.Outputs {
			if err := near(got[i], want[i], 1e-4, 1e-5); err != nil && op.Name != "Cast" {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
}

// TestBadInputs evaluates samples with wrong shapes and numbers: an error is right, a result may be, a panic is not.
func TestBadInputs(t *testing.T) {
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		n := plainNode(t, op, s)
		for i, d := range s.in {
			x, ok := d.(*tensor.Tensor)
			if !ok || x.DType() == tensor.String {
				continue
			}
			var bad []tensor.Datum
			for _, shape := range [][]int{{}, {0}, {1}, {2, 0}, {3, 1, 1}, {1, 1, 1, 1, 1}} {
				bad = append(bad, whole(x.DType(), 0, 2, shape...))
			}
			if x.DType().IsInt() || x.DType().IsFloat() {
				for _, k := range []float64{-1 << 62, -99, -1, 0, 99, 1 << 40, 1<<63 - 1024} {
					v := make([]float64, x.Len())
					for j := range v {
						v[j] = k
					}
					y, err := tensor.FromFloat64s(x.DType(), v, x.Shape()...)
					if err != nil {
						t.Fatal(err)
					}
					bad = append(bad, y)
				}
			}
			for _, y := range bad {
				in := slices.Clone(s.in)
				in[i] = y
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("input %d is %v: panic: %v", i, y, r)
						}
					}()
					_, _ = eval(n, in, false)
				}()
			}
		}
	})
}

// TestAlong holds facts against what evaluations do: one step of one input is changed, and only those steps of the outputs
// may change whose window it lies in.
func TestAlong(t *testing.T) {
	checked := 0
	eachSample(t, func(t *testing.T, op *ir.Op, s sample) {
		if op.Along == nil {
			return
		}
		for i, d := range s.in {
			x, ok := d.(*tensor.Tensor)
			if !ok || x.DType() != tensor.Float32 || slices.Contains(s.consts, i) || x.Len() == 0 {
				continue
			}
			for axis := range x.Rank() {
				if x.Dim(axis) < 2 {
					continue
				}
				n := node(t, op, s, func(input, a, size int) ir.Dim {
					if input == i && a == axis {
						return ir.Sym("L")
					}
					return ir.Const(int64(size))
				})
				facts := make([]ir.Fact, len(n.Inputs))
				facts[i] = ir.Fact{Symbol: "L", Axis: axis, Stride: 1}
				out := op.Along(n, facts)
				if len(out) != len(n.Outputs) {
					t.Fatalf("%d facts for %d outputs", len(out), len(n.Outputs))
				}
				before, err := eval(n, s.in, false)
				if err != nil {
					t.Fatal(err)
				}
				for step := range x.Dim(axis) {
					in := slices.Clone(s.in)
					in[i] = disturb(x, axis, step)
					after, err := eval(n, in, false)
					if err != nil {
						t.Fatal(err)
					}
					for k, f := range out {
						if a, b := ops.Tensor(before, k), ops.Tensor(after, k); a != nil && !f.Global {
							checked++
							if err := within(f, a, b, step); err != nil {
								t.Errorf("input %d axis %d, output %d (%v): step %d: %v", i, axis, k, f, step, err)
							}
						}
					}
				}
			}
		}
	})
	if checked < 1000 {
		t.Errorf("only %d outputs were checked", checked)
	}
}

// disturb changes all elements of one step.
func disturb(x *tensor.Tensor, axis, step int) *tensor.Tensor {
	y := x.Clone()
	v := tensor.Data[float32](y)
	outer, n, inner := splitAt(x.Shape(), axis)
	for o := range outer {
		for i := range inner {
			v[(o*n+step)*inner+i] += 0.5 + 0.25*float32(i%3)
		}
	}
	return y
}

// within checks where a and b differ after a change at a step of the input.
func within(f ir.Fact, a, b *tensor.Tensor, step int) error {
	if !slices.Equal(a.Shape(), b.Shape()) {
		return fmt.Errorf("shapes %v and %v", a.Shape(), b.Shape())
	}
	if f.Constant() {
		if !tensor.Equal(a, b) {
			return fmt.Errorf("a constant changed")
		}
		return nil
	}
	if f.Axis < 0 {
		return nil
	}
	if f.Axis >= a.Rank() {
		return fmt.Errorf("axis %d of %v", f.Axis, a)
	}
	outer, n, inner := splitAt(a.Shape(), f.Axis)
	w := a.DType().Bits() / 8
	for o := range outer {
		for t := range n {
			from, to := (o*n+t)*inner*w, (o*n+t+1)*inner*w
			if string(a.Bytes()[from:to]) == string(b.Bytes()[from:to]) {
				continue
			}
			at := int64(t) * f.Stride
			if int64(step) < at-f.Back || int64(step) > at+f.Ahead {
				return fmt.Errorf("output step %d changed", t)
			}
		}
	}
	return nil
}

// TestAlongOf spells out facts that others lean on.
func TestAlongOf(t *testing.T) {
	tests := []struct {
		name  string
		op    *ir.Op
		s     sample
		input int
		axis  int
		want  string
	}{
		{"a linear layer keeps time", MatMul, of(normal(2, 5, 3), normal(3, 4)), 0, 1, "each step by itself, axis 1"},
		{"columns of a product", MatMul, of(normal(4, 3), normal(2, 3, 5)), 1, 2, "each step by itself, axis 2"},
		{"a sum over time", MatMul, of(normal(2, 4, 5), normal(5, 3)), 0, 2, "global"},
		{"transpose moves time", Transpose, of(normal(2, 5, 3)).with(ir.A("perm", []int64{0, 2, 1})), 0, 1, "each step by itself, axis 2"},
		{"heads come apart", Reshape, of(normal(2, 5, 6), vec(0, 0, 2, 3)).fixed(1), 0, 1, "each step by itself, axis 1"},
		{"time is lost in a merge", Reshape, of(normal(2, 5, 6), vec(-1, 6)).fixed(1), 0, 1, "global"},
		{"a mean over time", ReduceMean, of(normal(2, 5, 3), vec(1)).fixed(1), 0, 1, "back all, summed up, state 6"},
		{"a mean over features", ReduceMean, of(normal(2, 5, 3), vec(0)).fixed(1).with(ir.A("keepdims", 0)), 0, 1, "each step by itself, axis 0"},
		{"a causal convolution", Conv, of(normal(1, 3, 7), normal(4, 3, 4)).with(ir.A("pads", []int64{3, 0})), 0, 2, "back 3, axis 2"},
		{"a centred one", Conv, of(normal(1, 3, 7), normal(4, 3, 3)).with(ir.A("pads", []int64{2, 2}), ir.A("dilations", []int64{2})), 0, 2, "back 2, ahead 2, axis 2"},
		{"a strided one", Conv, of(normal(1, 3, 8), normal(4, 3, 2)).with(ir.A("strides", []int64{2})), 0, 2, "ahead 1, axis 2, every 2 steps"},
		{"a delay", Pad, of(normal(2, 5, 3), vec(2, 0), nil, vec(1)).fixed(1, 3), 0, 1, "back 2, axis 1"},
		{"the last step", Gather, of(normal(2, 5, 3), num(-1)).fixed(1).with(ir.A("axis", 1)), 0, 1, "back all, summed up, state 6"},
		{"running sums", CumSum, of(normal(2, 5, 3), num(1)).fixed(1), 0, 1, "back all, axis 1, state 6"},
		{"sums from the end", CumSum, of(normal(2, 5, 3), num(1)).fixed(1).with(ir.A("reverse", 1)), 0, 1, "ahead all, axis 1"},
		{"attention", Softmax, of(normal(2, 5, 5)), 0, 2, "global"},
		{"off the softmax", Softmax, of(normal(2, 5, 3)), 0, 1, "each step by itself, axis 1"},
		{"sizes of others", Shape, of(normal(2, 5, 3)).with(ir.A("end", 1)), 0, 1, "constant"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node(t, tt.op, tt.s, func(input, a, size int) ir.Dim {
				if input == tt.input && a == tt.axis {
					return ir.Sym("L")
				}
				return ir.Const(int64(size))
			})
			in := make([]ir.Fact, len(n.Inputs))
			in[tt.input] = ir.Fact{Symbol: "L", Axis: tt.axis, Stride: 1}
			if got := tt.op.Along(n, in)[0].String(); got != tt.want {
				t.Errorf("found %q, expected %q", got, tt.want)
			}
		})
	}
}

// TestErrors lists mistakes that inference or evaluation must find.
func TestErrors(t *testing.T) {
	infer := []struct {
		op *ir.Op
		s  sample
	}{
		{Add, of(normal(2), normal(3))}, {Add, of(normal(2), whole(tensor.Int64, 0, 2, 2))}, {MatMul, of(normal(2, 3), normal(2, 3))}, {MatMul, of(normal(), normal(2))},
		{Reshape, of(normal(2, 3), vec(-1, -1)).fixed(1)}, {Reshape, of(normal(2, 3), vec(4)).fixed(1)}, {Reshape, of(normal(2, 3), vec(4, -1)).fixed(1)},
		{Transpose, of(normal(2, 3)).with(ir.A("perm", []int64{0, 0}))}, {Softmax, of(normal(2)).with(ir.A("axis", 1))},
		{Concat, of(normal(2, 3), normal(3, 3)).with(ir.A("axis", 1))}, {Squeeze, of(normal(2, 3), vec(0)).fixed(1)}, {Unsqueeze, of(normal(2), vec(0, 0)).fixed(1)},
		{ReduceSum, of(normal(2, 3), vec(2)).fixed(1)}, {Cast, of(normal(2)).with(ir.A("to", 99))}, {Conv, of(normal(1, 3, 5), normal(2, 2, 3))},
		{Split, of(normal(5), vec(1, 2, 2)).fixed(1).gives(2)}, {Slice, of(normal(5), vec(0), vec(1), vec(0), vec(0)).fixed(1, 2, 3, 4)}, {SequenceAt, of(normal(2), num(0))},
	}
	for _, tt := range infer {
		n := &ir.Node{Op: tt.op, Attrs: ir.NewAttrs(tt.s.attrs...)}
		for i, d := range tt.s.in {
			v := &ir.Value{Name: "x", Type: typeOf(d, itself)}
			if slices.Contains(tt.s.consts, i) {
				v = ir.NewConst("k", d.(*tensor.Tensor))
			}
			n.Inputs = append(n.Inputs, v)
		}
		for range tt.s.outs {
			n.Outputs = append(n.Outputs, &ir.Value{Name: "y", Def: n})
		}
		if err := ir.InferNode(n); err == nil {
			t.Errorf("%s of %v %v: no error", tt.op.Name, tt.s.in, tt.s.attrs)
		}
	}
	evaluate := []struct {
		op *ir.Op
		s  sample
	}{
		{Gather, of(normal(3), vec(3))}, {Gather, of(normal(3), vec(-4))}, {Div, of(vec(1), vec(0))}, {Mod, of(vec(1), vec(0))},
		{Reshape, of(normal(3), vec(2, 2))}, {Expand, of(normal(3), vec(2))}, {Expand, of(normal(1), vec(1<<30, 1<<30))}, {Expand, of(normal(1), vec(-1))},
		{ConstantOfShape, of(vec(1<<40, 1))}, {Range, of(num(0), num(1<<40), num(1))}, {Range, of(num(0), num(1), num(0))}, {Tile, of(normal(2), vec(1<<40))},
		{Pad, of(normal(2), vec(-2, -1))}, {Pad, of(normal(2), vec(1<<40, 0))}, {OneHot, of(vec(1), num(-1), normal(2))}, {TopK, of(normal(3), vec(4)).gives(2)},
		{ReverseSequence, of(normal(2, 3), vec(0, 0, 3))}, {GatherND, of(normal(2, 3), tensor.FromSlice([]int64{0, 3}, 1, 2))},
		{SequenceAt, of(seqOf(normal(2)), num(1))}, {OptionalGetElement, of(&tensor.Optional{Value: normal(1)})},
	}
	for _, tt := range evaluate {
		in := slices.Clone(tt.s.in)
		n := plainNode(t, tt.op, tt.s)
		if _, ok := in[0].(*tensor.Optional); ok { // typed by a full one, evaluated with an empty one
			in[0] = &tensor.Optional{}
		}
		if _, err := eval(n, in, false); err == nil {
			t.Errorf("%s of %v %v: no error", tt.op.Name, in, tt.s.attrs)
		}
	}
}

// TestIntegers: exact where float64 is not, and wrapping.
func TestIntegers(t *testing.T) {
	big := int64(1)<<60 + 1
	tests := []struct {
		op   *ir.Op
		a, b tensor.Datum
		want tensor.Datum
	}{
		{Add, vec(big), vec(1), vec(big + 1)}, {Mul, vec(big), vec(1), vec(big)}, {Sub, vec(math.MinInt64), vec(1), vec(math.MaxInt64)},
		{Div, vec(-7), vec(2), vec(-3)}, {Div, vec(math.MinInt64), vec(-1), vec(math.MinInt64)}, {Mod, vec(-7), vec(3), vec(2)}, {Max, vec(big), vec(big - 1), vec(big)},
		{Pow, vec(3), vec(35), vec(50031545098999707)}, {MatMul, vec(big, 1), vec(1, 1), num(big + 1)},
		{Add, tensor.FromSlice([]uint8{250}, 1), tensor.FromSlice([]uint8{10}, 1), tensor.FromSlice([]uint8{4}, 1)},
		{Div, tensor.FromSlice([]uint64{1 << 63}, 1), tensor.FromSlice([]uint64{2}, 1), tensor.FromSlice([]uint64{1 << 62}, 1)},
		{Greater, tensor.FromSlice([]uint64{1<<63 + 1}, 1), tensor.FromSlice([]uint64{1 << 63}, 1), tensor.FromSlice([]bool{true}, 1)},
		{Equal, vec(big), vec(big - 1), tensor.FromSlice([]bool{false}, 1)},
	}
	for _, tt := range tests {
		s := of(tt.a, tt.b)
		got, err := eval(plainNode(t, tt.op, s), s.in, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := near(got[0], tt.want, 0, 0); err != nil {
			t.Errorf("%s: %v", tt.op.Name, err)
		}
	}
}
