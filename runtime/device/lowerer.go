package device

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// lowerer reports to the lowering of one graph which steps have kernels.
type lowerer struct {
	*Backend
	refused *runtime.UnsupportedError // the first
	sized   map[*lowering.Value]bool
	seen    map[*lowering.Program]int // number of steps already in sized
}

func (l *lowerer) Name() string { return l.Backend.Name }

// kernels is Step.Impl of a step with a
type kernels struct{ record Record }

func (kernels) String() string { return "kernel" }

// onHost is Step.Impl of a step that the host computes without copies: its inputs depend only on shapes.
type onHost struct{}

func (onHost) String() string { return "on the host" }

// expands reports whether the body of an operator can replace it, without rounding float64 in between.
func expands(n *ir.Node) bool {
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if t, ok := v.TensorType(); ok && t.Elem == tensor.Float64 {
			return ops.WideBody(n)
		}
	}
	return true
}

// counting is Step.Impl of a step without a kernel that the host computes if it is small.
type counting struct{}

func (counting) String() string { return "on the host, if it is small" }

// Implement looks for a
func (l *lowerer) Implement(c *lowering.Compiler, s *lowering.Step) lowering.Support {
	n := s.Node
	if r := l.records(declared(s)); r != nil {
		s.Impl = kernels{r}
		return lowering.Implemented
	}
	if len(n.Subgraphs()) > 0 && n.Op.Body == nil { // its programs run under the host's control
		return lowering.Evaluate
	}
	if n.Op.Eval != nil && l.follows(c.Program(), s) {
		s.Impl = onHost{}
		return lowering.Implemented
	}
	if n.Op.Body != nil && (n.Op.Eval == nil || expands(n)) {
		return lowering.Expand
	}
	if counts(n) { // perhaps small
		s.Impl = counting{}
		return lowering.Implemented
	}
	if !l.Fallback && l.refused == nil {
		why := "has neither a kernel nor a body"
		if n.Op.Body != nil {
			why = "has no kernel, and its body does not cover all of it"
		}
		if s.Source != n {
			why += fmt.Sprintf(" (it is part of the body of %s)", s.Source.Op.FullName())
		}
		l.refused = l.unsupported(s, "operator %s %s", n.Op.FullName(), why)
	}
	return lowering.Evaluate
}

// Widens reports whether a node on float16 or bfloat16 is computed in float32: because kernels support only that or
// are faster, or because the node is replaced by its body.
func (l *lowerer) Widens(n *ir.Node) bool {
	if l.Operators == nil {
		return false
	}
	wide := *n
	wide.Inputs, wide.Outputs = widened(n.Inputs), widened(n.Outputs)
	has := func(n *ir.Node) bool { return l.Operators.For(standing(n)) != nil }
	if l.Operators.Wide(n.Op) {
		return has(&wide)
	}
	return !has(n) && (n.Op.Body != nil || has(&wide))
}

// widened returns values with float32 instead of narrower floats.
func widened(list []*ir.Value) []*ir.Value {
	out := slices.Clone(list)
	for i, v := range out {
		if v == nil {
			continue
		}
		if t, ok := v.TensorType(); ok && (t.Elem == tensor.Float16 || t.Elem == tensor.BFloat16) {
			x, u := *v, *t
			u.Elem = tensor.Float32
			x.Type = &u
			out[i] = &x
		}
	}
	return out
}

// standing returns a step of a node that is not part of a program.
func standing(n *ir.Node) *lowering.Step {
	s := &lowering.Step{Node: n, Source: n, In: make([]*lowering.Value, len(n.Inputs))}
	for i, v := range n.Inputs {
		if v != nil {
			s.In[i] = &lowering.Value{Name: v.Name, Type: v.Type, Const: v.Const, Settled: v.Init}
		}
	}
	return declared(s)
}

// declared returns a step whose outputs have their declared types. The outputs of the program are created when the
// step is added.
func declared(s *lowering.Step) *lowering.Step {
	t := *s
	t.Out = make([]*lowering.Value, len(s.Node.Outputs))
	for i, v := range s.Node.Outputs {
		if v != nil {
			t.Out[i] = &lowering.Value{Name: v.Name, Type: v.Type}
		}
	}
	return &t
}

// records returns what builds the work of a step on the device, or nil.
func (b *Backend) records(s *lowering.Step) Record {
	if b.Operators == nil {
		return nil
	}
	return b.Operators.For(s)
}

// unsupported refuses the node of a step.
func (b *Backend) unsupported(s *lowering.Step, format string, args ...any) *runtime.UnsupportedError {
	return &runtime.UnsupportedError{Backend: b.Name, Node: s.Source,
		Why: fmt.Sprintf(format, args...) + "; Fallback lets the processor compute it"}
}

func (l *lowerer) refusal() error {
	if l.refused == nil {
		return nil
	}
	return l.refused
}

// follows reports whether the results of a step depend only on shapes: its inputs are constants or depend only on
// shapes themselves. Results of Shape and Size always do.
func (l *lowerer) follows(p *lowering.Program, s *lowering.Step) bool {
	if s.Node.Op.Random {
		return false
	}
	if s.Node.Op.OfShapes {
		return true
	}
	if l.sized == nil {
		l.sized, l.seen = map[*lowering.Value]bool{}, map[*lowering.Program]int{}
	}
	if l.seen[p] > len(p.Steps) { // the steps of a body were removed again
		l.seen[p] = 0
	}
	for _, r := range p.Steps[l.seen[p]:] {
		if r.Node.Op.OfShapes || l.ofSized(r) {
			for _, v := range r.Out {
				l.sized[v] = true
			}
		}
	}
	l.seen[p] = len(p.Steps)
	return l.ofSized(s)
}

func (l *lowerer) ofSized(s *lowering.Step) bool {
	if s.Node.Op.Random || len(s.Node.Subgraphs()) > 0 {
		return false
	}
	for _, v := range s.In {
		if v != nil && v.Const == nil && !l.sized[v] {
			return false
		}
	}
	return true
}
