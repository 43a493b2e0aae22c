package opstest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// Suite is the set of checks that every operator of a domain must pass.
type Suite struct {
	Domain string
	// Samples returns samples for an operator. Each operator must have some.
	Samples func(*ir.Op) []Sample
	// Refused lists the operators that inference always refuses, with a reason. They have no samples.
	Refused []string
}

// Each runs a test for every sample of every operator of the domain.
func (u Suite) Each(t *testing.T, f func(t *testing.T, op *ir.Op, s Sample)) {
	for _, op := range ops.Default.All() {
		if op.Domain != u.Domain {
			continue
		}
		if slices.Contains(u.Refused, op.Name) {
			if _, err := op.Infer(&ir.Node{Op: op}); err == nil {
				t.Errorf("%s is not refused", op.Name)
			}
			continue
		}
		samples := u.Samples(op)
		if len(samples) == 0 {
			t.Errorf("%s: no sample follows from its signature; expected one in package ops/opstest/samples",
				op.FullName())
		}
		for i, s := range samples {
			t.Run(fmt.Sprintf("%s-%d/%d", op.Name, op.Since, i), func(t *testing.T) { f(t, op, s) })
		}
	}
}

// TypeOf returns the type of a datum, with its own sizes; dims may rename them.
func TypeOf(d tensor.Datum, dim func(axis, size int) ir.Dim) ir.Type {
	switch d := d.(type) {
	case *tensor.Tensor:
		s := ir.Shape{}
		for i, n := range d.Shape() {
			s = append(s, dim(i, n))
		}
		return &ir.TensorType{Elem: d.DType(), Shape: s}
	case *tensor.Sequence:
		e := TypeOf(d.Items[0], dim)
		for _, x := range d.Items {
			e = unionType(e, TypeOf(x, dim))
		}
		return &ir.SequenceType{Elem: e}
	case *tensor.Optional:
		return &ir.OptionalType{Elem: TypeOf(d.Value, dim)}
	}
	return nil
}

func itself(_, size int) ir.Dim { return ir.Const(int64(size)) }

