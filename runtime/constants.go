package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
)

// Constants caches data that a backend derives from a model's constants, such as packed weights, so that all programs
// of the model share it. It also keeps what follows from parameters, with the way to compute it again. It is safe for
// concurrent use. A nil *Constants caches nothing.
type Constants struct {
	mu   sync.Mutex
	made map[any]any

	model   *Constants // has what follows from constants only; nil: c itself
	settled map[any]*settled
	again   []again // in the order in which they were made
	choices int     // the number of calls of Choose
	fills   uint64  // the number of times that data was computed again
}

// settled is data that follows from parameters.
type settled struct {
	once  sync.Once
	value any
}

// again computes data again after the content of one of the tensors from has changed, and with it that of the tensors
// to.
type again struct {
	from, to []*tensor.Tensor
	run      func(ctx context.Context) error
}

// ofVersion returns the cache for one version of the parameters of c's model.
func (c *Constants) ofVersion() *Constants { return &Constants{model: c} }

// Get returns the value for key, from the cache or else from make. Keys are comparable values of a type of the
// backend that contain the constant's *tensor.Tensor, whose identity represents its content. Values must not change.
func (c *Constants) Get(key any, make func() any) any {
	if c == nil {
		return make()
	}
	if c.model != nil {
		return c.model.Get(key, make)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.made[key]; ok {
		return v
	}
	v := make()
	if c.made == nil {
		c.made = map[any]any{}
	}
	c.made[key] = v
	return v
}

// Settled is Get for data that follows from parameters. make also returns the function that computes the data again,
// in the same memory, after the content of the parameters has been replaced. It may be nil. It runs after the functions
// of the data that make itself asked for. A nil key stands for data that nothing else asks for.
//
// The data follows from the content of the tensors from, and is not computed again if only other content has changed.
// If other data follows from it, it consists of the tensors to.
func (c *Constants) Settled(from, to []*tensor.Tensor, key any,
	make func() (v any, again func(ctx context.Context) error)) any {
	if c == nil {
		v, _ := make()
		return v
	}
	s := &settled{}
	if key != nil {
		c.mu.Lock()
		if c.settled == nil {
			c.settled = map[any]*settled{}
		}
		if have := c.settled[key]; have != nil {
			s = have
		}
		c.settled[key] = s
		c.mu.Unlock()
	}
	s.once.Do(func() {
		v, run := make()
		s.value = v
		if run == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.again = append(c.again, again{from, to, run})
	})
	return s.value
}

// Choose tells that a choice of a backend, such as the form of a recurrence, would be another one for the content that
// the parameters have now. It is called while data is computed again. Executables are bound anew then.
func (c *Constants) Choose() {
	if c != nil {
		c.choices++
	}
}

// Fills returns the number of times that data was computed again. An executable with data of its own that follows from
// parameters compares it when a run starts, and computes that data again if it has changed.
func (c *Constants) Fills() uint64 {
	if c == nil {
		return 0
	}
	return c.fills
}

// following returns the functions that compute again what follows from the content of the given tensors.
func (c *Constants) following(changed []*tensor.Tensor) (all []func(ctx context.Context) error) {
	is := map[*tensor.Tensor]bool{}
	for _, t := range changed {
		is[t] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.again {
		if !slices.ContainsFunc(a.from, func(t *tensor.Tensor) bool { return is[t] }) {
			continue
		}
		for _, t := range a.to {
			is[t] = true
		}
		all = append(all, a.run)
	}
	return all
}

// kept returns the number of functions of c.
func (c *Constants) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.again)
}

// settle computes data again, after the content of parameters has been replaced. No executable of c's programs runs
// meanwhile. After an error some of it follows from the former content.
func (c *Constants) settle(ctx context.Context, all []func(ctx context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	c.fills++
	for _, f := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}
