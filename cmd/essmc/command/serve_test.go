//go:build unix

package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The server prints what it serves and where, answers, reads its file again on SIGHUP, and ends on SIGTERM.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	text := `<ir_version: 10, opset_import: ["" : 20]> g (float[B,2] x) => (float[B,2] y) { y = Relu (x) }`
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(repo, "m", "1", "model.txt"), text)
	put(filepath.Join(repo, "broken.onnx"), "x")
	config, access := filepath.Join(dir, "serve.yaml"), filepath.Join(dir, "access.log")
	put(config, "http: 127.0.0.1:1\nmodel: {m: {batch: {symbol: B}}}\n")
	r, w := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int)
	go func() {
		code <- Main([]string{"serve", "--models", repo, "--config", config, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin",
			"127.0.0.1:0", "--access-log", access}, nil, w, &stderr)
		w.Close()
	}()
	url, printed := "", ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		printed += lines.Text() + "\n"
		if rest, ok := strings.CutPrefix(lines.Text(), "http"); ok {
			url = strings.TrimSpace(rest)
		}
		if strings.HasPrefix(lines.Text(), "states are sealed") {
			break
		}
	}
	for _, want := range []string{"m       1        text         no         joined", "broken  1        unavailable", "grpc   127.0.0.1:", "/metrics"} {
		if !strings.Contains(printed, want) {
			t.Errorf("expected %q in:\n%s", want, printed)
		}
	}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	status, body := ask("POST", "/models/m/infer", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[-1,2]}]}`)
	if status != 200 || !strings.Contains(body, `"data":[0,2]`) {
		t.Error(status, body)
	}
	put(filepath.Join(repo, "second.txt"), text)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for status = 0; status != 200; {
		status, _ = ask("GET", "/models/second/ready", "")
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	if c := <-code; c != 0 {
		t.Errorf("exit status %d, %s", c, stderr.String())
	}
	log, err := os.ReadFile(access)
	if err != nil || !json.Valid(bytes.SplitN(log, []byte("\n"), 2)[0]) {
		t.Errorf("access log: %s, %v", log, err)
	}
}

func TestServeMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "expected MODEL or --models DIR"},
		{[]string{"missing.essm"}, "missing.essm: no such file"},
		{[]string{dir, "other=" + dir, "other=" + dir}, `the name "other"`},
		{[]string{dir, "--config", "missing.yaml"}, "missing.yaml: no such file"},
		{[]string{"--models", "missing"}, "missing: no such file"},
	} {
		var stderr bytes.Buffer
		if code := Main(append([]string{"serve"}, c.args...), nil, io.Discard, &stderr); code == 0 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: expected %q, found %d %s", c.args, c.want, code, stderr.String())
		}
	}
}
