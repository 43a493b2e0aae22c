package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// small is a small causal model, or a bidirectional one, loaded from a plan.
func small(t *testing.T, bidirectional bool, o runtime.Options) *runtime.Model {
	t.Helper()
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Norm = 8, 2, "batch"
	c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 2, 8, bidirectional
	c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: "pool", DOutput: 3}
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := passes.Optimize(g); err != nil {
		t.Fatal(err)
	}
	return load(t, g, o)
}

// load loads a graph from a plan.
func load(t *testing.T, g *ir.Graph, o runtime.Options) *runtime.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(path, g); err != nil {
		t.Fatal(err)
	}
	m, err := runtime.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve starts the service with a small model.
func serve(t *testing.T, bidirectional bool) *httptest.Server {
	t.Helper()
	o := runtime.Untrusted(cpu.New())
	o.MaxMemory = 1 << 15
	return start(t, small(t, bidirectional, o), defaults())
}

// start serves a model, and closes it with the test.
func start(t *testing.T, m *runtime.Model, l limits) *httptest.Server {
	t.Helper()
	s, err := newService(m, l)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		m.Close()
	})
	return server
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func numbers(t *testing.T, line string) []float64 {
	t.Helper()
	var v []float64
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return v
}

// Whole sequences and streams, from several clients at once, give the same answer.
func TestService(t *testing.T) {
	server := serve(t, false)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			one, two := fmt.Sprintf("[%d,0.5],[0.25,-1]", i), "[1,1],[0,0.5],[2,-2]"
			code, whole := post(t, server.URL+"/run", "["+one+","+two+"]")
			if code != http.StatusOK {
				t.Errorf("%d: %s", code, whole)
				return
			}
			in, write := io.Pipe()
			r, err := http.NewRequest(http.MethodPost, server.URL+"/stream", in)
			if err != nil {
				t.Error(err)
				return
			}
			go fmt.Fprintf(write, "[%s]\n", one)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			if !lines.Scan() { // the answer so far, before the sequence has ended
				t.Errorf("no answer to the first chunk: %v", lines.Err())
				return
			}
			fmt.Fprintf(write, "[%s]\n", two)
			write.Close()
			if !lines.Scan() {
				t.Errorf("no answer to the second chunk: %v", lines.Err())
				return
			}
			want, got := numbers(t, whole), numbers(t, lines.Text())
			for k := range want {
				if d := want[k] - got[k]; !(-1e-6 <= d && d <= 1e-6) {
					t.Errorf("client %d: expected %v, found %v", i, want, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestServiceErrors(t *testing.T) {
	server := serve(t, false)
	for body, want := range map[string]int{
		"[[1,2],[3]]": http.StatusBadRequest, "[[1]]": http.StatusBadRequest, "[]": http.StatusBadRequest,
		"{": http.StatusBadRequest,
		"[" + strings.Repeat("[1,2],", 1<<14) + "[1,2]]": http.StatusRequestEntityTooLarge,
	} {
		if code, msg := post(t, server.URL+"/run", body); code != want {
			t.Errorf("%.20s: expected %d, found %d: %s", body, want, code, msg)
		}
	}
	if _, msg := post(t, server.URL+"/stream", "[[1,2]]\n[[1]]\n[[1,2]]"); strings.Count(msg, "\n") != 2 ||
		!strings.Contains(msg, `{"error":`) {
		t.Errorf("a wrong chunk: %s", msg)
	}
	if code, msg := post(t, serve(t, true).URL+"/stream", "[[1,2]]"); code != http.StatusNotImplemented ||
		!strings.Contains(msg, "layers.0") {
		t.Errorf("a model that looks ahead: %d %s", code, msg)
	}
}

// greedy are models that need far more memory or time than their size tells.
var greedy = map[string]string{
	"output": `<int64[3] r = {1, 1048576, 65536}> { output = Tile (input, r) }`,
	"range": `<float k = {1e8}, int64 zero = {0}, int64 one = {1}> {
		a = ReduceMax <keepdims: int = 0> (input)
		b = Mul (a, k)
		n = Cast <to: int = 7> (b)
		c = Range (zero, n, one)
		output = Cast <to: int = 1> (c)
	}`,
	"carried value": `<int64 m = {60}> {
		output = Loop (m, "", input) <body: graph = step (int64 t, bool c, float[B,P,2] p) => (bool d, float[B,Q,2] q) {
			d = Identity (c)
			q = Concat <axis: int = 1> (p, p)
		}>
	}`,
	"endless sequence": `<int64 m = {4611686018427387904}> {
		e = SequenceEmpty ()
		s = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[]) u) => (bool d, seq(float[]) q) {
			d = Identity (c)
			v = Neg (input)
			q = SequenceInsert (u, v)
		}>
		output = ConcatFromSequence <axis: int = 0> (s)
	}`,
	"endless": `<int64 m = {4611686018427387904}> {
		output = Loop (m, "", input) <body: graph = step (int64 t, bool c, float[B,L,2] p) => (bool d, float[B,L,2] q) {
			d = Identity (c)
			q = Neg (p)
		}>
	}`,
}

// A service with models of strangers answers an error where a model asks for too much, and goes on to answer. Other
// clients are not affected.
func TestHostileModels(t *testing.T) {
	l := defaults()
	l.work = time.Minute
	good := start(t, small(t, false, runtime.Untrusted(cpu.New())), l)
	code, want := post(t, good.URL+"/run", "[[1,2],[3,4]]")
	if code != http.StatusOK {
		t.Fatal(want)
	}
	for name, body := range greedy {
		t.Run(name, func(t *testing.T) {
			g, err := irtext.Parse([]byte("g (float[B,L,2] input) => (output) "+body), name, ops.Default, irtext.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l := l
			if strings.Contains(name, "endless") {
				l.work = time.Second
			}
			bad := start(t, load(t, g, runtime.Untrusted(cpu.New())), l)
			for range 2 {
				code, msg := post(t, bad.URL+"/run", "[[1,2],[3,4]]")
				memory := code == http.StatusRequestEntityTooLarge
				late := code == http.StatusServiceUnavailable && strings.Contains(name, "endless")
				if !memory && !late {
					t.Errorf("found %d: %s", code, msg)
				}
			}
			if code, answer := post(t, good.URL+"/run", "[[1,2],[3,4]]"); code != http.StatusOK || answer != want {
				t.Errorf("then: %d %s, expected %s", code, answer, want)
			}
		})
	}
	g, err := irtext.Parse([]byte("g (int64[B] input) => (output) { output = Neg (input) }"), "", ops.Default,
		irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, g, runtime.Untrusted(cpu.New()))
	defer m.Close()
	if _, err := newService(m, l); err == nil {
		t.Error("a model without the service's input is served")
	}
}

// Clients that send too much, too slowly, or too many requests are refused, and others are answered.
func TestLimits(t *testing.T) {
	l := defaults()
	l.requests, l.streams, l.calls, l.chunk, l.idle = 2, 2, 1, 1000, time.Second
	server := start(t, small(t, false, runtime.Untrusted(cpu.New())), l)
	for _, path := range []string{"/run", "/stream"} {
		var slow [2]*io.PipeWriter
		var wg sync.WaitGroup
		codes := make([]int, len(slow))
		for i := range slow {
			in, out := io.Pipe()
			slow[i] = out
			wg.Go(func() {
				r, err := http.Post(server.URL+path, "application/json", in)
				if err == nil {
					codes[i] = r.StatusCode
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
				out.Close()
			})
			fmt.Fprint(out, "[[1,2],")
		}
		for tries := 0; ; tries++ {
			code, _ := post(t, server.URL+path, "[[1,2]]")
			if code == http.StatusServiceUnavailable {
				break
			}
			if tries == 500 {
				t.Fatalf("%s: a third client is served", path)
			}
			time.Sleep(time.Millisecond)
		}
		wg.Wait() // the time for their bodies is over
		if path == "/run" && (codes[0] != http.StatusRequestTimeout || codes[1] != http.StatusRequestTimeout) {
			t.Errorf("%s: slow clients got %v", path, codes)
		}
		for tries := 0; ; tries++ {
			code, msg := post(t, server.URL+path, "[[1,2]]")
			if code == http.StatusOK {
				break
			}
			if tries == 1000 {
				t.Fatalf("%s: then: %d %s", path, code, msg)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if _, msg := post(t, server.URL+"/stream", "[[1,2]] ["+strings.Repeat("[1,2],", 5000)+"[1,2]]"); strings.Count(msg,
		"\n") != 2 || !strings.Contains(msg, "too large") {
		t.Errorf("a large chunk: %s", msg)
	}
	if _, msg := post(t, server.URL+"/stream", strings.Repeat("[[1,2]]\n", 5000)); strings.Count(msg, "\n") != 5000 {
		t.Errorf("many chunks: %d answers", strings.Count(msg, "\n"))
	}
}
