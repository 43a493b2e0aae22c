package opstest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SizedBy checks Op.SizedBy by changing the numbers of float inputs. If the shape of a result changes, the input must
// be listed, and each listed input must change a shape in some sample. Operators in found are excepted: they count what
// they find in their data.
func (u Suite) SizedBy(t *testing.T, found []string) {
	r := rand.New(rand.NewPCG(31, 32))
	type input struct {
		op *ir.Op
		i  int
	}
	does := map[input]bool{}
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		before, err := Eval(Plain(t, op, s), s.In, false)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range s.In {
			x, ok := d.(*tensor.Tensor)
			if !ok || !x.DType().IsFloat() {
				continue
			}
			for range 8 {
				v := make([]float64, x.Len())
				for j := range v {
					v[j] = float64(1+r.IntN(8)) / 2
				}
				y, err := tensor.FromFloat64s(x.DType(), v, x.Shape()...)
				if err != nil {
					t.Fatal(err)
				}
				in := slices.Clone(s.In)
				in[i] = y
				n, err := plainOf(op, s, in)
				if err != nil {
					continue
				}
				after, err := Eval(n, in, false)
				if err != nil {
					continue
				}
				for k := range min(len(before), len(after)) {
					a, ok1 := before[k].(*tensor.Tensor)
					b, ok2 := after[k].(*tensor.Tensor)
					if ok1 && ok2 && !slices.Equal(a.Shape(), b.Shape()) {
						does[input{op, i}] = true
					}
				}
			}
			if states := slices.Contains(op.SizedBy, i); does[input{op, i}] && !states &&
				!slices.Contains(found, op.FullName()) {
				t.Errorf("the numbers of input %d determine a shape; only those of %v are stated", i, op.SizedBy)
			}
		}
	})
	listed := map[string]bool{}
	for in := range does {
		listed[in.op.FullName()] = true
	}
	for _, op := range ops.Default.All() {
		for _, i := range op.SizedBy {
			if op.Domain == u.Domain && !does[input{op, i}] {
				t.Errorf("%s-%d: the numbers of input %d determine no shape of a sample", op.Name, op.Since, i)
			}
		}
	}
	for _, name := range found {
		if !listed[name] {
			t.Errorf("%s need not be listed", name)
		}
	}
}
