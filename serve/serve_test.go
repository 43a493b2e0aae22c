package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
)

// directory writes a small model of two features and three outputs.
func directory(t *testing.T, dir string, seed uint64, bidirectional bool, mode string) string {
	t.Helper()
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Norm = 8, 2, "batch"
	c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 2, 8, bidirectional
	c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: mode, DOutput: 3}
	w, err := essm.Init(c, essm.InitOptions{}, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.WriteDir(dir, c, w); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write writes a file, in folders that it makes.
func write(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// graph is the text of a graph.
func graph(signature, body string) string {
	return `<ir_version: 10, opset_import: ["" : 20]> g ` + signature + " { " + body + " }"
}

// identity writes a model whose output y is its input x.
func identity(t *testing.T, elem string, path ...string) string {
	t.Helper()
	return write(t, graph(fmt.Sprintf("(%[1]s[B,N] x) => (%[1]s[B,N] y)", elem), "y = Identity (x)"), path...)
}

// start makes a server for the tests, and closes it.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// web serves the protocol over HTTP.
func web(t *testing.T, s *Server) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h
}

// ask sends a request, and returns the status and the body.
func ask(t *testing.T, method, url, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// same compares JSON, without its spaces.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	var a, b bytes.Buffer
	if json.Compact(&a, []byte(got)) != nil || json.Compact(&b, []byte(want)) != nil || a.String() != b.String() {
		t.Errorf("%s:\nexpected %s\nfound    %s", what, want, got)
	}
}

func noise(seed uint64, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	x := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = r.Float32()*2 - 1
	}
	return x
}

// truth runs a model without a server.
func truth(t *testing.T, path string) *runtime.Model {
	t.Helper()
	m, err := open.Load(path, open.Options{Run: runtime.Options{Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// run calls the server as a program does.
func run(t *testing.T, s *Server, model, version string, x *tensor.Tensor) (*tensor.Tensor, string, error) {
	t.Helper()
	name := "input"
	out, err := s.infer(t.Context(), &request{model: model, version: version, in: map[string]tensor.Datum{name: x}}, nil)
	if err != nil {
		return nil, "", err
	}
	return out.outputs[0].data, out.version, nil
}

// A broken model is listed with its reason, and the others serve. All forms of models are found in a folder.
func TestRepository(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "plain"), 1, false, "pool")
	directory(t, filepath.Join(dir, "versions", "2"), 2, false, "pool")
	directory(t, filepath.Join(dir, "versions", "10"), 3, false, "pool")
	identity(t, "float", dir, "file.txt")
	identity(t, "float", dir, "only", "1", "some.onnx")
	write(t, "not a model", dir, "broken.onnx")
	write(t, "{", dir, "empty", "1", "readme")
	write(t, graph("(seq(float[N]) x) => (seq(float[N]) y)", "y = Identity (x)"), dir, "list", "1", "model.txt")
	write(t, graph("(complex64[B,N] x) => (complex64[B,N] y)", "y = Identity (x)"), dir, "complex.txt")
	write(t, "", dir, ".hidden")
	if err := os.Symlink("nowhere", filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Dir: dir, Model: map[string]ModelOptions{"versions": {Versions: -1}}})
	found := map[string]Status{}
	for _, m := range s.Models() {
		found[m.Name+"/"+m.Version] = m
	}
	for name, reason := range map[string]string{"plain/1": "", "versions/2": "", "versions/10": "", "file/1": "", "only/1": "",
		"broken/1": "broken.onnx", "empty/1": "found 0 models", "list/1": `input "x": the protocol has no encoding`,
		"complex/1": "no datatype for complex64", "gone/1": "no such file"} {
		if m, ok := found[name]; !ok || (reason == "") != (m.Reason == "") || !strings.Contains(m.Reason, reason) {
			t.Errorf("%s: expected the reason %q, found %+v", name, reason, m)
		}
	}
	if len(found) != 10 {
		t.Errorf("found %v", found)
	}
	x := noise(1, 1, 5, 2)
	for version, path := range map[string]string{"": "10", "10": "10", "2": "2"} {
		want, err := truth(t, filepath.Join(dir, "versions", path)).Run(t.Context(), map[string]tensor.Datum{"input": x})
		if err != nil {
			t.Fatal(err)
		}
		got, number, err := run(t, s, "versions", version, x)
		if err != nil || number != path || !tensor.Equal(got, want["output"].(*tensor.Tensor)) {
			t.Errorf("version %q: found version %s, %v, %v", version, number, got, err)
		}
	}
	for _, c := range []struct{ model, version, want string }{{"versons", "", `did you mean "versions"?`},
		{"versions", "3", "served: 2, 10"}, {"broken", "", "unavailable"}, {"broken", "1", "broken.onnx"}} {
		if _, _, err := run(t, s, c.model, c.version, x); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected %q, found %v", c.model, c.want, err)
		}
	}
}

