// Command service is the service of docs/embedding.md: it answers whole sequences and streams of one model over
// HTTP.
//
// It imports runtime and the CPU backend, as any program that embeds them. The model is loaded once and shared.
// Sessions are pooled. Each connection to /stream has its own stream, which ends with the connection. The service
// bounds memory, work, time, requests and streams, so it can run untrusted models for untrusted clients.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	goruntime "runtime"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: service [-addr HOST:PORT] PLAN")
	}
	model, err := runtime.Load(flag.Arg(0), runtime.Untrusted(cpu.New()))
	if err != nil {
		log.Fatal(err)
	}
	service, err := newService(model, defaults())
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *addr, Handler: service, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	model.Close() // waits for running calls
}

// limits bound what clients may take, together.
type limits struct {
	requests int           // to /run at a time; more are refused
	streams  int           // open at a time; more are refused
	states   int64         // bytes of the states of all streams, which may make these fewer
	calls    int           // that compute at a time; more wait
	body     int64         // bytes of the sequence of a request, as JSON
	chunk    int64         // bytes of a chunk of a stream, as JSON
	work     time.Duration // of one call
	idle     time.Duration // that a client may take to send a request or a chunk, or to take an answer
}

// defaults are the limits of the command: 64 bodies of 4 MiB, 1000 streams with chunks of 256 KiB and states of 1 GiB,
// and a call for each processor, which takes up to 256 MiB (runtime.Untrusted) and, with garbage, 60 bytes for each of
// its JSON.
func defaults() limits {
	return limits{requests: 64, streams: 1000, states: 1 << 30, calls: goruntime.GOMAXPROCS(0), body: 4 << 20,
		chunk: 256 << 10, work: 10 * time.Second, idle: 30 * time.Second}
}

// service answers with one model.
type service struct {
	model    *runtime.Model
	limits   limits
	requests chan struct{}         // holds one for each request
	streams  chan struct{}         // holds one for each stream
	sessions chan *runtime.Session // those that do not compute; a session serves one goroutine at a time
}

// newService serves a model with the input "input" float[B,L,features], and the output "output" of floats.
//
//	POST /run     a JSON list of steps, each a list of features → the output
//	POST /stream  JSON lists of steps, one after the other → the output of each, as it is computed
func newService(model *runtime.Model, l limits) (http.Handler, error) {
	if err := check("input", "input", model.Inputs()); err != nil {
		return nil, err
	}
	if err := check("output", "output", model.Outputs()); err != nil {
		return nil, err
	}
	if stream, err := model.NewStream(1); err == nil {
		states, err := stream.State()
		if err != nil {
			return nil, err
		}
		size := int64(1)
		for _, t := range states {
			size += int64(len(t.Bytes()))
		}
		l.streams = int(min(int64(l.streams), l.states/size))
	}
	s := &service{model: model, limits: l, requests: make(chan struct{}, l.requests),
		streams: make(chan struct{}, l.streams), sessions: make(chan *runtime.Session, l.calls)}
	for range l.calls {
		s.sessions <- model.NewSession()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", s.bounded(s.requests, s.run))
	mux.HandleFunc("POST /stream", s.bounded(s.streams, s.stream))
	return mux, nil
}

// check checks that one of the ports has the name, and holds floats.
func check(kind, name string, ports []runtime.Port) error {
	for _, p := range ports {
		if t, ok := p.Type.(*ir.TensorType); ok && p.Name == name && t.Elem == tensor.Float32 && !p.Optional {
			return nil
		}
	}
	return fmt.Errorf("the model has no %s %q of type float", kind, name)
}

// bounded refuses requests beyond the room in the channel.
func (s *service) bounded(room chan struct{}, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			serve(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		}
	}
}

// compute waits for its turn, and calls f with a session and a context that ends after the time for one call.
func (s *service) compute(ctx context.Context, f func(context.Context, *runtime.Session) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.work)
	defer cancel()
	select {
	case session := <-s.sessions:
		defer func() { s.sessions <- session }()
		return f(ctx, session)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run computes the output of a whole sequence.
func (s *service) run(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(s.limits.idle))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.limits.body))
	if err != nil {
		http.Error(w, err.Error(), status(err))
		return
	}
	var out map[string]tensor.Datum
	err = s.compute(r.Context(), func(ctx context.Context, session *runtime.Session) error {
		in, err := inputs(body)
		if err == nil {
			out, err = session.Run(ctx, in)
		}
		return err
	})
	control.SetWriteDeadline(time.Now().Add(s.limits.idle))
	if err != nil {
		http.Error(w, err.Error(), status(err))
		return
	}
	json.NewEncoder(w).Encode(answer(out))
}

// stream computes outputs chunk by chunk. The stream lives as long as the connection.
func (s *service) stream(w http.ResponseWriter, r *http.Request) {
	stream, err := s.model.NewStream(1)
	if err != nil {
		http.Error(w, err.Error(), status(err))
		return
	}
	defer stream.Close()
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	w.Header().Set("Connection", "close") // what is left of the body is no request
	body := &chunkReader{r: r.Body}
	chunks, answers := json.NewDecoder(body), json.NewEncoder(w)
	for {
		control.SetReadDeadline(time.Now().Add(s.limits.idle))
		body.left = s.limits.chunk
		var chunk json.RawMessage
		if err = chunks.Decode(&chunk); err == io.EOF {
			return
		}
		out := map[string]tensor.Datum{}
		if err == nil {
			err = s.compute(r.Context(), func(ctx context.Context, _ *runtime.Session) error {
				in, err := inputs(chunk)
				if err == nil {
					err = stream.Step(ctx, in, out)
				}
				return err
			})
		}
		control.SetWriteDeadline(time.Now().Add(s.limits.idle))
		if err != nil { // the error does not change the stream, but this service ends the connection
			answers.Encode(map[string]string{"error": err.Error()})
			return
		}
		answers.Encode(answer(out))
		control.Flush()
	}
}

// chunkReader reads a body of chunks, each of a bounded size.
type chunkReader struct {
	r    io.Reader
	left int64 // bytes that may be read for the chunk
}

func (c *chunkReader) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("the chunk is too large")
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// errSteps is the error for JSON that is no list of steps.
var errSteps = errors.New("expected a list of steps, each a list of numbers")

// inputs makes a batch of one sequence.
func inputs(text []byte) (map[string]tensor.Datum, error) {
	var steps [][]float32
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, fmt.Errorf("%w: %w", errSteps, err)
	}
	var flat []float32
	features := 0
	for i, step := range steps {
		if i == 0 {
			features = len(step)
		}
		if len(step) != features {
			return nil, fmt.Errorf("%w: step %d: expected %d, found %d", errSteps, i, features, len(step))
		}
		flat = append(flat, step...)
	}
	return map[string]tensor.Datum{"input": tensor.FromSlice(flat, 1, len(steps), features)}, nil
}

// answer returns the output of the batch's only sequence.
func answer(out map[string]tensor.Datum) []float32 {
	return tensor.Data[float32](out["output"].(*tensor.Tensor))
}

// status returns the HTTP status of an error.
func status(err error) int {
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, runtime.ErrInput), errors.Is(err, errSteps):
		return http.StatusBadRequest
	case errors.Is(err, runtime.ErrMemory), errors.As(err, &long):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, runtime.ErrStream):
		return http.StatusNotImplemented
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.Is(err, runtime.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
