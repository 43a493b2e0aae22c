package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// serve starts the service with a small causal model, or a bidirectional one.
func serve(t *testing.T, bidirectional bool) *httptest.Server {
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
	path := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(path, g); err != nil {
		t.Fatal(err)
	}
	m, err := runtime.Load(path, runtime.Options{Backend: cpu.New(), MaxMemory: 1 << 17})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newService(m))
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
		"[" + strings.Repeat("[1,2],", 1<<16) + "[1,2]]": http.StatusRequestEntityTooLarge,
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

// The page shows this program, to the letter.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "embedding.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(package main\n.*?|// Command .*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 1 || !bytes.Equal(blocks[0][1], source) {
		t.Errorf("docs/embedding.md does not hold docs/service/main.go as it is")
	}
}