// Node applies an operator to a sample, with dimensions as dim names them.
func Node(t *testing.T, op *ir.Op, s Sample, dim func(input, axis, size int) ir.Dim) *ir.Node {
	t.Helper()
	n, err := nodeOf(op, s, dim)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// nodeOf is Node with the error of inference.
func nodeOf(op *ir.Op, s Sample, dim func(input, axis, size int) ir.Dim) (*ir.Node, error) {
	n := &ir.Node{Op: op, Attrs: ir.NewAttrs(s.Attrs...)}
	for i, d := range s.In {
		var v *ir.Value
		switch x, ok := d.(*tensor.Tensor); {
		case d == nil:
		case ok && slices.Contains(s.Consts, i):
			v = ir.NewConst(fmt.Sprintf("in%d", i), x)
		default:
			v = &ir.Value{Name: fmt.Sprintf("in%d", i), Type: TypeOf(d, func(axis, size int) ir.Dim {
				return dim(i, axis, size)
			})}
		}
		n.Inputs = append(n.Inputs, v)
	}
	for i := range s.Outs {
		if slices.Contains(s.Absent, i) {
			n.Outputs = append(n.Outputs, nil)
			continue
		}
		n.Outputs = append(n.Outputs, &ir.Value{Name: fmt.Sprintf("out%d", i), Def: n})
	}
	return n, ir.InferNode(n)
}

// plainOf is nodeOf for other inputs, with the sizes that these have.
func plainOf(op *ir.Op, s Sample, in []tensor.Datum) (*ir.Node, error) {
	s.In = in
	return nodeOf(op, s, func(_, a, n int) ir.Dim { return itself(a, n) })
}

// Plain is Node with the sizes that the inputs have.
func Plain(t *testing.T, op *ir.Op, s Sample) *ir.Node {
	return Node(t, op, s, func(_, a, n int) ir.Dim { return itself(a, n) })
}

// Eval evaluates a node; wide carries float32 as float64.
func Eval(n *ir.Node, in []tensor.Datum, wide bool) ([]tensor.Datum, error) {
	return eval.Options{Wide: wide}.Node(context.Background(), n, in, nil)
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

// Infer compares inferred types with results: for known sizes, for sizes with names, and for unknown sizes.
func (u Suite) Infer(t *testing.T) {
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		n := Plain(t, op, s)
		got, err := Eval(n, s.In, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < s.Outs {
			t.Fatalf("%d outputs, expected %d", len(got), s.Outs)
		}
		for i, v := range n.Outputs {
			if err := Fits(got[i], v.Type); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
		// Equal sizes get equal names, but 0 and 1 stay numbers: their equality is often a coincidence.
		bind := map[string]int64{}
		named := Node(t, op, s, func(input, _, size int) ir.Dim {
			if size < 2 || slices.Contains(s.Rigid, input) {
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
		unknown := Node(t, op, s, func(input, _, size int) ir.Dim {
			if slices.Contains(s.Rigid, input) {
				return ir.Const(int64(size))
			}
			return ir.Unknown
		})
		for i, v := range unknown.Outputs {
			if err := Fits(got[i], v.Type); err != nil {
				t.Errorf("output %d, from unknown sizes: %v", i, err)
			}
		}
	})
}

// Body compares evaluations with bodies, in float64.
func (u Suite) Body(t *testing.T) {
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Body == nil || op.Eval == nil {
			t.Skip("has only one of Eval and Body")
		}
		n, in := Plain(t, op, s), widened(s.In)
		want, err := Eval(n, in, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EvalBody(&ir.EvalCtx{Node: n, Wide: true}, in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			// Constants in a body are float32, so the result may differ by their rounding.
			if err := Near(got[i], want[i], 2e-6, 1e-6); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
}

// Wide compares evaluations in float64 with those in float32: same shapes, element types widened, numbers near.
func (u Suite) Wide(t *testing.T) {
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		n := Plain(t, op, s)
		narrow, err := Eval(n, s.In, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Eval(n, widened(s.In), true)
		if err != nil {
			t.Fatal(err)
		}
		want := widened(narrow)
		for i := range n.Outputs {
			if err := Near(got[i], want[i], 1e-4, 1e-5); err != nil && op.Name != "Cast" {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
}

// BadInputs evaluates Samples with wrong shapes and numbers: an error is right, a result may be, a panic is not.
func (u Suite) BadInputs(t *testing.T) {
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		n := Plain(t, op, s)
		for i, d := range s.In {
			x, ok := d.(*tensor.Tensor)
			if !ok || x.DType() == tensor.String {
				continue
			}
			bad := badInputs(t, x)
			for _, y := range bad {
				in := slices.Clone(s.In)
				in[i] = y
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("input %d is %v: panic: %v", i, y, r)
						}
					}()
					_, _ = Eval(n, in, false)
				}()
			}
		}
	})
}

// badInputs returns tensors of x's type that an operator may refuse: of other shapes, and with numbers that are often
// out of range.
func badInputs(t *testing.T, x *tensor.Tensor) (bad []tensor.Datum) {
	for _, shape := range [][]int{{}, {0}, {1}, {2, 0}, {3, 1, 1}, {1, 1, 1, 1, 1}} {
		bad = append(bad, Whole(x.DType(), 0, 2, shape...))
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
	return bad
}

// BadAttributes changes attributes of samples so that they contradict the inputs or each other: an error is right, a
// result may be, a panic is not.
func (u Suite) BadAttributes(t *testing.T) {
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		for i, a := range s.Attrs {
			for _, v := range badValues(a.Value) {
				n := &ir.Node{Op: op}
				attrs := slices.Clone(s.Attrs)
				attrs[i].Value = v
				n.Attrs = ir.NewAttrs(attrs...)
				for k, d := range s.In {
					if d == nil {
						n.Inputs = append(n.Inputs, nil)
						continue
					}
					n.Inputs = append(n.Inputs, &ir.Value{Name: fmt.Sprintf("in%d", k), Type: TypeOf(d, itself)})
				}
				for k := range s.Outs {
					n.Outputs = append(n.Outputs, &ir.Value{Name: fmt.Sprintf("out%d", k), Def: n})
				}
				func() {
					defer func() {
						if r := recover(); r != nil {
							t.Errorf("attribute %s is %v: panic: %v", a.Name, v, r)
						}
					}()
					if ir.InferNode(n) == nil {
						_, _ = Eval(n, s.In, false)
					}
				}()
			}
		}
	})
}

// badValues makes attribute values of the same kind that are unlikely to be right.
func badValues(v any) []any {
	switch v := v.(type) {
	case []int64:
		return []any{[]int64{}, v[:max(0, len(v)-1)], append(slices.Clone(v), 0), filled(v, -1), filled(v, 1<<40),
			filled(v, 0), filled(v, -1<<63)}
	case []float64:
		return []any{[]float64{}, v[:max(0, len(v)-1)], append(slices.Clone(v), 0)}
	case []string:
		return []any{[]string{}, v[:max(0, len(v)-1)], append(slices.Clone(v), "zzz"), filled(v, v[0]),
			filled(v, v[len(v)-1])}
	case int64:
		return []any{int64(-1), int64(0), int64(1 << 40), int64(1<<63 - 1), int64(-1 << 63)}
	case float64:
		return []any{math.NaN(), math.Inf(-1), 0.0}
	case string:
		return []any{"", "zzz"}
	case *tensor.Tensor:
		return []any{tensor.New(tensor.Float32, 0), tensor.New(tensor.String, 2), tensor.FromSlice([]float32{9, -9}, 2)}
	}
	return nil
}

func filled[T any](v []T, x T) []T {
	out := make([]T, len(v))
	for i := range out {
		out[i] = x
	}
	return out
}

// Along compares facts with evaluations: it changes one step of one input, and only the steps of the outputs whose
// window contains that step may change.
func (u Suite) Along(t *testing.T, least int) {
	checked := 0
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Along == nil {
			return
		}
		for i, d := range s.In {
			x, ok := d.(*tensor.Tensor)
			if !ok || x.DType() != tensor.Float32 || slices.Contains(s.Consts, i) || slices.Contains(s.Rigid, i) ||
				x.Len() == 0 {
				continue
			}
			for axis := range x.Rank() {
				if x.Dim(axis) < 2 {
					continue
				}
				n := Node(t, op, s, func(input, a, size int) ir.Dim {
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
				before, err := Eval(n, s.In, false)
				if err != nil {
					t.Fatal(err)
				}
				for step := range x.Dim(axis) {
					in := slices.Clone(s.In)
					in[i] = disturb(x, axis, step)
					after, err := Eval(n, in, false)
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
	if checked < least {
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

// unionType returns the type of a value that has type a or b.
func unionType(a, b ir.Type) ir.Type {
	x, okX := a.(*ir.TensorType)
	y, okY := b.(*ir.TensorType)
	if okX && okY {
		if u, err := ops.UnionShape(x, y); err == nil {
			return u
		}
	}
	return a
}

// splitAt returns the sizes before, at and after an axis.
func splitAt(shape []int, axis int) (outer, n, inner int) {
	return product(shape[:axis]), shape[axis], product(shape[axis+1:])
}
