// Package ref is the reference backend, which defines the meaning of a graph. It evaluates the nodes in the graph's
// order, on one goroutine, by their operators' Eval, or else by their Body: package eval does that. All other backends
// and all passes are tested against it.
//
// It imports ir, ops, ops/eval and runtime. A program chooses the operators by importing the packages that define them
// (ops/std, ops/essm). The only optimization is to free values after their last use. Every result is compared with its
// type in the graph, so an operator whose Eval contradicts its Infer is reported, with the node, and so is one that
// panics. With runtime.Config.Wide nothing is rounded to float32.
package ref

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// New returns the backend with the registered operators.
func New() runtime.Backend { return backend{ops.Default} }

// With returns the backend with the operators of r.
func With(r ir.Resolver) runtime.Backend { return backend{r} }

type backend struct{ resolver ir.Resolver }

func (backend) Name() string              { return "ref" }
func (b backend) Resolver() ir.Resolver   { return b.resolver }
func (p *program) Close() error           { return nil }
func (e *executable) Close() error        { return nil }
func (e *executable) ArenaBytes() int64   { return 0 } // it holds no memory between runs
func (e *executable) Profile() []stepTime { return e.times }

// Explain returns nothing: operators with several forms choose in their Eval.
func (p *program) Explain(runtime.Binding) ([]runtime.Choice, error) { return nil, nil }

type stepTime = runtime.StepTime

// Compile prepares every node of the graph and its subgraphs.
func (b backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if c.TF32 {
		return nil, &runtime.OptionError{Option: "TF32", Msg: "the ref backend has float32 and float64; the cuda " +
			"backend offers TF32"}
	}
	if p := c.Products; p != tensor.Invalid && p != tensor.Float32 {
		return nil, &runtime.OptionError{Option: "Precision",
			Msg: fmt.Sprintf("the ref backend computes in float32 or float64; the cpu backend offers products in %v",
				p)}
	}
	c.Ctx = nil // it computes nothing here
	p := &program{config: c, main: g, contents: c.Parameters,
		code: eval.New(eval.Options{Resolver: b.resolver, Wide: c.Wide, Kernel: c.Kernel, Failed: failed})}
	var u *eval.UnsupportedError
	if err := p.code.Add(g); errors.As(err, &u) {
		return nil, &runtime.UnsupportedError{Backend: "ref", Node: u.Node, Why: u.Why}
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

// limit is the number of bytes that a run may use: MaxMemory, or the machine's memory; negative if neither is known.
func limit(asked int64) int64 {
	switch machine := ram.Total(); {
	case asked > 0:
		return asked
	case machine > 0:
		return machine
	}
	return -1
}

func failed(n *ir.Node, err error, panicked any) error {
	if panicked != nil {
		return runtime.Recovered(n, panicked)
	}
	return &runtime.NodeError{Node: n, Err: memory(err, n.String())}
}

type program struct {
	config   runtime.Config
	main     *ir.Graph
	contents []*tensor.Tensor // of the graph's parameters; nil: those that the graph has
	code     *eval.Program
}

// parameters returns the parameters as values around the main graph.
func (p *program) parameters() *eval.Frame {
	if len(p.main.Parameters) == 0 {
		return nil
	}
	f := &eval.Frame{Values: make(map[*ir.Value]tensor.Datum, len(p.main.Parameters))}
	for i, v := range p.main.Parameters {
		t := v.Init
		if p.contents != nil {
			t = p.contents[i]
		}
		f.Values[v] = t
		if p.config.Wide {
			f.Values[v] = eval.Widen(t)
		}
	}
	return f
}

// Bind needs no plan.
func (p *program) Bind(b runtime.Binding) (runtime.Executable, error) {
	e := &executable{p: p, dims: b.Dims, budget: b.Budget}
	if e.budget == nil {
		e.budget = ir.NewBudget(limit(p.config.MaxMemory), -1)
	}
	if p.config.Profile {
		for _, n := range p.main.Nodes {
			e.times = append(e.times, stepTime{Name: n.String(), Op: n.Op.FullName(), Form: "eval"})
		}
	}
	return e, nil
}
