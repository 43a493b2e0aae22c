package main

import (
	"context"
	"testing"
)

func TestStreams(t *testing.T) {
	e := &env{work: t.TempDir(), quick: true, threads: 2, peers: &peers{}}
	s, allocs, err := e.streams(context.Background(), "smnist")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range s.names {
		if s.errs[i] != nil || len(s.times[i]) == 0 {
			t.Errorf("%s: %v, %v", name, s.times[i], s.errs[i])
		}
	}
	if len(s.names) != 3+len(togetherCounts) || allocs.alone != 0 || allocs.together != 0 {
		t.Errorf("%q; allocations: %+v", s.names, allocs)
	}
}
