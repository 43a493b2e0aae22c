package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/serve/internal/seal"
	"github.com/essmc/essmc/serve/queue"
)

// sequence is a live sequence of a model: named by the client, of a connection, or for one request with a state that
// the client carries.
type sequence struct {
	busy   sync.Mutex // held by the request that steps it
	v      *version
	stream *runtime.Stream
	id     [16]byte    // in sealed states
	number uint64      // of answers
	cost   int64       // in the budget; 0: not in it
	key    sequenceKey // if it is named
	over   bool        // it was ended, under busy
	first  string      // the request that started it
	answer *response
	// used is the time of the last request, and held the number of requests that have it, under sequences.mu.
	used time.Time
	held int
}

// overhead is what a sequence costs besides its states, at most.
const overhead = 2 << 10

type sequenceKey struct{ model, id string }

// sequences are the named sequences of a server, and the budget of all that live.
type sequences struct {
	mu     sync.Mutex
	named  map[sequenceKey]*sequence
	budget int64
	taken  int64
	live   int
	// spent are the numbers of the last states that were used, by sequence, if they may be used only once.
	spent map[[16]byte]spent
}

type spent struct {
	number  uint64
	expires time.Time
}

// maxSpent bounds sequences.spent.
const maxSpent = 1 << 16

// sessions are the sequences of a connection, by model.
type sessions struct{ of map[string]*sequence }

// close ends the sessions, with the connection.
func (own *sessions) close(s *Server) {
	for _, q := range own.of {
		s.end(q)
	}
	own.of = nil
}

// step answers a request about a sequence.
func (s *Server) step(ctx context.Context, r *request, own *sessions, start time.Time) (_ *response, err error) {
	if r.params.sequence != "" && r.params.session {
		return nil, invalid.errorf("expected sequence_id or essmc_session, found both")
	}
	if r.params.session && own == nil {
		return nil, invalid.errorf("essmc_session needs ModelStreamInfer: the session ends with the connection")
	}
	carried, err := s.carried(r)
	if err != nil {
		return nil, err
	}
	q, drop, err := s.acquire(ctx, r, own, carried)
	if err != nil {
		return nil, err
	}
	defer drop()
	if q.answer != nil {
		if r.params.start && r.id != "" && r.id == q.first {
			return q.answer, nil // the client has not seen it
		}
		s.forget(q)
	} else if r.params.start && r.id != "" && r.id == q.first && q.number > 0 {
		return nil, conflict.errorf("sequence %q has gone on since request %q started it", r.params.sequence, r.id)
	}
	v := q.v
	if err := v.checkOutputs(r); err != nil {
		return nil, err
	}
	res, err := v.q.Step(ctx, q.stream, r.in, r.params.priority)
	v.stats.answered(res, q.stream.Batch(), time.Since(start), err)
	if err != nil {
		return nil, errorOf(err)
	}
	q.number++
	drains := s.isDraining() && (r.params.session || r.params.sequence != "")
	out, err := s.stepped(r, q, res, drains)
	if err != nil {
		return nil, err
	}
	if r.params.end || drains {
		s.end(q)
	} else if r.params.start && r.id != "" && r.params.sequence != "" {
		s.remember(q, r.id, out)
	}
	return out, nil
}

// stepped makes the answer to a step, with the state if it is wanted, or if the server drains.
func (s *Server) stepped(r *request, q *sequence, res queue.Result, drains bool) (*response, error) {
	out := q.v.respond(r, res)
	if !r.params.state && !drains {
		return out, nil
	}
	state, err := s.sealed(q)
	if err != nil {
		return nil, errorOf(err)
	}
	out.ended = drains
	binary := r.params.binary
	for _, w := range r.outputs {
		if w.name == stateName {
			binary = w.binary
		}
	}
	out.outputs = append(out.outputs, output{stateName, state, binary})
	return out, nil
}

// sealed returns the state of a sequence, as text.
func (s *Server) sealed(q *sequence) (*tensor.Tensor, error) {
	snapshot, err := q.stream.Snapshot()
	if err != nil {
		return nil, err
	}
	b := s.keys.Seal(seal.State{Sequence: q.id, Number: q.number, Expires: time.Now().Add(s.o.Streams.Expiry),
		Model: q.v.name, Version: q.v.number, Snapshot: snapshot})
	return tensor.FromStrings([]string{base64.RawURLEncoding.EncodeToString(b)}, 1), nil
}

