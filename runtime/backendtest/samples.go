package backendtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	"github.com/essmc/essmc/runtime"
)

// samples runs the samples of operators, with fixed sizes, and with sizes that only the binding knows. Random inputs do
// not include all of them: sequences, subgraphs, and indices and attributes that fit each other.
func (s *suite) samples(t *testing.T) {
	for _, op := range ops.Default.All() {
		all := samples.Of(op)
		if len(all) == 0 {
			continue
		}
		s.sub(t, fmt.Sprintf("%s-%d", op.FullName(), op.Since), func(t *testing.T) {
			for i, sample := range all {
				for _, named := range []bool{false, true} {
					c, err := sampleCase(op, sample, named)
					if err != nil {
						t.Errorf("sample %d: %v", i, err)
						continue
					}
					c.name = fmt.Sprintf("sample %d, sizes named: %v: %s", i, named, c.name)
					accepted := false
					if op.Random {
						accepted = s.drawn(t, c)
					} else {
						accepted = s.generated(t, c)
					}
					if !accepted && s.must(op) {
						t.Errorf("%s: no answer; the last refusal: %s", c.name, s.refused[op.FullName()])
					}
				}
			}
		})
	}
}

// sampleCase returns a graph of a sample. If named is set, sizes of 2 and more have names in it, equal sizes the same.
func sampleCase(op *ir.Op, s opstest.Sample, named bool) (*aCase, error) {
	b := ir.NewBuilder("sample", ops.Default, opsetsFor(op))
	in := Data{}
	var vals []*ir.Value
	for i, d := range s.In {
		x, isTensor := d.(*tensor.Tensor)
		name := fmt.Sprintf("in%d", i)
		switch {
		case d == nil:
			vals = append(vals, nil)
			continue
		case isTensor && slices.Contains(s.Consts, i):
			vals = append(vals, b.Const(name, x))
			continue
		}
		vals = append(vals, b.Input(name, opstest.TypeOf(d, func(_, size int) ir.Dim {
			if !named || size < 2 || slices.Contains(s.Rigid, i) {
				return ir.Const(int64(size))
			}
			return ir.Sym(fmt.Sprintf("n%d", size))
		})))
		in[name] = d
	}
	for i, v := range b.Apply(op, s.Outs, vals, ir.NewAttrs(s.Attrs...)) {
		if v != nil && !slices.Contains(s.Absent, i) {
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	return &aCase{fmt.Sprintf("%v %v %s", g.Nodes[0], g.Nodes[0].Attrs, describe(in)), g, in, GraphTolerance(g)}, nil
}

// drawn runs a case whose answer is random. It reports whether the backend gave an answer, and checks types and shapes.
func (s *suite) drawn(t *testing.T, c *aCase) bool {
	t.Helper()
	want, err := truth(c.graph, c.in)
	if err != nil {
		t.Fatalf("%s: runtime/ref: %v", c.name, err)
	}
	m, err := runtime.New(c.graph, runtime.Options{Backend: s.make()})
	if s.noteRefusal(t, err) {
		return false
	}
	if err != nil {
		t.Fatalf("%s: compile: %v", c.name, err)
	}
	defer m.Close()
	got, err := m.NewSession().Run(context.Background(), c.in)
	if s.mayRefuse(t, err) {
		return false
	}
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	for name, w := range want {
		w, g := w.(*tensor.Tensor), got[name].(*tensor.Tensor)
		if d := g.DType(); d != w.DType() && !(d == tensor.Float32 && w.DType() == tensor.Float64) ||
			!slices.Equal(g.Shape(), w.Shape()) {
			t.Errorf("%s: output %s is %v, expected %v", c.name, name, g, w)
		}
	}
	return true
}
