package elementwise

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Of reports whether the backend computes an operator on float32 by its expression. It does not if the operator has a
// row kernel, or compares or takes truth values, which typed kernels do.
func Of(op *ir.Op) bool {
	if op.Element == nil || !ops.Newest(op) {
		return false
	}
	r := record.For(op)
	truth := func(p ir.Param) bool { return p.Elem == "bool" }
	return r.Row.Make == nil && !truth(op.Out[0]) && (r.Tensor.Make == nil || !slices.ContainsFunc(op.In, truth))
}

// Broadcasts reports whether such an operator has a tensor kernel, too: if it has several operands.
func Broadcasts(op *ir.Op) bool {
	return Of(op) && (len(op.In) > 1 || op.In[0].Variadic)
}

// Make returns the kernels of a step of such an operator; nil if its types are not float32, or if its expression cannot
// be compiled. Steps with the same expression share them.
func Make(s *lowering.Step) *record.Elementwise {
	if !Of(s.Node.Op) || s.Node.Out(0) == nil || !lowering.IsFloat32(s.Node.Out(0).Type) {
		return nil
	}
	for i := range s.Node.Inputs {
		s.Node.Step(1)
		if moreAxes(s.Node.In(i), s.Node.Out(0)) {
			return refused
		}
	}
	e := of(lowering.Expression(s, func(v *lowering.Value) *tensor.Tensor { return v.Const }))
	if e == nil {
		return nil
	}
	for _, c := range e.Chains {
		if s.In[c.Input].Fixed() == nil && !s.Float32Input(c.Input) {
			return nil
		}
	}
	return e
}

// maxCached is the maximum size of the cache. It is needed because expressions contain constants, and models may
// have any number of these.
const maxCached = 1024

// cached holds the kernels of expressions; nil for those that cannot be compiled.
var cached = struct {
	sync.RWMutex
	of map[scalar.Expr]*record.Elementwise
}{of: map[scalar.Expr]*record.Elementwise{}}

// of returns the kernels of an expression.
func of(x scalar.Expr) *record.Elementwise {
	cached.RLock()
	e, ok := cached.of[x]
	cached.RUnlock()
	if ok {
		return e
	}
	if p := compile(x); p != nil {
		e = p.elementwise()
	}
	cached.Lock()
	defer cached.Unlock()
	if len(cached.of) >= maxCached {
		clear(cached.of)
	}
	cached.of[x] = e
	return e
}

func (p *program) elementwise() *record.Elementwise {
	e := &record.Elementwise{Row: p.row}
	if len(p.reads) > 1 {
		e.Tensor = p.tensor
	}
	for _, at := range p.reads {
		e.Chains = append(e.Chains, p.chain(at))
	}
	return e
}

// refused is for steps that no kernel fits, so that their evaluation returns an error. Their bodies might broadcast
// where the operators do not.
var refused = &record.Elementwise{
	Row: func(*lowering.Step) record.RowMaker { return nil },
	Tensor: func(*lowering.Step) record.TensorMaker {
		return func(*lowering.Binding) *record.TensorKernel { return nil }
	},
}

// moreAxes reports whether v has more axes than the output, so that it does not broadcast to it.
func moreAxes(v, out *ir.Value) bool {
	if v == nil {
		return false
	}
	t, ok := v.Type.(*ir.TensorType)
	o := out.Type.(*ir.TensorType)
	return !ok || !t.NoRank && !o.NoRank && len(t.Shape) > len(o.Shape)
}
