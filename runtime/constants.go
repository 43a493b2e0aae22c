package runtime

import "sync"

// Constants caches data that a backend derives from a model's constants, such as packed weights, so that all programs of
// the model share it. It is safe for concurrent use. A nil *Constants caches nothing.
type Constants struct {
	mu   sync.Mutex
	made map[any]any
}

// Get returns the value for key, from the cache or else from make. Keys are comparable values of a type of the
// backend that contain the constant's *tensor.Tensor, whose identity represents its content. Values must not change.
func (c *Constants) Get(key any, make func() any) any {
	if c == nil {
		return make()
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
