package ir

import "context"

// Pacer calls a function between parts of a long piece of work, which counts its steps. The function panics to end the
// work, with a value that has the method Interrupts, so that nothing in between takes it for a fault. A nil Pacer calls
// nothing. One goroutine uses a Pacer until it is stopped.
type Pacer struct {
	f    func()
	left int // steps until the next call
}

// pacerSteps is the number of steps between two calls: nodes, and places where they read or define values. A step takes
// some ten to some hundred nanoseconds.
const pacerSteps = 1024

// NewPacer returns a Pacer that calls f about every millisecond. It returns nil if f is nil.
func NewPacer(f func()) *Pacer {
	if f == nil {
		return nil
	}
	return &Pacer{f: f}
}

// Step counts n steps.
func (p *Pacer) Step(n int) {
	if p == nil || p.f == nil {
		return
	}
	if p.left -= n; p.left <= 0 {
		p.left = pacerSteps
		p.f()
	}
}

// Stop ends the calls. The nodes that have the Pacer may be used by several goroutines then.
func (p *Pacer) Stop() {
	if p != nil {
		p.f = nil
	}
}

func (p *Pacer) node(n *Node) {
	if p != nil && n != nil {
		p.Step(4 + len(n.Inputs) + len(n.Outputs))
	}
}

// Step counts k steps of a function of the node's operator, such as inputs or outputs that it looks at. Functions that
// look at all of them call it, since a node may have very many. It does not return if the node's Pacer ends the work.
func (n *Node) Step(k int) {
	if n != nil && n.pace != nil {
		n.pace.Step(k)
	}
}

// Pace returns what the node counts its steps with, or nil.
func (n *Node) Pace() *Pacer { return n.pace }

// SetPace makes the functions of the node's operator count their steps with p. The caller owns the node.
func (n *Node) SetPace(p *Pacer) { n.pace = p }

// Paced returns a node like n whose operator's functions count their steps with p: n itself if it is too small for that
// to matter. Others may use n meanwhile. The values are those of n; their Def is n.
func (n *Node) Paced(p *Pacer) *Node {
	if p == nil || !n.wide() {
		return n
	}
	c := *n
	c.pace = p
	return &c
}

// wide reports whether the functions of the node's operator may take long.
func (n *Node) wide() bool {
	const many = 128 // inputs and outputs
	if len(n.Inputs)+len(n.Outputs) > many {
		return true
	}
	for _, a := range n.Attrs {
		switch s := a.Value.(type) {
		case *Graph:
			if s != nil && len(s.Inputs)+len(s.Outputs)+len(s.Nodes) > many {
				return true
			}
		case []*Graph:
			return true
		}
	}
	return false
}

// Interrupt makes the walks of g's methods and of Verify over all of g, and the functions of its nodes' operators, call
// f between parts that take about a millisecond at most, until it is called with nil. f may panic to end a walk, with a
// value that has the method Interrupts; g is undefined then. Meanwhile only one goroutine may use g.
func (g *Graph) Interrupt(f func()) {
	g.pace.Stop()
	if g.pace = nil; f != nil {
		g.setPace(NewPacer(f))
	}
}

// setPace sets the Pacer of g and the graphs within, and of their nodes.
func (g *Graph) setPace(p *Pacer) {
	g.pace = p
	for _, n := range g.Nodes {
		if p.Step(1); n != nil {
			n.pace = p
			for _, s := range n.Subgraphs() {
				s.setPace(p)
			}
		}
	}
}

// Interruption is a panic that ends work on a graph, since its context is done.
type Interruption interface{ Interrupts() }

// PassOn panics with v again if it is an Interruption. Functions that recover from faults of operators call it first.
func PassOn(v any) {
	if _, ok := v.(Interruption); ok {
		panic(v)
	}
}

// interrupted is the panic that ends VerifyContext.
type interrupted struct{ err error }

func (interrupted) Interrupts() {}

// VerifyContext is Verify, which ends with the cause when ctx is done. ctx may be nil. Others may read g meanwhile.
func VerifyContext(ctx context.Context, g *Graph) (err error) {
	if ctx == nil {
		return Verify(g)
	}
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(interrupted)
			if !ok {
				panic(v)
			}
			err = e.err
		}
	}()
	return verify(g, NewPacer(func() {
		if ctx.Err() != nil {
			panic(interrupted{context.Cause(ctx)})
		}
	}))
}
