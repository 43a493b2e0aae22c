package ir

import "context"

// pacer calls f between parts of a walk. A nil pacer calls nothing.
type pacer struct {
	f    func()
	left int // steps until the next call
}

// pacerSteps is the number of steps between two calls: nodes, and places where they read or define values. A step takes
// some ten to some hundred nanoseconds.
const pacerSteps = 1024

func (p *pacer) step(n int) {
	if p == nil {
		return
	}
	if p.left -= n; p.left <= 0 {
		p.left = pacerSteps
		p.f()
	}
}

func (p *pacer) node(n *Node) {
	if p != nil && n != nil {
		p.step(4 + len(n.Inputs) + len(n.Outputs))
	}
}

// Interrupt makes the walks of g's methods and of Verify over all of g call f between parts that take about a
// millisecond at most, until it is called with nil. f may panic to end a walk; g is undefined then. Meanwhile only one
// goroutine may use g.
func (g *Graph) Interrupt(f func()) {
	if g.pace = nil; f != nil {
		g.pace = &pacer{f: f}
	}
}

// interrupted is the panic that ends VerifyContext.
type interrupted struct{ err error }

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
	return verify(g, &pacer{f: func() {
		if ctx.Err() != nil {
			panic(interrupted{context.Cause(ctx)})
		}
	}})
}
