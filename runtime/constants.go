package runtime

import (
	"context"
	"sync"
)

// Constants caches data that a backend derives from a model's constants, such as packed weights, so that all programs of
// the model share it. It also keeps what follows from parameters, with the way to compute it again. It is safe for
// concurrent use. A nil *Constants caches nothing.
type Constants struct {
	mu   sync.Mutex
	made map[any]any

	model   *Constants // has what follows from constants only; nil: c itself
	settled map[any]*settled
	again   []func(ctx context.Context) error // in the order in which they were made
	choices int
}

// settled is data that follows from parameters.
type settled struct {
	once  sync.Once
	value any
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
func (c *Constants) Settled(key any, make func() (v any, again func(ctx context.Context) error)) any {
	if c == nil {
		v, _ := make()
		return v
	}
	var s *settled
	c.mu.Lock()
	if key != nil {
		s = c.settled[key]
	}
	if s == nil {
		s = &settled{}
		if c.settled == nil {
			c.settled = map[any]*settled{}
		}
		if key != nil {
			c.settled[key] = s
		}
	}
	c.mu.Unlock()
	s.once.Do(func() {
		v, again := make()
		s.value = v
		if again == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.again = append(c.again, again)
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

// settle computes everything again that follows from parameters, after their content has been replaced. No executable
// of c's programs runs meanwhile. After an error some of it follows from the former content.
func (c *Constants) settle(ctx context.Context) error {
	c.mu.Lock()
	again := c.again
	c.mu.Unlock()
	for _, f := range again {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}
