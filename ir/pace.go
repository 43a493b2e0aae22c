package ir

// Pace is the number of operations between two checks of an evaluation's context. An operation takes about a
// nanosecond, and 200 at most.
const Pace = 1 << 13

// Ended is the panic by which an evaluation ends at its context, or a kernel from outside of this module at an error of
// its own. Package ops/eval returns its error.
type Ended struct{ Err error }

// Interrupts marks the panic.
func (e *Ended) Interrupts() {}

// Error is the context's error.
func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap returns the context's error.
func (e *Ended) Unwrap() error { return e.Err }

// Step counts operations of the evaluation, before they are computed. Once they are Pace or more, it checks the
// evaluation's context, and panics with an *Ended if that is done. A nil context never is.
//
//go:noinline
func (c *EvalCtx) Step(operations int) {
	if c != nil {
		if c.paced += operations; c.paced >= Pace {
			c.check()
		}
	}
}

// Pause checks the evaluation's context: it is Step after many operations.
func (c *EvalCtx) Pause() {
	if c != nil {
		c.check()
	}
}

func (c *EvalCtx) check() {
	c.paced = 0
	if c.Ctx != nil {
		if err := c.Ctx.Err(); err != nil {
			panic(&Ended{err})
		}
	}
}
