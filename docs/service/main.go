// Command service is the service of docs/embedding.md: it answers whole sequences and streams of one model over HTTP.
//
// It imports runtime and the CPU backend, as any program that embeds them. The model is loaded once and shared. Sessions
// are pooled. Each connection to /stream has its own stream, which ends with the connection.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	flag.Parse()
	model, err := runtime.Load(flag.Arg(0), runtime.Options{
		Backend:   cpu.New(),
		Threads:   1,         // one per request, since requests are concurrent
		MaxMemory: 256 << 20, // per request
		Copy:      small(flag.Arg(0)),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *addr, Handler: newService(model), ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	model.Close() // waits for running calls
}

// small reports whether a plan is read into memory: truncating a file that is mapped would end the service. The copy
// takes milliseconds. Larger plans are mapped, so that processes share their memory; replace them by renaming.
func small(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() <= 64<<20
}

// service answers with one model.
type service struct {
	model    *runtime.Model
	sessions sync.Pool // a session holds working memory, and serves one goroutine at a time
}

// newService serves a model with the input "input" float[B,L,features].
//
//	POST /run     a JSON list of steps, each a list of features → the output
//	POST /stream  JSON lists of steps, one after the other → the output of each, as it is computed
func newService(model *runtime.Model) http.Handler {
	s := &service{model: model}
	s.sessions.New = func() any { return model.NewSession() }
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", s.run)
	mux.HandleFunc("POST /stream", s.stream)
	return mux
}

// run computes the output of a whole sequence.
func (s *service) run(w http.ResponseWriter, r *http.Request) {
	var steps [][]float32
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&steps); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in, err := inputs(steps)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	session := s.sessions.Get().(*runtime.Session)
	defer s.sessions.Put(session)
	out, err := session.Run(r.Context(), in)
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
	chunks, answers := json.NewDecoder(r.Body), json.NewEncoder(w)
	for chunks.More() {
		var steps [][]float32
		out := map[string]tensor.Datum{}
		err := chunks.Decode(&steps)
		if err == nil {
			var in map[string]tensor.Datum
			if in, err = inputs(steps); err == nil {
				err = stream.Step(r.Context(), in, out)
			}
		}
		if err != nil { // the error does not change the stream, but this service ends the connection
			answers.Encode(map[string]string{"error": err.Error()})
			return
		}
		answers.Encode(answer(out))
		control.Flush()
	}
}

// inputs makes a batch of one sequence.
func inputs(steps [][]float32) (map[string]tensor.Datum, error) {
	var flat []float32
	features := 0
	for i, step := range steps {
		if i == 0 {
			features = len(step)
		}
		if len(step) != features {
			return nil, fmt.Errorf("step %d: expected %d features, found %d", i, features, len(step))
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
	switch {
	case errors.Is(err, runtime.ErrInput):
		return http.StatusBadRequest
	case errors.Is(err, runtime.ErrMemory):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, runtime.ErrStream):
		return http.StatusNotImplemented
	case errors.Is(err, runtime.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