// Reload takes new files over, without a failed request. A sequence goes on with its version.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	path := directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	s := start(t, Options{Dir: dir})
	x := noise(1, 1, 5, 2)
	before, _, err := run(t, s, "m", "", x)
	if err != nil {
		t.Fatal(err)
	}
	step := func(start bool) *tensor.Tensor {
		t.Helper()
		r := &request{model: "m", in: map[string]tensor.Datum{"input": x}}
		r.params.sequence, r.params.start = "a", start
		out, err := s.infer(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.outputs[0].data
	}
	step(true)
	stop, failed := make(chan bool), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if _, err := s.infer(context.Background(), &request{model: "m", in: map[string]tensor.Datum{"input": x}}, nil); err != nil {
				failed <- err
				return
			}
		}
	}()
	old := s.repo.slots("m")["1"].v
	for seed := range uint64(5) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		directory(t, path, 2+seed, false, "pool")
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Error("a request failed during reloads:", err)
	}
	after, _, err := run(t, s, "m", "", x)
	if err != nil || tensor.Equal(before, after) {
		t.Error("the weights are those before:", err)
	}
	m := truth(t, directory(t, filepath.Join(t.TempDir(), "m"), 1, false, "pool"))
	whole := tensor.New(tensor.Float32, 1, 10, 2)
	copy(tensor.Data[float32](whole), tensor.Data[float32](x))
	copy(tensor.Data[float32](whole)[10:], tensor.Data[float32](x))
	want, err := m.Run(t.Context(), map[string]tensor.Datum{"input": whole})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a sequence across reloads", step(false), want["output"].(*tensor.Tensor), 1e-5)
	if s.repo.slots("m")["1"].v == old {
		t.Error("the version was not replaced")
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	same := s.repo.slots("m")["1"].v
	if err := s.Reload(t.Context()); err != nil || s.repo.slots("m")["1"].v != same {
		t.Error("files that are as they were were loaded again:", err)
	}
	write(t, "{", path, "config.json")
	if err := s.Reload(t.Context()); err == nil {
		t.Error("a broken model was loaded")
	}
	if _, _, err := run(t, s, "m", "", x); err != nil {
		t.Error("the version before a broken one is gone:", err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, s, "m", "", x); err == nil || errorOf(err).fault != notFound {
		t.Error("a model whose files are gone is served:", err)
	}
}

// near compares floats to a tolerance.
func near(t *testing.T, what string, got, want *tensor.Tensor, tol float64) {
	t.Helper()
	a, b := tensor.Data[float32](got), tensor.Data[float32](want)
	if len(a) != len(b) {
		t.Fatalf("%s: expected %v, found %v", what, want, got)
	}
	for i := range a {
		if d := float64(a[i] - b[i]); d > tol || d < -tol || a[i] != a[i] {
			t.Fatalf("%s: element %d: expected %v, found %v", what, i, b[i], a[i])
		}
	}
}

// Weights of the same shapes are replaced without compiling again; other shapes are.
func TestReplaceWeights(t *testing.T) {
	dir := t.TempDir()
	path := directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	s := start(t, Options{Dir: dir, Default: ModelOptions{Parameters: []string{"*"}}})
	v := s.repo.slots("m")["1"].v
	directory(t, path, 2, false, "pool") // writes the weights only
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.repo.slots("m")["1"].v != v {
		t.Error("the model was compiled again")
	}
	x := noise(1, 1, 5, 2)
	got, _, err := run(t, s, "m", "", x)
	if err != nil {
		t.Fatal(err)
	}
	want, err := truth(t, path).Run(t.Context(), map[string]tensor.Datum{"input": x})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "replaced weights", got, want["output"].(*tensor.Tensor), 1e-5)
	directory(t, path, 2, true, "pool")
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.repo.slots("m")["1"].v == v {
		t.Error("a model of another configuration was not compiled")
	}
}

