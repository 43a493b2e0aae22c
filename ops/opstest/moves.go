package opstest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Moves compares Op.Moves and Op.Sums with evaluations, on the samples and on more of them, by operator. The map
// least has the number of samples whose answer each operator must describe; other operators must describe none.
func (u Suite) Moves(t *testing.T, more map[string][]Sample, least map[string]int) {
	found := map[string]int{}
	samples := u.Samples
	u.Samples = func(op *ir.Op) []Sample {
		all := samples(op)
		if ops.Newest(op) {
			all = slices.Concat(all, more[op.Name])
		}
		return all
	}
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Moves == nil && op.Sums == nil || slices.ContainsFunc(s.In, isText) {
			return
		}
		s = distinct(s)
		n := Plain(t, op, s)
		got, err := Eval(n, s.In, true)
		if err != nil {
			t.Fatal(err)
		}
		if pieces, ok := ops.Moves(n); ok {
			found[op.Name]++
			for i := range n.Outputs {
				if n.Outputs[i] == nil {
					continue
				}
				y := ops.Tensor(got, i)
				if err := sameNumbers(y, assembled(t, y.Shape(), i, pieces, s.In)); err != nil {
					t.Errorf("output %d of pieces %+v: %v", i, pieces, err)
				}
			}
		}
		if sum, ok := ops.Sums(n); ok {
			found[op.Name]++
			if err := sameNumbers(ops.Tensor(got, 0), summed(ops.Tensor(s.In, 0), sum)); err != nil {
				t.Errorf("%+v: %v", sum, err)
			}
		}
		// Nothing is said of constants and sizes that are not known, unless it follows all the same.
		unknown := Node(t, op, s, func(_, _, _ int) ir.Dim { return ir.Unknown })
		if pieces, ok := ops.Moves(unknown); ok {
			if all, _ := ops.Moves(n); fmt.Sprint(pieces) != fmt.Sprint(all) {
				t.Errorf("pieces %+v of unknown sizes, %+v of these", pieces, all)
			}
		}
		if sum, ok := ops.Sums(unknown); ok {
			if all, _ := ops.Sums(n); sum != all {
				t.Errorf("%+v of unknown sizes, %+v of these", sum, all)
			}
		}
		for i := range n.Inputs { // nor a tensor of which nothing is known
			if n.Inputs[i] == nil {
				continue
			}
			blind := *n
			blind.Inputs = slices.Clone(n.Inputs)
			blind.Inputs[i] = &ir.Value{Name: "blind", Type: &ir.TensorType{Elem: n.Inputs[i].Elem(), NoRank: true}}
			if pieces, ok := ops.Moves(&blind); ok {
				t.Errorf("pieces %+v with an input %d of any rank", pieces, i)
			}
		}
	})
	for name, k := range least {
		if found[name] < k {
			t.Errorf("%s describes %d samples, expected %d", name, found[name], k)
		}
	}
	for name := range found {
		if least[name] == 0 {
			t.Errorf("%s describes itself, but is not expected to", name)
		}
	}
}

// isText reports whether a datum holds strings.
func isText(d tensor.Datum) bool {
	x, ok := d.(*tensor.Tensor)
	return ok && x.DType() == tensor.String
}

// distinct replaces the float32 numbers of a sample by different ones, and makes all other inputs constants.
func distinct(s Sample) Sample {
	s.In, s.Consts = slices.Clone(s.In), nil
	next := float32(0)
	for i, d := range s.In {
		x, ok := d.(*tensor.Tensor)
		switch {
		case !ok:
		case x.DType() == tensor.Float32 && x.Rank() > 0:
			y := tensor.New(tensor.Float32, x.Shape()...)
			for k := range tensor.Data[float32](y) {
				next++
				tensor.Data[float32](y)[k] = next
			}
			s.In[i] = y
		default:
			s.Consts = append(s.Consts, i)
		}
	}
	return s
}

// assembled makes output i from its pieces.
func assembled(t *testing.T, shape []int, i int, pieces []ir.Piece, in []tensor.Datum) *tensor.Tensor {
	t.Helper()
	y := make([]float64, product(shape))
	covered := make([]bool, len(y))
	for _, p := range pieces {
		if p.Output != i {
			continue
		}
		x := ops.Tensor(in, p.Input)
		v, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.From) != len(shape) || len(shape) != x.Rank() || p.Axes != nil && len(p.Axes) != len(shape) {
			t.Fatalf("piece %+v of %v in %v", p, x, shape)
		}
		for at := range y {
			from, rest, inside := 0, at, true
			strides := ops.Strides(x.Shape())
			for a := len(shape) - 1; a >= 0; a-- {
				axis := a
				if p.Axes != nil {
					axis = p.Axes[a]
				}
				k := rest%shape[a] + p.From[a]
				rest /= shape[a]
				inside = inside && k >= 0 && k < x.Dim(axis)
				from += k * strides[axis]
			}
			if !inside {
				continue
			}
			if covered[at] {
				t.Fatalf("pieces %+v overlap", pieces)
			}
			y[at], covered[at] = v[from], true
		}
	}
	return tensor.FromSlice(y, shape...)
}

// summed sums up along an axis.
func summed(x *tensor.Tensor, s ir.RunningSum) *tensor.Tensor {
	v, _ := x.Float64s()
	y := make([]float64, len(v))
	_, n, inner := splitAt(x.Shape(), s.Axis)
	for at := range y {
		place := at / inner % n
		for k := range n {
			before := k < place
			if s.Reverse {
				before = k > place
			}
			if before || k == place && !s.Exclusive {
				y[at] += v[at+(k-place)*inner]
			}
		}
	}
	return tensor.FromSlice(y, x.Shape()...)
}

// sameNumbers compares numbers of any types.
func sameNumbers(got, want *tensor.Tensor) error {
	if !slices.Equal(got.Shape(), want.Shape()) {
		return fmt.Errorf("shapes %v and %v", got.Shape(), want.Shape())
	}
	a, err := got.Float64s()
	if err != nil {
		return err
	}
	b, err := want.Float64s()
	if err != nil {
		return err
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("element %d is %v, described as %v", i, a[i], b[i])
		}
	}
	return nil
}
