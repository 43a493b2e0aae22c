package serve

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/serve/internal/wire"
)

// restInfer answers a request for inference.
func (s *Server) restInfer(c *call) error {
	if s.overloaded() { // before the body is read
		s.metrics.refused.WithLabelValues(full.name).Inc()
		return full.errorf("too many requests are running")
	}
	b, err := c.body(s.o.Limits.Body)
	if err != nil {
		return err
	}
	r, err := restRequest(b, c.r.Header.Get(headerLength))
	if err != nil {
		return err
	}
	r.model, r.version = c.line.Model, c.line.Version
	c.line.ID = r.id
	out, err := s.infer(c.r.Context(), r, nil)
	if err != nil {
		return err
	}
	c.line.Version = out.version
	return c.respond(out)
}

// overloaded reports whether no request can be admitted now.
func (s *Server) overloaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running >= s.o.Limits.Requests
}

// restRequest reads a request: JSON, then the binary data of its inputs.
func restRequest(b []byte, header string) (*request, error) {
	var data []byte
	if header != "" {
		n, err := strconv.Atoi(header)
		if err != nil || n < 0 || n > len(b) {
			return nil, invalid.errorf("%s: expected a number up to %d, the size of the body, found %.30q", headerLength,
				len(b), header)
		}
		b, data = b[:n], b[n:]
	}
	j, err := wire.ParseRequest(b)
	if err != nil {
		return nil, invalid.errorf("%w", err)
	}
	r := &request{id: j.ID, in: map[string]tensor.Datum{}}
	for name, v := range j.Parameters {
		if err := r.params.set(name, v); err != nil {
			return nil, err
		}
	}
	for _, in := range j.Inputs {
		if _, twice := r.in[in.Name]; twice {
			return nil, invalid.errorf("input %.100q is there twice", in.Name)
		}
		t, rest, err := restInput(in, data)
		if err != nil {
			return nil, invalid.errorf("input %.100q: %w", in.Name, err)
		}
		r.in[in.Name], data = t, rest
	}
	if len(data) > 0 {
		return nil, invalid.errorf("%d bytes of binary data belong to no input", len(data))
	}
	for _, o := range j.Outputs {
		w := wanted{name: o.Name, binary: r.params.binary}
		switch v := o.Parameters["binary_data"].(type) {
		case nil:
		case bool:
			w.binary = v
		default:
			return nil, invalid.errorf("output %.100q: binary_data: expected true or false", o.Name)
		}
		if _, ok := o.Parameters["classification"]; ok {
			return nil, unsupported.errorf("output %.100q: essmc does not implement classification", o.Name)
		}
		r.outputs = append(r.outputs, w)
	}
	return r, nil
}

// restInput makes the tensor of an input, and returns the binary data of the next ones.
func restInput(in wire.Input, data []byte) (*tensor.Tensor, []byte, error) {
	d, err := wire.Type(in.Datatype)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := in.Parameters["shared_memory_region"]; ok {
		return nil, nil, unsupported.errorf("essmc does not implement shared memory")
	}
	size, binary := in.Parameters["binary_data_size"]
	if !binary {
		if in.Data == nil {
			return nil, nil, invalid.errorf("expected data or binary_data_size, found neither")
		}
		t, err := wire.DecodeJSON(d, in.Shape, in.Data)
		return t, data, err
	}
	n, ok := size.(uint64)
	if !ok || n > uint64(len(data)) {
		return nil, nil, invalid.errorf("binary_data_size: expected a number up to %d, the binary data that follow, "+
			"found %.30v", len(data), size)
	}
	if in.Data != nil {
		return nil, nil, invalid.errorf("expected data or binary_data_size, found both")
	}
	t, err := wire.Decode(d, in.Shape, data[:n])
	return t, data[n:], err
}

// respond writes the answer to a request for inference.
func (c *call) respond(out *response) error {
	b := []byte(`{"model_name":`)
	b = appendText(b, out.model)
	b = append(b, `,"model_version":`...)
	b = appendText(b, out.version)
	if out.id != "" {
		b = append(b, `,"id":`...)
		b = appendText(b, out.id)
	}
	if out.ended {
		b = append(b, `,"parameters":{"essmc_draining":true}`...)
	}
	b = append(b, `,"outputs":[`...)
	var data [][]byte
	size := 0
	for i, o := range out.outputs {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := wire.Name(o.data.DType())
		b = append(b, `{"name":`...)
		b = appendText(b, o.name)
		b = append(b, `,"datatype":"`...)
		b = append(b, name...)
		b = append(b, `","shape":[`...)
		for i, n := range o.data.Shape() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, ']')
		var err error
		if o.binary {
			raw, err := wire.Encode(o.data)
			if err != nil {
				return internal.errorf("output %q: %w", o.name, err)
			}
			data, size = append(data, raw), size+len(raw)
			b = append(b, `,"parameters":{"binary_data_size":`...)
			b = strconv.AppendInt(b, int64(len(raw)), 10)
			b = append(b, "}}"...)
			continue
		}
		b = append(b, `,"data":`...)
		if b, err = wire.AppendJSON(b, o.data); err != nil {
			return invalid.errorf("output %q: %w", o.name, err)
		}
		b = append(b, '}')
	}
	b = append(b, "]}"...)
	if len(data) > 0 {
		c.w.Header().Set(headerLength, strconv.Itoa(len(b)))
		c.w.Header().Set("Content-Type", "application/octet-stream")
		c.w.Header().Set("Content-Length", strconv.Itoa(len(b)+size))
		_, _ = c.w.Write(b)
		for _, raw := range data {
			_, _ = c.w.Write(raw)
		}
		return nil
	}
	c.w.Header().Set("Content-Type", "application/json")
	if len(b) >= leastGzip && acceptsGzip(c.r) {
		c.w.Header().Set("Content-Encoding", "gzip")
		z, err := gzip.NewWriterLevel(c.w, gzip.BestSpeed)
		if err != nil {
			return internal.errorf("%w", err)
		}
		_, _ = z.Write(b) // the client may be gone
		_ = z.Close()
		return nil
	}
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = c.w.Write(b)
	return nil
}

// leastGzip is the size of an answer in JSON that is worth compressing. Binary data are not compressed.
const leastGzip = 16 << 10

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" && strings.TrimSpace(q) != "q=0" {
			return true
		}
	}
	return false
}

func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // strings have a form
	return append(b, text...)
}
