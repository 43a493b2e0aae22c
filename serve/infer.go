package serve

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/serve/internal/wire"
	"github.com/essmc/essmc/serve/queue"
)

// stateName is the input and the output for the state of a sequence that a client carries.
const stateName = "essmc_state"

// request is a request for inference, in any protocol.
type request struct {
	model, version, id string
	in                 map[string]tensor.Datum
	outputs            []wanted // empty: all
	params             params
}

// wanted is an output that a request asks for.
type wanted struct {
	name   string
	binary bool // over REST
}

// params are the parameters of a request that the server knows.
type params struct {
	sequence   string // sequence_id
	start, end bool   // sequence_start and sequence_end
	priority   int
	timeout    time.Duration
	session    bool // essmc_session: the state belongs to the connection
	state      bool // essmc_state: the answer has the state
	binary     bool // binary_data_output, over REST
}

// set sets a parameter. Unknown ones are ignored, as the specification asks.
func (p *params) set(name string, value any) error {
	bad := func(want string) error {
		return invalid.errorf("parameter %q: expected %s, found %.50v", name, want, value)
	}
	toggle := func(b *bool) error {
		v, ok := value.(bool)
		if !ok {
			return bad("true or false")
		}
		*b = v
		return nil
	}
	number := func() (uint64, bool) {
		switch v := value.(type) {
		case uint64:
			return v, true
		case int64:
			return uint64(v), v >= 0
		}
		return 0, false
	}
	switch name {
	case "sequence_id":
		if text, ok := value.(string); ok {
			if len(text) > 256 {
				return bad("at most 256 bytes")
			}
			p.sequence = text
			return nil
		}
		v, ok := number()
		if !ok {
			return bad("a positive integer or a text")
		}
		if v != 0 {
			p.sequence = strconv.FormatUint(v, 10)
		}
	case "sequence_start":
		return toggle(&p.start)
	case "sequence_end":
		return toggle(&p.end)
	case "essmc_session":
		return toggle(&p.session)
	case "essmc_state":
		return toggle(&p.state)
	case "binary_data_output":
		return toggle(&p.binary)
	case "priority":
		v, ok := number()
		if !ok || v > 1<<20 {
			return bad("a level")
		}
		p.priority = int(v)
	case "timeout":
		v, ok := number()
		if !ok || v > 1<<50 {
			return bad("a number of microseconds")
		}
		p.timeout = time.Duration(v) * time.Microsecond
	}
	return nil
}

// response is the answer to a request.
type response struct {
	model, version, id string
	outputs            []output
	ended              bool // the sequence has ended because the server drains; its state is in the answer
}

type output struct {
	name   string
	data   *tensor.Tensor
	binary bool // over REST
}

// infer answers a request. own is nil, or has the sessions of the connection.
func (s *Server) infer(ctx context.Context, r *request, own *sessions) (_ *response, err error) {
	start := time.Now()
	if err := s.enter(r); err != nil {
		return nil, err
	}
	defer s.leave()
	limit := s.o.Limits.Request
	if r.params.timeout > 0 {
		limit = min(limit, r.params.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, name := range []string{r.model, r.version, r.id} {
		if len(name) > 1024 {
			return nil, invalid.errorf("names of models, versions and requests have at most 1024 bytes, found %d",
				len(name))
		}
	}
	for _, d := range r.in {
		if t, ok := d.(*tensor.Tensor); ok && wire.HasNaN(t) {
			s.metrics.nan.Inc()
			break
		}
	}
	_, carried := r.in[stateName]
	asks := slices.ContainsFunc(r.outputs, func(w wanted) bool { return w.name == stateName })
	r.params.state = r.params.state || asks
	if r.params.sequence != "" || r.params.session || carried || r.params.state {
		return s.step(ctx, r, own, start)
	}
	v, err := s.repo.find(r.model, r.version)
	if err != nil {
		return nil, err
	}
	defer v.done()
	if err := v.checkOutputs(r); err != nil {
		return nil, err
	}
	res, err := v.q.Run(ctx, r.in, r.params.priority)
	v.stats.answered(res, v.samples(r.in), time.Since(start), err)
	if err != nil {
		return nil, errorOf(err)
	}
	return v.respond(r, res), nil
}

// checkOutputs checks the names of the outputs that a request asks for.
func (v *version) checkOutputs(r *request) error {
	for _, w := range r.outputs {
		if w.name != stateName && !slices.ContainsFunc(v.outputs, portNamed(w.name)) {
			return invalid.errorf("model %q has no output %.100q", v.name, w.name)
		}
	}
	return nil
}

// respond makes the answer of the outputs that a request asks for, or all.
func (v *version) respond(r *request, res queue.Result) *response {
	out := &response{model: v.name, version: v.number, id: r.id}
	add := func(name string, binary bool) { // it is absent if it is optional, or if a step does not give it
		if t, ok := res.Out[name].(*tensor.Tensor); ok && t != nil {
			out.outputs = append(out.outputs, output{name, t, binary})
		}
	}
	if len(r.outputs) == 0 {
		for _, p := range v.outputs {
			add(p.Name, r.params.binary)
		}
	}
	for _, w := range r.outputs {
		add(w.name, w.binary)
	}
	return out
}

// enter admits a request. A server that drains admits only steps of sequences, whose answers have the state.
func (s *Server) enter(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.draining && !r.params.session && (r.params.sequence == "" || r.params.start) {
		s.metrics.refused.WithLabelValues(unavailable.name).Inc()
		return unavailable.errorf("the server is shutting down")
	}
	if s.running >= s.o.Limits.Requests {
		s.metrics.refused.WithLabelValues(full.name).Inc()
		return full.errorf("%d requests are running", s.running)
	}
	s.running++
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.quiet.Broadcast()
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// randomID returns the identifier of a new sequence, for its states.
func randomID() (id [16]byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}
