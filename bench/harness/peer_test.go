package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/shared"
)

// peerVariable turns the test binary into a peer of the given kind.
const peerVariable = "BENCH_TEST_PEER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		for word, f := range map[string]func(context.Context, io.Writer, []string) error{growWord: growMain,
			firstWord: firstMain} {
			if os.Args[1] != word {
				continue
			}
			if err := f(context.Background(), os.Stdout, os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	kind := os.Getenv(peerVariable)
	if kind == "" {
		os.Exit(m.Run())
	}
	if kind == "absent" {
		fmt.Fprintln(os.Stderr, "why it cannot start")
		fmt.Println("error\tthe library is not there")
		return
	}
	fmt.Println("ready\ta peer\t1.0")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch words := strings.Split(in.Text(), "\t"); words[0] {
		case "load":
			fmt.Println("ok\t7")
		case "run":
			if kind == "dies" {
				return
			}
			cpu := "0"
			if kind == "strays" {
				cpu = "180000000"
			}
			fmt.Printf("ok\t%s000\t%s\n", words[2], cpu)
		case "drop":
			fmt.Println("ok")
		default:
			fmt.Println("error\tnot now")
		}
	}
}

func start(t *testing.T, kind string) (*peer, error) {
	t.Helper()
	p, err := startPeer(context.Background(), kind, []string{peerVariable + "=" + kind}, os.Args[0])
	t.Cleanup(p.close)
	return p, err
}

func TestPeer(t *testing.T) {
	p, err := start(t, "answers")
	if err != nil {
		t.Fatal(err)
	}
	if p.version != "a peer 1.0" {
		t.Errorf("it describes itself as %q", p.version)
	}
	j, err := p.load(1, "model", "some file")
	if err != nil || j.id != "7" {
		t.Fatalf("load: %+v, %v", j, err)
	}
	if d, err := j.run(3); err != nil || d != 3*time.Microsecond {
		t.Errorf("run: %v, %v", d, err)
	}
	if err := j.save("file"); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("save: %v", err)
	}
	if _, err := p.load(1, "two\twords"); err == nil {
		t.Error("a tab within a word was sent")
	}
	j.drop()
	p.close()
	if _, err := j.run(1); err == nil {
		t.Error("a peer that was closed answers")
	}
}

func TestPeerThatFails(t *testing.T) {
	if _, err := start(t, "absent"); err == nil || !strings.Contains(err.Error(), "the library is not there") {
		t.Errorf("absent: %v", err)
	}
	p, err := start(t, "dies")
	if err != nil {
		t.Fatal(err)
	}
	j, err := p.load(1, "x")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := j.run(1); err == nil || !strings.Contains(err.Error(), "dies: ended") {
			t.Errorf("dies: %v", err)
		}
	}
	if _, err := (*peer)(nil).load(1, "x"); err != errAbsent {
		t.Errorf("a peer that is absent: %v", err)
	}
}

// TestStrays checks that peers with more threads than requested are reported.
func TestStrays(t *testing.T) {
	p, err := start(t, "strays")
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 2} {
		j, err := p.load(threads, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.run(100000); err != nil { // 100 ms
			t.Fatal(err)
		}
	}
	got := p.strays()
	if len(got) != 1 || !strings.Contains(got[0], "1 thread ") || !strings.Contains(got[0], "1.80") {
		t.Errorf("%q", got)
	}
	if again := p.strays(); len(again) > 0 {
		t.Errorf("told again: %q", again)
	}
}

// TestProtocol checks the common part of the peers in Python, if there is an interpreter.
func TestProtocol(t *testing.T) {
	const python = "python3"
	if lack := shared.Lacks(python); lack != "" {
		t.Skip(lack)
	}
	script := filepath.Join(t.TempDir(), "peer.py")
	const source = `
from protocol import serve

def load(kind, *words):
    if kind == "fills":
        return lambda: bytearray(int(words[0]))
    if kind == "fails":
        raise ValueError("this kind\nfails")
    return lambda: sum(range(20000))

serve("a script", load, lambda out, file: open(file, "w").write(str(out)))
`
	if err := os.WriteFile(script, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	env := pythonEnviron(filepath.Join("..", "peers"))
	p, err := startPeer(t.Context(), "script", env, python, script)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	j, err := p.load(1, "works")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := j.run(100); err != nil || d <= 0 || j.cpu <= 0 || j.cpu > 2*j.wall {
		t.Errorf("%v, %v, %v of processor time", d, err, j.cpu)
	}
	file := filepath.Join(t.TempDir(), "out")
	if err := j.save(file); err != nil {
		t.Error(err)
	} else if b, err := os.ReadFile(file); err != nil || string(b) != "199990000" {
		t.Errorf("saved %q, %v", b, err)
	}
	if _, err := p.load(1, "fails"); err == nil || !strings.Contains(err.Error(), "ValueError: this kind fails") {
		t.Errorf("fails: %v", err)
	}
	j.drop()
	if _, err := j.run(1); err == nil {
		t.Error("a job that was dropped runs")
	}
	if _, err := resident("VmHWM"); err == nil {
		if g, err := p.grow("fills", strconv.Itoa(64<<20)); err != nil || g.run < 60<<20 || g.run > 100<<20 ||
			g.loaded > 16<<20 {
			t.Errorf("grown by %+v, %v", g, err)
		}
	}
	if _, err := p.grow("fails"); err == nil || !strings.Contains(err.Error(), "this kind fails") {
		t.Errorf("fails in a copy: %v", err)
	}
	if _, err := (*peer)(nil).grow("fills", "1"); err != errAbsent {
		t.Errorf("a peer that is absent: %v", err)
	}
	once := exec.Command(python, script, "once", "works")
	once.Env = append(os.Environ(), env...)
	if out, err := once.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("once: %q, %v", out, err)
	}
}

// TestNative checks the peer in C, if there is a compiler.
func TestNative(t *testing.T) {
	e := &env{work: t.TempDir()}
	program, err := buildNative(t.Context(), e, filepath.Join("..", "peers", "native.c"))
	if err != nil {
		t.Skip("no C compiler: ", err)
	}
	for what, jobs := range map[string]struct{ good, bad []string }{
		"blas": {[]string{"product", "4:16:8:8", "1:16:32:32"}, []string{"product", "0:1:1:1"}},
		"fftw": {[]string{"dft", "real", "60", "2"}, []string{"dft", "real", "0", "2"}},
	} {
		p, err := startPeer(t.Context(), what, nil, program, what)
		if err != nil {
			t.Logf("%s: skipped: %v", what, err)
			continue
		}
		defer p.close()
		j, err := p.load(1, jobs.good...)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := j.run(2); err != nil || d <= 0 {
			t.Errorf("%s: %v, %v", what, d, err)
		}
		if what == "blas" {
			apart, err := p.load(1, append([]string{"apart"}, jobs.good[1:]...)...)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := apart.run(2); err != nil || d <= 0 {
				t.Errorf("apart: %v, %v", d, err)
			}
		}
		if _, err := p.load(1, jobs.bad...); err == nil {
			t.Errorf("%s takes %q", what, jobs.bad)
		}
		j.drop()
		if _, err := j.run(1); err == nil {
			t.Errorf("%s: a job that was dropped runs", what)
		}
	}
}
