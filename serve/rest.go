package serve

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/essmc/essmc/serve/internal/inference"
)

// headerLength is the header with the length of the JSON before binary data.
const headerLength = "Inference-Header-Content-Length"

// call is an HTTP request with what is logged of it.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	line accessLine
}

// Handler returns the handler of the protocol over REST.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern, name string, f func(c *call) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.rest(w, r, name, f) })
	}
	model := func(method, end, name string, f func(c *call) error) {
		handle(method+" /v2/models/{model}"+end, name, f)
		handle(method+" /v2/models/{model}/versions/{version}"+end, name, f)
	}
	handle("GET /v2/health/live", "live", func(c *call) error { return c.reply(&pb.ServerLiveResponse{Live: true}) })
	handle("GET /v2/health/ready", "ready", func(c *call) error {
		if !s.Ready() {
			return unavailable.errorf("the server is shutting down")
		}
		return c.reply(&pb.ServerReadyResponse{Ready: true})
	})
	handle("GET /v2", "server_metadata", func(c *call) error { return c.reply(s.serverMetadata()) })
	handle("GET /v2/{$}", "server_metadata", func(c *call) error { return c.reply(s.serverMetadata()) })
	model("GET", "", "model_metadata", func(c *call) error {
		m, err := s.modelMetadata(c.line.Model, c.line.Version)
		return c.replyOr(m, err)
	})
	model("GET", "/ready", "model_ready", func(c *call) error {
		v, err := s.repo.find(c.line.Model, c.line.Version)
		if err != nil {
			return err
		}
		v.done()
		return c.reply(&pb.ModelReadyResponse{Ready: true})
	})
	model("GET", "/config", "model_config", func(c *call) error {
		m, err := s.modelConfig(c.line.Model, c.line.Version)
		return c.replyOr(m, err)
	})
	model("GET", "/stats", "model_statistics", func(c *call) error {
		m, err := s.modelStatistics(c.line.Model, c.line.Version)
		return c.replyOr(m, err)
	})
	handle("GET /v2/models/stats", "model_statistics", func(c *call) error {
		m, err := s.modelStatistics("", "")
		return c.replyOr(m, err)
	})
	model("POST", "/infer", "infer", s.restInfer)
	handle("POST /v2/repository/index", "repository_index", s.restIndex)
	for end, on := range map[string]bool{"load": true, "unload": false} {
		handle("POST /v2/repository/models/{model}/"+end, "repository_"+end, func(c *call) error {
			if err := s.setLoaded(c.r.Context(), c.line.Model, on); err != nil {
				return err
			}
			return c.reply(&pb.RepositoryModelLoadResponse{})
		})
	}
	for _, path := range []string{"/v2/systemsharedmemory/", "/v2/cudasharedmemory/", "/v2/trace/", "/v2/logging"} {
		handle(path, "unsupported", func(c *call) error {
			return unsupported.errorf("essmc does not implement %s", c.r.URL.Path)
		})
	}
	handle("/", "unknown", func(c *call) error {
		return notFound.errorf("%s %.200s is not part of the protocol", c.r.Method, c.r.URL.Path)
	})
	return mux
}

// rest runs a call, and answers with its error.
func (s *Server) rest(w http.ResponseWriter, r *http.Request, name string, f func(c *call) error) {
	start := time.Now()
	c := &call{w: w, r: r, line: accessLine{Protocol: "http", Call: name, Model: r.PathValue("model"),
		Version: r.PathValue("version"), Remote: r.RemoteAddr, Result: "ok", Status: http.StatusOK}}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(start.Add(s.o.Limits.Send)) // not every writer has deadlines
	_ = control.SetWriteDeadline(start.Add(s.o.Limits.Send + s.o.Limits.Request))
	if err := f(c); err != nil {
		e := errorOf(err)
		c.line.Result, c.line.Status = e.fault.name, e.fault.status
		if e.fault == full || e.fault == unavailable {
			w.Header().Set("Retry-After", "1")
		}
		if e.fault == tooLarge { // what is left of the body is not read
			w.Header().Set("Connection", "close")
		}
		c.write(e.fault.status, map[string]string{"error": e.Error()})
	}
	s.log(c.line, start)
}

// reply answers with a message.
func (c *call) reply(m proto.Message) error {
	c.write(http.StatusOK, object(m.ProtoReflect()))
	return nil
}

func (c *call) replyOr(m proto.Message, err error) error {
	if err != nil {
		return err
	}
	return c.reply(m)
}

func (c *call) write(status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, status = []byte(`{"error":"the answer has no form in JSON"}`), http.StatusInternalServerError
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b) // the client may be gone
}

// body reads the body of a request, at most limit bytes, also after it is decompressed.
func (c *call) body(limit Size) ([]byte, error) {
	large := func() error {
		return tooLarge.errorf("the body has more than %d bytes; limits.body in serve.yaml sets the limit", limit)
	}
	if c.r.ContentLength > int64(limit) {
		return nil, large()
	}
	var in io.Reader = http.MaxBytesReader(c.w, c.r.Body, int64(limit))
	size := c.r.ContentLength
	switch encoding := c.r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, readError(err, large)
		}
		in, size = io.LimitReader(z, int64(limit)+1), -1
	default:
		return nil, invalid.errorf("Content-Encoding: expected gzip or none, found %.50q", encoding)
	}
	var b []byte
	var err error
	if size > 0 {
		b, err = readAll(in, make([]byte, 0, min(size, 1<<20)), int(size)) // memory follows what arrives
	} else if b, err = io.ReadAll(in); err == nil && int64(len(b)) > int64(limit) {
		return nil, large()
	}
	if err != nil {
		return nil, readError(err, large)
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // it would end the request
	return b, nil
}

// readAll reads to the end. Memory grows as the bytes come, up to size at first.
func readAll(in io.Reader, b []byte, size int) ([]byte, error) {
	for {
		n, err := in.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			grown := make([]byte, len(b), max(min(2*cap(b), size), len(b))+64)
			copy(grown, b)
			b = grown
		}
	}
}

// readError is the error of reading a body.
func readError(err error, large func() error) error {
	var bytes *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bytes):
		return large()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{&fault{"slow", http.StatusRequestTimeout, late.code}, "the body came too slowly"}
	}
	return invalid.errorf("the body cannot be read: %w", err)
}

// restIndex lists the repository.
func (s *Server) restIndex(c *call) error {
	b, err := c.body(1 << 16)
	if err != nil {
		return err
	}
	var request struct{ Ready bool }
	if len(strings.TrimSpace(string(b))) > 0 {
		if err := json.Unmarshal(b, &request); err != nil {
			return invalid.errorf("request: %w", err)
		}
	}
	c.write(http.StatusOK, object(s.index(request.Ready).ProtoReflect())["models"])
	return nil
}
