package main

import (
	"context"
	"testing"

	"github.com/essmc/essmc/runtime"
)

// TestFamilies makes a model of every family, runs it, and steps it where it streams.
func TestFamilies(t *testing.T) {
	all, err := registered()
	if err != nil {
		t.Fatal(err)
	}
	e := &env{work: t.TempDir()}
	for _, f := range all {
		m, err := e.newFamilyModel(f.name, f.config(familySize{32, 24}))
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		in, _, err := m.input(2, 24)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		o, err := newOurs(context.Background(), m.graph, in, runtime.Options{Threads: 1, Outputs: answers(m.graph)})
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if m.config.Common().Streams {
			if _, bytes, err := m.streaming(context.Background(), o); err != nil || bytes == 0 {
				t.Errorf("%s: a state of %d bytes: %v", f.name, bytes, err)
			}
		}
		o.close()
	}
}
