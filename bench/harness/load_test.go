package main

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/runtime"
)

func TestLoading(t *testing.T) {
	e := &env{work: t.TempDir(), quick: true, peers: &peers{}}
	l, err := newLoading(e, "smnist")
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.within(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"directory", "session", "plan"} {
		if s.err(name) != nil || len(s.of(name)) == 0 || median(s.of(name)) <= 0 {
			t.Errorf("%s: %v, %v", name, s.of(name), s.err(name))
		}
	}
	l.dir = "nowhere"
	if _, err := opening(context.Background(), "x", nil, true,
		func() (*runtime.Model, error) { return open.Load(l.dir, open.Options{}) }).run(1); err == nil {
		t.Error("a directory that is not there was loaded")
	}
}

func TestWorst(t *testing.T) {
	var w worst
	w.add("a", 0.01)
	w.add("b", 0.03)
	w.add("c", 0.02)
	if v := w.judge("it", 0.05); v.State != met || !strings.Contains(v.Found, "30.0 ms b") {
		t.Errorf("%+v", v)
	}
	if v := w.judge("it", 0.03); v.State != missed {
		t.Errorf("%+v", v)
	}
	w.add("d", math.NaN())
	if v := w.judge("it", 1); v.State != missed || !strings.Contains(v.Found, "d") {
		t.Errorf("%+v", v)
	}
}
