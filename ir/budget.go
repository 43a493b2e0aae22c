package ir

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/essmc/essmc/internal/fault"
)

// Budget limits the memory and the work of evaluations: bytes that may still be allocated, and operations that may
// still be computed. Released bytes may be allocated again; operations are spent. A nil Budget has no limit. It may
// be used concurrently.
type Budget struct {
	limit, work int64
	used, spent atomic.Int64
	full        func()
	whole       *Budget // operations are spent from it, too; nil: none
}

// NewBudget returns a budget of bytes and operations. A negative number means no limit.
func NewBudget(bytes, operations int64) *Budget {
	bound := func(n int64) int64 {
		if n < 0 {
			return math.MaxInt64
		}
		return n
	}
	return &Budget{limit: bound(bytes), work: bound(operations)}
}

// Part returns a budget of bytes and operations. Its operations are also spent from b; its bytes are its own.
func (b *Budget) Part(bytes, operations int64) *Budget {
	p := NewBudget(bytes, operations)
	p.whole = b
	return p
}

// BudgetError is the error for an evaluation that does not fit into its budget.
type BudgetError struct {
	// Asked is the number of bytes or operations that were asked for, Used the number in use or spent before that.
	Asked, Used, Limit int64
	// Work is set if these are operations.
	Work bool
}

// Error names the numbers.
func (e *BudgetError) Error() string {
	if e.Work {
		return fmt.Sprintf("%d operations beside %d exceed the limit of %d", e.Asked, e.Used, e.Limit)
	}
	return fmt.Sprintf("%d bytes beside %d in use exceed the limit of %d", e.Asked, e.Used, e.Limit)
}

// Need is the number of bytes or operations that would have sufficed so far.
func (e *BudgetError) Need() int64 {
	if e.Asked > math.MaxInt64-max(e.Used, 0) {
		return math.MaxInt64
	}
	return e.Asked + e.Used
}

// WhenFull sets a function that releases bytes that nobody needs any more. Take calls it before it refuses bytes that
// the budget could hold. A budget with such a function is used by one goroutine. Nil: there is none.
func (b *Budget) WhenFull(f func()) { b.full = f }

// Take takes bytes from the budget. The error is a *BudgetError, and nothing is taken then.
func (b *Budget) Take(bytes int64) error {
	if b == nil {
		return nil
	}
	used := b.used.Add(bytes)
	_, fail := fault.At(fault.Take, "", bytes)
	if used <= b.limit && used >= 0 && fail == nil {
		return nil
	}
	if used = b.used.Add(-bytes); b.full != nil && bytes <= b.limit && fail == nil {
		b.full()
		if used = b.used.Add(bytes); used <= b.limit {
			return nil
		}
		used = b.used.Add(-bytes)
	}
	return &BudgetError{Asked: bytes, Used: used, Limit: b.limit}
}

// Hold takes bytes that exist already, whether they fit or not.
func (b *Budget) Hold(bytes int64) {
	if b != nil {
		b.used.Add(bytes)
	}
}

// Release gives bytes back.
func (b *Budget) Release(bytes int64) {
	if b != nil {
		b.used.Add(-bytes)
	}
}

// Used is the number of bytes in use.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Limit is the number of bytes that may be in use at a time.
func (b *Budget) Limit() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.limit
}

// Left returns the number of bytes and of operations that the budget has left.
func (b *Budget) Left() (bytes, operations int64) {
	if b == nil {
		return math.MaxInt64, math.MaxInt64
	}
	_, operations = b.whole.Left()
	return max(b.limit-b.used.Load(), 0), min(operations, b.work-b.spent.Load())
}

// Spent is the number of operations that were computed.
func (b *Budget) Spent() int64 {
	if b == nil {
		return 0
	}
	return b.spent.Load()
}

// Spend takes operations from the budget. The error is a *BudgetError, and nothing is taken then.
func (b *Budget) Spend(operations int64) error {
	if b == nil {
		return nil
	}
	if operations < 0 { // the count has overflowed
		operations = math.MaxInt64
	}
	for {
		spent := b.spent.Load()
		if operations > b.work-spent {
			return &BudgetError{Asked: operations, Used: spent, Limit: b.work, Work: true}
		}
		if b.spent.CompareAndSwap(spent, spent+operations) {
			err := b.whole.Spend(operations)
			if err != nil {
				b.spent.Add(-operations)
			}
			return err
		}
	}
}

// Charge takes bytes from the evaluation's budget. If they do not fit, it panics with a *BudgetError, which package
// ops/eval returns as the evaluation's error. What an evaluation charges is released when it is done; its holder then
// accounts for the results. An evaluation charges from one goroutine.
func (c *EvalCtx) Charge(bytes int64) {
	if c == nil || c.Budget == nil {
		return
	}
	if err := c.Budget.Take(bytes); err != nil {
		panic(err)
	}
	c.charged += bytes
}

// Charged is the number of bytes that the evaluation has charged.
func (c *EvalCtx) Charged() int64 {
	if c == nil {
		return 0
	}
	return c.charged
}

// Discharge releases the charges since Charged returned mark, for memory that is garbage by then.
func (c *EvalCtx) Discharge(mark int64) {
	if c == nil || c.Budget == nil {
		return
	}
	c.Budget.Release(c.charged - mark)
	c.charged = mark
}
