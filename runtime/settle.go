package runtime

import "context"

// Settle computes everything again that follows from parameters, after their content has been replaced. No executable
// of c's programs runs meanwhile. It is for the tests of backends: models do this themselves (Set.Replace).
func (c *Constants) Settle(ctx context.Context) error {
	c.mu.Lock()
	all := make([]func(context.Context) error, len(c.again))
	for i, a := range c.again {
		all[i] = a.run
	}
	c.mu.Unlock()
	return c.settle(ctx, all)
}

// Choices returns the number of calls of Choose.
func (c *Constants) Choices() int { return c.choices }

// Kept returns the number of functions that Settle calls.
func (c *Constants) Kept() int { return c.kept() }