// carried opens the state in a request, and takes it out of the inputs; nil if there is none.
func (s *Server) carried(r *request) (*seal.State, error) {
	d, ok := r.in[stateName]
	if !ok {
		return nil, nil
	}
	delete(r.in, stateName)
	t, _ := d.(*tensor.Tensor)
	if t == nil || t.DType() != tensor.String || t.Len() != 1 {
		return nil, invalid.errorf("input %q: expected BYTES[1], found %s", stateName, tensor.Describe(d))
	}
	text, err := tensor.Elements[string](t)
	if err != nil {
		return nil, invalid.errorf("input %q: %w", stateName, err)
	}
	b, err := base64.RawURLEncoding.DecodeString(text[0])
	if err != nil {
		return nil, invalid.errorf("input %q: not a state of essmc", stateName)
	}
	state, err := s.keys.Open(b, time.Now())
	if err != nil {
		return nil, invalid.errorf("input %q: %w", stateName, err)
	}
	switch {
	case state.Model != r.model:
		return nil, invalid.errorf("input %q: the state is of model %q, not of %q", stateName, state.Model, r.model)
	case r.version != "" && r.version != state.Version:
		return nil, invalid.errorf("input %q: the state is of version %s, not of %s", stateName, state.Version, r.version)
	}
	r.version = state.Version
	return state, nil
}

// acquire returns the sequence of a request, for the request only until it calls drop.
func (s *Server) acquire(ctx context.Context, r *request, own *sessions, carried *seal.State) (*sequence, func(), error) {
	switch {
	case r.params.sequence != "":
		return s.acquireNamed(ctx, r, carried)
	case r.params.session:
		if q := own.of[r.model]; q != nil && !q.over && !r.params.start && carried == nil {
			return q, func() {}, nil
		} else if q != nil {
			s.end(q)
		}
		q, err := s.begin(ctx, r, carried, true)
		if err != nil {
			return nil, nil, err
		}
		own.of[r.model] = q
		return q, func() {}, nil
	}
	q, err := s.begin(ctx, r, carried, false)
	if err != nil {
		return nil, nil, err
	}
	return q, func() { s.end(q) }, nil
}

// acquireNamed returns a named sequence, which it begins if the request says so.
func (s *Server) acquireNamed(ctx context.Context, r *request, carried *seal.State) (*sequence, func(), error) {
	key := sequenceKey{r.model, r.params.sequence}
	all := &s.sequences
	all.mu.Lock()
	q := all.named[key]
	if q != nil {
		q.held++
	}
	all.mu.Unlock()
	release := func(q *sequence) {
		q.busy.Unlock()
		all.mu.Lock()
		q.held--
		q.used = time.Now()
		all.mu.Unlock()
	}
	if q != nil {
		q.busy.Lock()
		again := r.id != "" && r.id == q.first
		if !q.over && (!r.params.start || again) {
			if carried != nil {
				release(q)
				return nil, nil, invalid.errorf("sequence %q lives here; a state starts a sequence, with sequence_start",
					key.id)
			}
			if r.version != "" && r.version != q.v.number {
				release(q)
				return nil, nil, invalid.errorf("sequence %q is of version %s, not of %s", key.id, q.v.number, r.version)
			}
			return q, func() { release(q) }, nil
		}
		s.end(q)
		release(q)
	}
	if !r.params.start {
		return nil, nil, invalid.errorf("model %q has no sequence %q here; its first request needs sequence_start",
			r.model, key.id)
	}
	next, err := s.begin(ctx, r, carried, true)
	if err != nil {
		return nil, nil, err
	}
	next.busy.Lock()
	next.held, next.key = 1, key
	all.mu.Lock()
	if other := all.named[key]; other != nil { // two requests start it at the same time
		all.mu.Unlock()
		next.busy.Unlock()
		s.end(next)
		return nil, nil, conflict.errorf("sequence %q is being started by another request", key.id)
	}
	all.named[key] = next
	all.mu.Unlock()
	return next, func() {
		if next.number == 0 { // its first step failed
			s.end(next)
		}
		release(next)
	}, nil
}

// begin makes a sequence: from zeros, or from a state. If it is kept, its memory is taken from the budget.
func (s *Server) begin(ctx context.Context, r *request, carried *seal.State, kept bool) (_ *sequence, err error) {
	v, err := s.repo.find(r.model, r.version)
	if err != nil {
		if carried != nil {
			err = invalid.errorf("input %q: %w", stateName, err)
		}
		return nil, err
	}
	q := &sequence{v: v, id: randomID(), used: time.Now()}
	defer func() {
		if err != nil {
			s.end(q)
		}
	}()
	if v.why != "" {
		return nil, unsupported.errorf("model %q has no streams: %s", v.name, v.why)
	}
	samples := v.samples(r.in)
	if kept {
		cost := v.stateBytes*int64(max(samples, 1)) + overhead
		if !s.sequences.take(cost) {
			s.metrics.refused.WithLabelValues("sequences").Inc()
			return nil, full.errorf("the memory for sequences is full: %d live sequences", s.sequences.count())
		}
		q.cost = cost
	}
	if q.stream, err = v.m.NewStreamContext(ctx, samples); err != nil {
		return nil, errorOf(err)
	}
	if carried == nil {
		return q, nil
	}
	if err := s.resume(q, carried); err != nil {
		return nil, invalid.errorf("input %q: %w", stateName, err)
	}
	return q, nil
}

