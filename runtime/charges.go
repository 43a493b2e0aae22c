package runtime

import (
	"errors"
	"math"

	"github.com/essmc/essmc/ir"
)

// charges are the bytes that a call allocates beside its executable: inputs in other element types, and the like. They
// are charged before they are allocated: to the budget of a session; of a stream, whose executable is not known yet,
// they are compared with the limit.
type charges struct {
	budget *ir.Budget // nil: none
	limit  int64      // 0: none
	taken  int64
	moves  ir.EvalCtx // ends the work at the call's context
	starts []start    // scratch of apart
}

// take charges bytes. The error is a *MemoryError.
func (c *charges) take(bytes int64) error {
	if c.limit > 0 && bytes > c.limit-c.taken {
		return &MemoryError{Need: bytes + c.taken, Limit: c.limit, What: "the conversion of inputs"}
	}
	if err := c.budget.Take(bytes); err != nil {
		return refused(err, "the conversion of inputs, with memory already held,")
	}
	c.taken += bytes
	return nil
}

// release gives all back.
func (c *charges) release() {
	c.budget.Release(c.taken)
	c.taken = 0
}

// newBudget returns the budget of a session, or of a step, or nil if the model has no limit. The backend then has
// one.
func (m *Model) newBudget() *ir.Budget {
	if m.config.MaxMemory == 0 {
		return nil
	}
	return ir.NewBudget(m.config.MaxMemory, -1)
}

// refused returns a MemoryError for a budget that what exceeds; other errors stay.
func refused(err error, what string) error {
	if err == nil {
		return nil
	}
	var over *ir.BudgetError // on the heap
	if errors.As(err, &over) {
		return &MemoryError{Need: over.Need(), Limit: over.Limit, What: what}
	}
	return err
}

// bytesOf returns the size of n elements; a number that no budget has, if it is not to be counted.
func bytesOf(n, size int) int64 {
	if size > 0 && int64(n) > math.MaxInt64/2/int64(size) {
		return math.MaxInt64 / 2
	}
	return int64(n) * int64(size)
}