// Clients load and unload models only where that is allowed.
func TestLoadUnload(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	h := web(t, start(t, Options{Dir: dir}))
	if status, body, _ := ask(t, "POST", h.URL+"/v2/repository/models/m/unload", ""); status != 403 || !strings.Contains(body, "repository: true") {
		t.Errorf("found %d %s", status, body)
	}
	s := start(t, Options{Dir: dir, Repository: true})
	h = web(t, s)
	check := func(call string, want int) {
		t.Helper()
		if status, body, _ := ask(t, "POST", h.URL+"/v2/repository/models/"+call, "{}"); status != want {
			t.Errorf("%s: expected %d, found %d %s", call, want, status, body)
		}
	}
	ready := func(want int) {
		t.Helper()
		if status, body, _ := ask(t, "GET", h.URL+"/v2/models/m/ready", ""); status != want {
			t.Errorf("ready: expected %d, found %d %s", want, status, body)
		}
	}
	ready(200)
	check("m/unload", 200)
	ready(503)
	if err := s.Reload(t.Context()); err != nil { // does not load what a client has unloaded
		t.Fatal(err)
	}
	ready(503)
	check("m/load", 200)
	ready(200)
	check("other/load", 404)
	write(t, "bad", dir, "other.txt")
	check("other/load", 400)
	status, body, _ := ask(t, "POST", h.URL+"/v2/repository/index", "")
	if status != 200 || !strings.Contains(body, `"state":"UNAVAILABLE"`) || !strings.Contains(body, `"state":"READY"`) {
		t.Errorf("index: %d %s", status, body)
	}
	if _, body, _ = ask(t, "POST", h.URL+"/v2/repository/index", `{"ready":true}`); strings.Contains(body, "other") {
		t.Errorf("index of ready models: %s", body)
	}
}

// serve.yaml sets every option, and a name that it does not know is an error.
func TestReadOptions(t *testing.T) {
	path := write(t, `
http: 127.0.0.1:1
models: repo
untrusted: true
limits:
  body: 3MiB
  request: 1500ms
streams: {memory: 2GiB, idle: 1m, keys: k, replays: refuse}
default: {threads: 2}
model:
  a:
    instances: 3
    state: {in: out}
    batch: {symbol: N, max: 8, preferred: [4], delay: 2ms, queue: 9, priorities: 3, default_priority: 2}
`, t.TempDir(), "serve.yaml")
	var o Options
	if err := ReadOptions(path, &o); err != nil {
		t.Fatal(err)
	}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(o.HTTP, o.Dir, o.Untrusted, o.Limits.Body, o.Limits.Request, o.Limits.Drain, o.Streams.Memory, o.Streams.Keys,
		o.Streams.Variants, o.of("b").Threads, o.of("a").Batch, o.of("a").State["in"])
	if want := "127.0.0.1:1 repo true 3145728 1.5s 10s 2147483648 k any 2 {N 8 [4] 2ms 9 3 2} out"; got != want+"\n" {
		t.Errorf("expected %s\nfound    %s", want, got)
	}
	for _, bad := range []string{"htp: x", "limits: {body: 3XB}", "limits: {body: -1}", "limits: {request: soon}", "model: {a: {tread: 1}}", "{"} {
		write(t, bad, path)
		if err := ReadOptions(path, &Options{}); err == nil || !strings.Contains(err.Error(), "serve.yaml") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, o := range []Options{{Streams: StreamOptions{Variants: "x"}}, {Streams: StreamOptions{Replays: "x"}},
		{Limits: Limits{Request: -1}}, {Limits: Limits{Body: 1 << 40}}, {Streams: StreamOptions{Keys: "missing"}},
		{Model: map[string]ModelOptions{"m": {}}}, {Dir: "missing"}, {Models: map[string]string{"m": "missing"}}} {
		if _, err := New(t.Context(), o); err == nil {
			t.Errorf("%+v are options", o)
		}
	}
}

// The serve.yaml of docs/serving.md is one.
func TestDocumentedOptions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "serving.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "cat > serve.yaml <<'END'\n")
	text, _, _ = strings.Cut(text, "END\n")
	var o Options
	if err := ReadOptions(write(t, text, t.TempDir(), "serve.yaml"), &o); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := o.defaults(); err != nil || o.Model["vad"].Batch.Preferred[0] != 8 || o.Streams.Keys != "state.keys" {
		t.Errorf("found %+v, %v", o, err)
	}
}