// resume sets a new sequence to a state.
func (s *Server) resume(q *sequence, from *seal.State) error {
	if s.o.Streams.Variants == "same" {
		info, err := runtime.InspectSnapshot(from.Snapshot)
		if err != nil {
			return err
		}
		mine, err := q.stream.Snapshot()
		if err != nil {
			return err
		}
		own, err := runtime.InspectSnapshot(mine)
		if err != nil {
			return err
		}
		if info.Backend != own.Backend || info.Variant != own.Variant {
			return fmt.Errorf("the state was computed by the kernels %s %s, and this server has %s %s", info.Backend,
				info.Variant, own.Backend, own.Variant)
		}
	}
	if s.o.Streams.Replays == "refuse" {
		if err := s.sequences.spend(from, time.Now()); err != nil {
			return err
		}
	}
	if err := q.stream.Restore(from.Snapshot); err != nil {
		var bad *runtime.SnapshotError
		if errors.As(err, &bad) && bad.Have != bad.Want {
			return fmt.Errorf("the state is of other weights than version %s has now: %w", q.v.number, err)
		}
		return err
	}
	q.id, q.number = from.Sequence, from.Number
	return nil
}

// end drops a sequence. A second end does nothing. A named sequence that others hold stays locked by the caller.
func (s *Server) end(q *sequence) {
	if q.over {
		return
	}
	q.over = true
	if q.stream != nil {
		q.stream.Close()
	}
	all := &s.sequences
	all.mu.Lock()
	if all.named[q.key] == q {
		delete(all.named, q.key)
	}
	if q.cost > 0 {
		all.taken -= q.cost
		all.live--
	}
	all.mu.Unlock()
	q.answer = nil
	q.v.done()
}

// remember keeps the answer to the request that started a sequence, until the next request, if there is memory.
func (s *Server) remember(q *sequence, id string, out *response) {
	size := int64(0)
	for _, o := range out.outputs {
		size += int64(len(o.data.Bytes())) + 256
		if list, err := tensor.Elements[string](o.data); err == nil {
			for _, text := range list {
				size += int64(len(text))
			}
		}
	}
	all := &s.sequences
	all.mu.Lock()
	defer all.mu.Unlock()
	q.first = id
	if all.taken+size <= all.budget {
		all.taken += size
		q.cost += size
		q.answer = out
	}
}

// forget drops the answer that remember has kept.
func (s *Server) forget(q *sequence) {
	all := &s.sequences
	all.mu.Lock()
	defer all.mu.Unlock()
	size := q.cost - q.v.stateBytes*int64(q.stream.Batch()) - overhead
	all.taken -= size
	q.cost -= size
	q.answer = nil
}

// take takes memory for a sequence.
func (a *sequences) take(cost int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken+cost > a.budget {
		return false
	}
	a.taken += cost
	a.live++
	return true
}

func (a *sequences) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}

// spend uses a state, once.
func (a *sequences) spend(s *seal.State, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.spent[s.Sequence]
	if ok && s.Number <= last.number {
		return errors.New("the state was used before")
	}
	if !ok && len(a.spent) >= maxSpent {
		for id, old := range a.spent {
			if now.After(old.expires) {
				delete(a.spent, id)
			}
		}
		if len(a.spent) >= maxSpent {
			return fmt.Errorf("%d sequences carry states at a time, and replays are refused", len(a.spent))
		}
	}
	a.spent[s.Sequence] = spent{s.Number, s.Expires}
	return nil
}

// sweep drops named sequences that have been idle for too long.
func (s *Server) sweep(now time.Time) {
	all := &s.sequences
	var idle []*sequence
	all.mu.Lock()
	for _, q := range all.named {
		if q.held == 0 && now.Sub(q.used) > s.o.Streams.Idle {
			q.held++
			idle = append(idle, q)
		}
	}
	all.mu.Unlock()
	for _, q := range idle {
		q.busy.Lock()
		all.mu.Lock()
		alone := q.held == 1
		all.mu.Unlock()
		if alone {
			s.end(q)
			s.metrics.expired.Inc()
		}
		q.busy.Unlock()
		all.mu.Lock()
		q.held--
		all.mu.Unlock()
	}
}
