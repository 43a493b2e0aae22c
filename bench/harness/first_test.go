package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

// TestFirst measures the first answer of a file in a process of its own, as the suite does.
func TestFirst(t *testing.T) {
	if _, err := resident("VmHWM"); err != nil {
		t.Skip("the system does not say what is resident: ", err)
	}
	e := &env{work: t.TempDir()}
	p, err := newModel(e, "smnist")
	if err != nil {
		t.Fatal(err)
	}
	file, err := p.onnx()
	if err != nil {
		t.Fatal(err)
	}
	_, x, err := p.input(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	m := &importedModel{file: file, words: []string{p.inputName() + "=" + x}}
	took, peak, err := firstAnswer(context.Background(), m)
	if err != nil || took < time.Microsecond || took > time.Minute || peak < 1<<18 || peak > 1<<30 {
		t.Errorf("%v, %d bytes, %v", took, peak, err)
	}
	m.words = []string{p.inputName() + "=nothing.npy"}
	if _, _, err := firstAnswer(context.Background(), m); err == nil || !strings.Contains(err.Error(), "nothing.npy") {
		t.Errorf("an input that is not there: %v", err)
	}
	if _, _, err := parseFirst("a peer", "12 -1"); err == nil || !strings.Contains(err.Error(), "a peer") {
		t.Errorf("a negative number: %v", err)
	}
	if _, _, err := (*peer)(nil).first("x"); err != errAbsent {
		t.Errorf("no peer: %v", err)
	}
}

// TestFirstOfPeer asks a script with the protocol of the peers in Python.
func TestFirstOfPeer(t *testing.T) {
	python, err := findPython(context.Background(), &env{models: t.TempDir()}, "os")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "script.py")
	text := "from protocol import serve\nimport time\ndef load(kind, n):\n    return lambda: (time.sleep(0.01), " +
		"bytearray(int(n)))\nserve('a script', load, None)\n"
	if err := os.WriteFile(script, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	peers, err := filepath.Abs("../peers")
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPeer(context.Background(), "a script", pythonEnviron(peers), python, script)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for range 2 { // each in a copy of its own
		took, peak, err := p.first("start", "20000000")
		if err != nil || took < 10*time.Millisecond || peak < 15e6 || peak > 60e6 {
			t.Errorf("%v, %d bytes, %v", took, peak, err)
		}
	}
	if err := arrays.Write(filepath.Join(dir, "x.npy"), tensor.New(tensor.Float32, 1)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := firstMain(context.Background(), &b, []string{"absent.onnx"}); err == nil || b.Len() > 0 {
		t.Errorf("a file that is not there: %v, %q", err, b.String())
	}
}
