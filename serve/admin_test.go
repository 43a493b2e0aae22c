package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func httptestAdmin(t *testing.T, s *Server) string {
	t.Helper()
	h := httptest.NewServer(s.Admin())
	t.Cleanup(h.Close)
	return h.URL
}

// The admin port has metrics, profiles and reloads; the access log has a line for each request, without its contents.
func TestAdmin(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	var log bytes.Buffer
	s := start(t, Options{Dir: dir, Access: &log})
	h, admin := web(t, s), httptestAdmin(t, s)
	for _, n := range []int{2, 3} {
		ask(t, "POST", h.URL+"/v2/models/m/infer", fmt.Sprintf(`{"id":"one","inputs":[{"name":"input","shape":[1,1,%d],"datatype":"FP32","data":[%s]}]}`,
			n, strings.Repeat("123456,", n-1)+"123456"))
	}
	_, body, _ := ask(t, "GET", admin+"/metrics", "")
	for _, want := range []string{`nv_inference_request_success{model="m",version="1"} 1`, `nv_inference_request_failure{model="m",version="1"} 1`,
		`nv_inference_count{model="m",version="1"} 1`, `nv_inference_pending_request_count{model="m",version="1"} 0`,
		`essmc_request_seconds_count{call="infer",protocol="http",result="invalid"} 1`, `essmc_loads_total{model="m",result="loaded"} 1`,
		"essmc_sequences 0", "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("expected %s in the metrics", want)
		}
	}
	if status, body, _ := ask(t, "GET", admin+"/debug/pprof/goroutine?debug=1", ""); status != 200 || !strings.Contains(body, "goroutine profile") {
		t.Error("profile:", status)
	}
	if status, body, _ := ask(t, "POST", admin+"/reload", ""); status != 200 {
		t.Error("reload:", status, body)
	}
	write(t, "x", dir, "bad.onnx")
	if status, body, _ := ask(t, "POST", admin+"/reload", ""); status != 500 || !strings.Contains(body, "bad.onnx") {
		t.Error("reload of a bad model:", status, body)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var first struct {
		Call, Model, Version, ID, Result, Protocol, Time string
		Status                                           int
		MS                                               float64
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 || first.Call != "infer" || first.Model != "m" ||
		first.Version != "1" || first.ID != "one" || first.Result != "ok" || first.Status != 200 || first.MS <= 0 || first.Time == "" {
		t.Errorf("%v: %s", err, log.String())
	}
	if strings.Contains(log.String(), "123456") {
		t.Error("the access log has contents of requests")
	}
}

// A server that is told to end while clients send answers every request that it has accepted, and refuses the others.
func TestDrain(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	s, err := New(t.Context(), Options{Dir: dir, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Limits: Limits{Drain: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for s.Address("admin") == nil {
		time.Sleep(time.Millisecond)
	}
	url := "http://" + s.Address("http").String() + "/v2/models/m/infer"
	var answered, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				body := `{"inputs":[{"name":"input","shape":[1,3,2],"datatype":"FP32","data":[1,2,3,4,5,6]}]}`
				resp, err := client.Post(url, "application/json", strings.NewReader(body))
				if err != nil { // the port is closed
					if !strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
						t.Error(err)
					}
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch {
				case err != nil:
					t.Error("an answer was cut:", err)
				case resp.StatusCode == 200 && strings.Contains(string(b), "output"):
					answered.Add(1)
				case resp.StatusCode == 503 && resp.Header.Get("Retry-After") != "":
					refused.Add(1)
				default:
					t.Errorf("%d %s", resp.StatusCode, b)
				}
			}
		})
	}
	for answered.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wg.Wait()
	if st := s.repo.slots("m")["1"].v; st.stats.success.count < uint64(answered.Load()) {
		t.Errorf("%d answers, %d computed", answered.Load(), st.stats.success.count)
	}
	if s.Ready() {
		t.Error("the server is ready after its end")
	}
}
