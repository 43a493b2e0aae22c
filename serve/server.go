// Package serve answers requests for models over the KServe Open Inference Protocol v2, as REST and as gRPC, with
// extensions of Triton: binary data, configuration, statistics, the repository, sequences and bidirectional streams.
// essmc serve is this package; programs may use it as well.
//
//	s, err := serve.New(ctx, serve.Options{Models: map[string]string{"m": "model.essm"}, HTTP: "127.0.0.1:8080"})
//	...
//	err = s.Run(ctx) // until ctx ends; then it drains
//
// A model is a plan, a model directory, an ONNX file or a graph as text. Each version that is served has a
// runtime.Model and a queue.Queue, which joins requests where that changes no answer. Sequences are streams of the
// runtime, and their states snapshots, sealed for clients that carry them to another replica. The server has no
// mechanism of its own for either.
//
// Everything that comes from a client is checked here or in the runtime, and is bounded by Limits before it is read.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/essmc/essmc/serve/internal/seal"
)

// Server serves models. Its methods are safe for concurrent use.
type Server struct {
	o         Options
	keys      *seal.Keys
	repo      repository
	sequences sequences
	metrics   *metrics
	access    *access

	mu       sync.Mutex
	quiet    sync.Cond // a request has ended
	running  int       // requests
	draining bool
	stopped  bool
	drained  chan struct{} // closed when the server begins to drain

	listening sync.Mutex
	addresses map[string]net.Addr
}

// New loads the models. A model that cannot be loaded is listed as unavailable, with the reason; the others are served.
func New(ctx context.Context, o Options) (*Server, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	s := &Server{o: o, drained: make(chan struct{}), addresses: map[string]net.Addr{}, access: newAccess(o.Access)}
	s.quiet.L = &s.mu
	s.repo.models, s.repo.off = map[string]map[string]*slot{}, map[string]bool{}
	s.sequences = sequences{named: map[sequenceKey]*sequence{}, budget: int64(o.Streams.Memory),
		spent: map[[16]byte]spent{}}
	s.metrics = newMetrics(s)
	var err error
	if o.Streams.Keys == "" {
		s.keys, err = seal.New()
	} else {
		s.keys, err = seal.Open(o.Streams.Keys)
	}
	if err != nil {
		return nil, fmt.Errorf("streams.keys: %w", err)
	}
	all, err := s.sources()
	if err != nil {
		return nil, err
	}
	for name := range o.Model {
		if _, ok := all[name]; !ok && o.Dir == "" {
			return nil, fmt.Errorf("model.%s: there is no such model", name)
		}
	}
	for name, list := range all {
		_ = s.sync(ctx, name, list) // the reasons are in the repository, and in the log
	}
	if err := ctx.Err(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Run listens and serves until ctx ends. Then it drains: new requests are refused, those that run end, and for
// Limits.Drain each next step of a sequence is answered with its state, for another replica.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	failed := make(chan error, 3)
	var stops []func(context.Context)
	defer func() {
		for _, stop := range stops {
			late, cancel := context.WithTimeout(context.Background(), s.o.Limits.Request)
			stop(late)
			cancel()
		}
	}()
	for _, l := range []struct {
		name, address string
		serve         func(net.Listener, chan<- error) func(context.Context)
	}{{"http", s.o.HTTP, s.serveHTTP(s.Handler())}, {"grpc", s.o.GRPC, s.serveGRPC},
		{"admin", s.o.Admin, s.serveHTTP(s.Admin())}} {
		if l.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		s.listening.Lock()
		s.addresses[l.name] = listener.Addr()
		s.listening.Unlock()
		stops = append(stops, l.serve(listener, failed))
	}
	if len(stops) == 0 {
		return errors.New("expected an address for http, grpc or admin, found none")
	}
	if s.o.Started != nil {
		s.o.Started()
	}
	ticker := time.NewTicker(min(s.o.Streams.Idle, time.Second))
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.sweep(now)
		case err := <-failed:
			return err
		case <-ctx.Done():
			s.Drain()
			return nil
		}
	}
}

// Address returns the address at which "http", "grpc" or "admin" is served; nil while it is not.
func (s *Server) Address(name string) net.Addr {
	s.listening.Lock()
	defer s.listening.Unlock()
	return s.addresses[name]
}

// Ready reports whether the server accepts requests.
func (s *Server) Ready() bool { return !s.isDraining() }

// Drain refuses new requests, and returns when those that run are answered and no named sequence lives, at the latest
// after Limits.Drain for sequences.
func (s *Server) Drain() {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.drained)
	}
	s.mu.Unlock()
	for end := time.Now().Add(s.o.Limits.Drain); s.sequences.count() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	s.mu.Lock()
	s.stopped = true
	for s.running > 0 {
		s.quiet.Wait()
	}
	s.mu.Unlock()
}

// Close ends all sequences and closes the models, after Drain.
func (s *Server) Close() {
	s.mu.Lock()
	s.draining, s.stopped = true, true
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
	for s.running > 0 {
		s.quiet.Wait()
	}
	s.mu.Unlock()
	s.sequences.mu.Lock()
	var all []*sequence
	for _, q := range s.sequences.named {
		all = append(all, q)
	}
	s.sequences.mu.Unlock()
	for _, q := range all {
		q.busy.Lock()
		s.end(q)
		q.busy.Unlock()
	}
	s.repo.loading.Lock()
	defer s.repo.loading.Unlock()
	for _, name := range s.repo.names() {
		for _, slot := range s.repo.slots(name) {
			if slot.v != nil {
				slot.v.retire()
			}
		}
	}
}

// serveHTTP serves a handler. The function that it returns to the caller ends it.
func (s *Server) serveHTTP(h http.Handler) func(net.Listener, chan<- error) func(context.Context) {
	return func(l net.Listener, failed chan<- error) func(context.Context) {
		server := &http.Server{Handler: h, ReadHeaderTimeout: s.o.Limits.Head, IdleTimeout: s.o.Limits.Idle,
			MaxHeaderBytes: int(s.o.Limits.Header)}
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
		return func(ctx context.Context) {
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		}
	}
}

// serveGRPC serves gRPC, as serveHTTP does HTTP.
func (s *Server) serveGRPC(l net.Listener, failed chan<- error) func(context.Context) {
	server := s.GRPC()
	go func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			failed <- err
		}
	}()
	return func(ctx context.Context) {
		done := make(chan struct{})
		go func() {
			server.GracefulStop()
			close(done)
		}()
		select {
		case <-done:
		case <-ctx.Done():
			server.Stop()
		}
	}
}

// Status is a version of a model in the repository.
type Status struct {
	Name, Version string
	Path          string
	Kind          string // plan, directory, onnx or text; empty if it is unavailable
	Reason        string // for which it is unavailable; empty if it is served
	Joined        string // why requests are not joined; empty if they are
	Streams       string // why there are no streams; empty if there are
}

// Models lists all versions, by name and version.
func (s *Server) Models() []Status {
	var out []Status
	s.repo.each(func(name, number string, slot *slot) {
		st := Status{Name: name, Version: number, Path: slot.path}
		if slot.v == nil {
			st.Reason = cmp.Or(slot.reason, "not loaded")
		} else {
			_, st.Joined = slot.v.q.Joined()
			st.Kind, st.Streams = strings.TrimPrefix(slot.v.platform(), "essmc_"), slot.v.why
		}
		out = append(out, st)
	})
	return out
}

// Keys lists the identifiers of the keys for states, the one that seals first.
func (s *Server) Keys() []string { return s.keys.IDs() }
