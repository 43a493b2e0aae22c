package lowering

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// take makes v, a value within a subgraph, the value outside.
func (v *Value) take(outer *Value) {
	v.Type, v.Const, v.Settled, v.updated, v.of = outer.Type, outer.Const, outer.Settled, outer.updated, outer.of
}

// settled returns the tensor that stands for the content of a settled value, in whatever shape; nil for other values.
func (v *Value) settled() *tensor.Tensor {
	if v.of != nil {
		return v.of
	}
	return v.Settled
}

// parameters adds the parameters of g as settled values.
func (f *Compiler) parameters(g *ir.Graph, contents []*tensor.Tensor) error {
	if contents != nil && len(contents) != len(g.Parameters) {
		return fmt.Errorf("graph %s: expected the content of %d parameters, found %d", g.Name, len(g.Parameters), len(contents))
	}
	for i, v := range g.Parameters {
		f.folding.steps.Step(128)
		t := v.Init
		if contents != nil {
			t = contents[i]
		}
		if t.DType() != v.Init.DType() || !slices.Equal(t.Shape(), v.Init.Shape()) {
			return fmt.Errorf("graph %s: parameter %s is %v, its content is %v", g.Name, v.Name, v.Init, t)
		}
		f.value(v).Settled = t
	}
	for _, u := range g.Updates {
		f.value(u.Parameter).updated = true
	}
	return nil
}

// settles reports whether fold may compute a node of these inputs, which are constant or settled, and whether one of
// them is settled. What follows from a parameter that runs update is computed in each run.
func settles(in []*Value) (settled, ok bool) {
	for _, v := range in {
		if v == nil || v.Const != nil {
			continue
		}
		if v.Settled == nil || v.updated {
			return false, false
		}
		settled = true
	}
	return settled, true
}

// again lets the results of a node be computed again, in the same memory, when the content of its inputs is replaced.
func (f *Compiler) again(n *ir.Node, in []*Value, out []*Value) {
	source := f.folding.source
	var to []*tensor.Tensor
	for _, v := range out {
		if v != nil {
			to = append(to, v.Settled)
		}
	}
	f.p.Config.Constants.Settled(SettledOf(in), to, nil, func() (any, func(context.Context) error) {
		return nil, func(ctx context.Context) error {
			// Each time the node may use what it was granted when the graph was compiled.
			a := foldingOf(ctx, source)
			data := make([]tensor.Datum, len(in))
			for i, v := range in {
				if v != nil {
					data[i] = v.Fixed()
				}
			}
			res, err := a.evaluate(n, data)
			if err != nil {
				return &runtime.NodeError{Node: n, Err: err}
			}
			for i, v := range out {
				if v == nil {
					continue
				}
				t, ok := res[i].(*tensor.Tensor)
				if !ok || t.DType() != v.Settled.DType() || !slices.Equal(t.Shape(), v.Settled.Shape()) {
					return &runtime.NodeError{Node: n, Err: fmt.Errorf("output %d is %v, with the parameters before it was %v", i,
						tensor.Describe(res[i]), v.Settled)}
				}
				v.Settled.CopyParts(t, a.steps.Pause)
			}
			return nil
		}
	})
}

// Keep returns data that a kernel makes of the fixed inputs of a step, such as packed weights. make allocates it, and fill
// computes it from the content of these inputs. If one of them is settled, fill is called again for each new content: it
// writes to the same memory, and decides nothing anew. Programs of a model share data with equal keys; the key contains
// the tensors (Step.Fixed) and everything else that fill depends on. Data with a nil key is not shared.
func Keep[T any](c *runtime.Constants, s *Step, inputs []int, key any, make func() T, fill func(T)) T {
	var in []*Value
	for _, i := range inputs {
		if !s.Absent(i) {
			in = append(in, s.In[i])
		}
	}
	if from := SettledOf(in); from != nil {
		return c.Settled(from, nil, key, func() (any, func(context.Context) error) {
			data := make()
			fill(data)
			return data, func(context.Context) error { fill(data); return nil }
		}).(T)
	}
	made := func() any {
		data := make()
		fill(data)
		return data
	}
	if key == nil {
		return made().(T)
	}
	return c.Get(key, made).(T)
}

// SettledOf returns the tensors of the settled values among in, as runtime.Constants.Settled expects them; nil if there
// are none.
func SettledOf(in []*Value) (all []*tensor.Tensor) {
	for _, v := range in {
		if v != nil && v.Settled != nil {
			all = append(all, v.settled())
		}
	}
	return all
}

// numbersKey identifies the elements of a settled value in another type.
type numbersKey struct {
	t    *tensor.Tensor
	wide bool
}

// Numbers returns the elements of input i as float32, or nil if it is neither constant nor settled. Those of a settled
// input change between runs, in place.
func (s *Step) Numbers(c *runtime.Constants, i int) []float32 {
	t := s.Fixed(i)
	switch {
	case t == nil:
		return nil
	case t.DType() == tensor.Float32 || s.In[i].Settled == nil:
		return float32s(t)
	case t.ReadFloat64s(nil, 0) != nil: // not numbers
		return nil
	}
	return Keep(c, s, []int{i}, numbersKey{s.In[i].settled(), false}, func() []float32 { return make([]float32, t.Len()) },
		func(v []float32) { copy(v, float32s(t)) })
}

// Numbers64 returns the elements of input i as float64, or nil if it is neither constant nor settled. Those of a settled
// input change between runs, in place.
func (s *Step) Numbers64(c *runtime.Constants, i int) []float64 {
	t := s.Fixed(i)
	switch {
	case t == nil:
		return nil
	case s.In[i].Settled == nil:
		return float64s(t)
	case t.DType() == tensor.Float64:
		return tensor.Data[float64](t)
	case t.ReadFloat64s(nil, 0) != nil: // not numbers
		return nil
	}
	return Keep(c, s, []int{i}, numbersKey{s.In[i].settled(), true}, func() []float64 { return make([]float64, t.Len()) },
		func(v []float64) { _ = t.ReadFloat64s(v, 0) }) // numbers have no error
}

func float64s(t *tensor.Tensor) []float64 {
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	return v
}
