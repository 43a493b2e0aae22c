package runtime

import "sync"

// Constants keeps what a backend makes of a model's constants, packed weights above all, so that all programs of one model
// hold it once. It is safe for concurrent use. A nil *Constants keeps nothing.
type Constants struct {
	mu   sync.Mutex
	made map[any]any
}

// Get gives what is kept under key, or keeps what make gives. Keys are comparable values of a type of the backend's own, with
// the constant's *tensor.Tensor in them: the tensor's identity stands for its content. What is kept is not changed any more.
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
