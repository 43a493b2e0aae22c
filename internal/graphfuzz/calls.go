package graphfuzz

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// owner runs the cases again after the first answers were overwritten, in another order, and into given tensors.
func (k *check) owner() *Finding {
	if !k.way.Owner {
		return nil
	}
	m, f := k.model("owner", k.cs.Graph, runtime.Options{})
	if m == nil {
		return f
	}
	defer m.Close()
	s := m.NewSession()
	for round := range 2 {
		for j := range k.cs.Runs {
			i := len(k.cs.Runs) - 1 - j
			if k.got[i] == nil {
				continue
			}
			in := copyData(k.cs.Runs[i])
			into := Data{}
			if round == 1 {
				for name, d := range k.got[i] {
					if t, ok := d.(*tensor.Tensor); ok && t.DType() != tensor.String {
						c := t.Clone()
						opstest.Spoil(c)
						into[name] = c
					}
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), runTime)
			err := s.RunInto(ctx, in, into)
			cancel()
			if err != nil {
				return &Finding{"owner", fmt.Sprintf("run %d, round %d: %v%s", i, round, err, stack(err))}
			}
			if name := sameData(k.got[i], into); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d, round %d: output %s is another one than in the first "+
					"run: %s",
					i, round, name, describe(k.got[i][name], into[name]))}
			}
			if name := sameData(k.cs.Runs[i], in); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d: input %s is written to", i, name)}
			}
			for _, d := range into {
				opstest.Spoil(d)
			}
			if name := sameData(k.cs.Runs[i], in); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d: an output shares storage with input %s", i, name)}
			}
		}
	}
	return nil
}

func (k *check) threads() *Finding {
	if !k.way.Threads {
		return nil
	}
	got, f := k.answers("threads", k.cs.Graph, runtime.Options{Threads: 2})
	if f != nil {
		return f
	}
	return k.equal("threads", got)
}

// memory runs with little memory: the answer, or a MemoryError.
func (k *check) memory() *Finding {
	if !k.way.Memory {
		return nil
	}
	limit := int64(64) << (k.way.Seed % 14)
	m, err := runtime.New(k.cs.Graph, runtime.Options{Backend: cpu.New(), Threads: 1, MaxMemory: limit})
	if errors.Is(err, runtime.ErrMemory) {
		return nil
	}
	if err != nil {
		return &Finding{"memory", fmt.Sprintf("limit %d: compile: %v", limit, err)}
	}
	defer m.Close()
	s := m.NewSession()
	for i, in := range k.cs.Runs {
		if k.got[i] == nil {
			continue
		}
		got, err := s.Run(context.Background(), in)
		if errors.Is(err, runtime.ErrMemory) {
			var over *runtime.MemoryError
			if !errors.As(err, &over) || over.Limit != limit || over.Need <= limit || over.What == "" {
				return &Finding{"memory", fmt.Sprintf("limit %d: run %d: the error tells other numbers: %v", limit, i,
					err)}
			}
			continue
		}
		if err != nil {
			return &Finding{"memory", fmt.Sprintf("limit %d: run %d: %v%s", limit, i, err, stack(err))}
		}
		if name := sameData(k.got[i], got); name != "" {
			return &Finding{"memory", fmt.Sprintf("limit %d: run %d: output %s is another one", limit, i, name)}
		}
	}
	return nil
}

// cancel ends runs at a random time. The session works afterwards.
func (k *check) cancel() *Finding {
	if !k.way.Cancel {
		return nil
	}
	m, f := k.model("cancel", k.cs.Graph, runtime.Options{Threads: 1 + int(k.way.Seed%2)})
	if m == nil {
		return f
	}
	defer m.Close()
	s := m.NewSession()
	for i, in := range k.cs.Runs {
		if k.got[i] == nil {
			continue
		}
		ctx := &doneAfter{Context: context.Background(), checks: int(k.way.Seed % 23), done: make(chan struct{})}
		got, err := s.Run(ctx, in)
		if err == nil {
			if name := sameData(k.got[i], got); name != "" {
				return &Finding{"cancel", fmt.Sprintf("run %d: output %s is another one", i, name)}
			}
		} else if !errors.Is(err, context.Canceled) {
			return &Finding{"cancel", fmt.Sprintf("run %d: %v%s", i, err, stack(err))}
		}
		if got, err = s.Run(context.Background(), in); err != nil {
			return &Finding{"cancel", fmt.Sprintf("run %d, after one that was cancelled: %v%s", i, err, stack(err))}
		}
		if name := sameData(k.got[i], got); name != "" {
			return &Finding{"cancel", fmt.Sprintf("run %d, after one that was cancelled: output %s is another one", i,
				name)}
		}
	}
	return nil
}

// doneAfter is a context that is cancelled when it has been asked a number of times.
type doneAfter struct {
	context.Context
	mu     sync.Mutex
	checks int
	done   chan struct{}
	closed bool
}

func (c *doneAfter) Done() <-chan struct{} { return c.done }

func (c *doneAfter) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checks--; c.checks >= 0 {
		return nil
	}
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	return context.Canceled
}
