package runtime

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// version is one content of a model's parameters, with the programs that compute with it. A model without parameters
// has one version. Sets refer to versions, runs and streams use them, and executables are bound to them. When a version
// has neither sets nor executables nor users, its memory is released.
type version struct {
	m         *Model
	id        uint64
	contents  []*tensor.Tensor // of the parameters, in the graph's order
	own       bool             // contents is memory that belongs to the version, and may be written
	constants *Constants
	program   Program
	steps     once[stepper]

	content sync.RWMutex // held by those who read contents while the version's own run may update them

	mu      sync.Mutex
	sets    int // that refer to it
	running int // runs and streams that use it
	bound   int // executables of sessions
	closed  bool
	choices int // the number of times that choices have changed, so that executables must be bound anew

	hashes struct {
		sync.Mutex
		of  uint64 // Constants.fills of sum
		sum *[sha256.Size]byte
	}
	updates []func(ctx context.Context) error // what follows from updated parameters
	known   int                               // Constants.kept of updates
}

// newVersion compiles the model for contents of its parameters.
func (m *Model) newVersion(ctx context.Context, contents []*tensor.Tensor, own bool) (_ *version, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("compile for backend %s: %w", m.backend.Name(), Recovered(nil, v))
		}
	}()
	v := &version{m: m, contents: contents, own: own, constants: m.constants, steps: newOnce[stepper](), known: -1}
	if len(contents) > 0 {
		v.constants = m.constants.ofVersion()
	}
	if v.program, err = m.backend.Compile(m.wanted, v.config(ctx)); err != nil {
		return nil, err
	}
	m.versions.Lock()
	defer m.versions.Unlock()
	m.versions.last++
	v.id = m.versions.last
	if m.versions.all == nil {
		m.versions.all = map[*version]bool{}
	}
	m.versions.all[v] = true
	return v, nil
}

// config returns the configuration of the version's programs.
func (v *version) config(ctx context.Context) Config {
	c := v.m.config
	c.Ctx, c.Constants, c.Parameters = ctx, v.constants, v.contents
	return c
}

// enter lets a run or a stream use the version.
func (v *version) enter() {
	v.mu.Lock()
	v.running++
	v.mu.Unlock()
}

func (v *version) leave() { v.drop(&v.running) }

// hold counts an executable of a session.
func (v *version) hold() {
	v.mu.Lock()
	v.bound++
	v.mu.Unlock()
}

// share lets another set refer to the version.
func (v *version) share() {
	v.mu.Lock()
	v.sets++
	v.mu.Unlock()
}

func (v *version) unshare() { v.drop(&v.sets) }

// drop takes one off count. If it was the last, the version is closed.
func (v *version) drop(count *int) {
	v.mu.Lock()
	*count--
	last := v.running == 0 && v.sets == 0 && v.bound == 0 && !v.closed
	v.closed = v.closed || last
	v.mu.Unlock()
	if !last {
		return
	}
	m := v.m
	m.versions.Lock()
	delete(m.versions.all, v)
	m.versions.Unlock()
	if err := v.close(); err != nil {
		m.config.Logger.Warn("release of a version of the parameters failed", "error", err)
	}
}

// close releases the programs.
func (v *version) close() error {
	err := v.program.Close()
	if p := v.steps.made; p != nil {
		p.release(nil)
		err = errors.Join(err, p.program.Close())
	}
	return err
}

// gone reports whether no set refers to the version any more, so that executables need not be kept.
func (v *version) gone() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sets == 0
}

// refillable reports whether the version's content may be replaced: one set refers to it, and nothing uses it.
func (v *version) refillable() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.own && v.sets == 1 && v.running == 0 && !v.closed
}

// epoch returns the number of times that choices have changed.
func (v *version) epoch() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.choices
}

// refill replaces the content of a refillable version. After an error it must not be used.
func (v *version) refill(ctx context.Context, contents []*tensor.Tensor, reading *sync.RWMutex) error {
	changed, err := v.write(ctx, contents, reading)
	if err != nil {
		return err
	}
	return v.settle(ctx, v.constants.following(changed))
}

// write copies contents, read under a lock, into those of the version, and returns the ones that differed.
func (v *version) write(ctx context.Context, contents []*tensor.Tensor,
	reading *sync.RWMutex) (changed []*tensor.Tensor, err error) {
	err = ended(func() {
		reading.RLock()
		defer reading.RUnlock()
		steps := ir.EvalCtx{Ctx: ctx}
		for i, t := range contents {
			if to := v.contents[i]; !to.EqualParts(t, steps.Pause) {
				to.CopyParts(t, steps.Pause)
				changed = append(changed, to)
			}
		}
	})
	return changed, err
}

// ended calls f, and returns the error of the panic by which it ends: at its context, or because a tensor cannot be
// read.
func ended(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	f()
	return nil
}

// settle computes again what follows from changed parameters.
func (v *version) settle(ctx context.Context, all []func(ctx context.Context) error) error {
	before := v.constants.choices
	if err := v.constants.settle(ctx, all); err != nil {
		return err
	}
	if v.constants.choices != before {
		v.mu.Lock()
		v.choices++
		v.mu.Unlock()
		if p := v.steps.made; p != nil {
			p.release(nil)
		}
	}
	return nil
}

// update writes outputs of a run into the parameters that they update. It is not interrupted.
func (v *version) update(outputs []tensor.Datum) error {
	v.content.Lock()
	defer v.content.Unlock()
	for i, at := range v.m.updated {
		to, next := v.contents[at], outputs[v.m.updatedBy[i]].(*tensor.Tensor)
		if next.DType() == to.DType() {
			to.CopyParts(next, uninterrupted)
			continue
		}
		narrow := tensor.Data[float32](to) // Options.Precision is float64
		for k, x := range tensor.Data[float64](next) {
			narrow[k] = float32(x)
		}
	}
	if n := v.constants.kept(); v.known != n {
		var changed []*tensor.Tensor
		for _, at := range v.m.updated {
			changed = append(changed, v.contents[at])
		}
		v.updates, v.known = v.constants.following(changed), n
	}
	return v.settle(context.Background(), v.updates)
}

func uninterrupted() {}

// graph returns the model's graph with the version's content.
func (v *version) graph() *ir.Graph {
	g := v.m.graph.Clone()
	for i, p := range g.Parameters {
		p.Init = v.contents[i]
	}
	return g
}

// hash returns the hash of a model that is compiled from the version's content.
func (v *version) hash() ([sha256.Size]byte, error) {
	if !v.own {
		return v.m.hash()
	}
	v.content.RLock()
	defer v.content.RUnlock()
	h := &v.hashes
	h.Lock()
	defer h.Unlock()
	if h.sum != nil && h.of == v.constants.Fills() {
		return *h.sum, nil
	}
	sum, err := hashOf(v.graph())
	if err == nil {
		h.sum, h.of = &sum, v.constants.Fills()
	}
	return sum, err
}
