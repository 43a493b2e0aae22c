package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
)

// ZeroState reports whether a state before the first step is zeros, since it is not given: the optional input itself, what
// essm.StateOrZero makes of it, or a part of that.
func (d *Binding) ZeroState(v *Value) bool {
	if d.Missing(v) {
		return true
	}
	i := d.Made(v)
	if i < 0 {
		return false
	}
	s := d.Program.Steps[i]
	if s.Node.Op == essm.StateOrZero {
		return len(s.In) < 2 || s.In[1] == nil || d.Missing(s.In[1])
	}
	if s.Node.Op.Moves == nil {
		return false
	}
	pieces, ok := s.Node.Op.Moves(d.Concrete(s))
	return ok && !slices.ContainsFunc(pieces, func(p ir.Piece) bool {
		return s.Out[p.Output] == v && (s.In[p.Input] == nil || !d.ZeroState(s.In[p.Input]))
	})
}
