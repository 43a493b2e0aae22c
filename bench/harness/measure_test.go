package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// clock returns a contender that takes a given time and records its turns.
func clock(turns *[]string, name, group string, each time.Duration) contender {
	return contender{name: name, group: group, run: func(reps int) (time.Duration, error) {
		*turns = append(*turns, name)
		return each * time.Duration(reps), nil
	}}
}

func TestMeasureTakesTurns(t *testing.T) {
	var turns []string
	f := effort{rounds: 3, least: 3, turn: time.Millisecond, limit: time.Hour}
	s, err := measure(context.Background(), f, []contender{
		clock(&turns, "a", "", 2*time.Millisecond), clock(&turns, "b", "", 4*time.Millisecond),
		clock(&turns, "c", "", 6*time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "a", "b", "b", "c", "c", "a", "b", "c", "b", "c", "a", "c", "a", "b"}
	if !slices.Equal(turns, want) {
		t.Errorf("turns %v, expected %v", turns, want)
	}
	if r := s.ratio("b", "a"); r.mid != 2 || r.n != 3 {
		t.Errorf("b takes %v as long as a", r)
	}
	if s.fastest("c", "b", "nobody") != "b" || s.fastest("nobody") != "" {
		t.Errorf("the fastest is %q", s.fastest("c", "b"))
	}
}

// TestMeasureRepeats checks that short work is repeated within a turn, after one run without timing.
func TestMeasureRepeats(t *testing.T) {
	var reps []int
	c := contender{name: "a", run: func(n int) (time.Duration, error) {
		reps = append(reps, n)
		return time.Duration(n) * time.Millisecond, nil
	}}
	s, err := measure(context.Background(), effort{rounds: 2, turn: 10 * time.Millisecond, limit: time.Hour},
		[]contender{c})
	if err != nil || !slices.Equal(reps, []int{1, 1, 1, 10, 1, 10}) {
		t.Errorf("runs of %v, %v", reps, err)
	}
	if x := s.of("a"); len(x) != 2 || math.Abs(x[0]-1e-3) > 1e-12 {
		t.Errorf("seconds per run: %v", x)
	}
}

func TestMeasureRetiresAndFails(t *testing.T) {
	var turns []string
	broken := contender{name: "broken", run: func(int) (time.Duration, error) { return 0, errors.New("no") }}
	s, err := measure(context.Background(), effort{rounds: 4, least: 4, limit: time.Hour}, []contender{
		clock(&turns, "slow", "form", 300*time.Millisecond), clock(&turns, "slower", "form", 150*time.Millisecond),
		clock(&turns, "fast", "form", 100*time.Millisecond),
		clock(&turns, "alone", "", time.Second), broken})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"slow": 1, "slower": 2, "fast": 4, "alone": 4} {
		if got := len(s.of(name)); got != want {
			t.Errorf("%s: %d rounds, expected %d", name, got, want)
		}
	}
	if s.of("broken") != nil || s.err("broken") == nil || s.err("fast") != nil {
		t.Errorf("broken: %v, %v", s.of("broken"), s.err("broken"))
	}
	if r := s.ratio("fast", "broken"); r.n != 0 || r.String() != "–" {
		t.Errorf("a ratio to nothing is %v", r)
	}
}

// TestMeasureDisturbed checks that a disturbance in one round of the fastest does not retire it, and that one lucky
// round does not make another the fastest.
func TestMeasureDisturbed(t *testing.T) {
	times := map[string][]time.Duration{ // the first two are for warming up
		"steady": {10, 10, 10, 10, 10, 10, 10},
		"fast":   {8, 8, 15, 8, 8, 8, 8},
		"lucky":  {30, 30, 7, 30, 30, 30, 30},
		"behind": {30, 30, 16, 16, 16, 16, 16},
	}
	var all []contender
	for _, name := range []string{"steady", "fast", "lucky", "behind"} {
		turn := -1
		all = append(all, contender{name: name, group: "form", run: func(int) (time.Duration, error) {
			turn++
			return times[name][turn] * time.Second / 20, nil
		}})
	}
	s, err := measure(context.Background(), effort{rounds: 5, least: 5, limit: time.Hour}, all)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.fastest("form"); got != "fast" {
		t.Errorf("the fastest is %q, of %v", got, s.times)
	}
	if len(s.of("behind")) != 1 || len(s.of("fast")) != 5 {
		t.Errorf("rounds: %v", s.times)
	}
}

func TestMeasureStopsAtLimit(t *testing.T) {
	var turns []string
	s, err := measure(context.Background(), effort{rounds: 100, least: 3},
		[]contender{clock(&turns, "a", "", time.Second)})
	if err != nil || len(s.of("a")) != 3 {
		t.Errorf("%d rounds, %v", len(s.of("a")), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := measure(ctx, effort{rounds: 1}, []contender{clock(&turns, "a", "", time.Second)}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStatistics(t *testing.T) {
	if v := spreadOf([]float64{4, 1, 3, 2, 5}); v.mid != 3 || v.low != 2 || v.high != 4 {
		t.Errorf("%+v", v)
	}
	if g := geomean([]float64{1, 4}); math.Abs(g-2) > 1e-12 {
		t.Errorf("geometric mean %v", g)
	}
	if k := slope([]float64{0, 1, 2}, []float64{1, 3, 5}); math.Abs(k-2) > 1e-12 {
		t.Errorf("slope %v", k)
	}
	for v, want := range map[float64]string{3.2e-6: "3.20 µs", 0.0123: "12.3 ms", 4.5: "4.50 s"} {
		if got := seconds([]float64{v}); got != want {
			t.Errorf("%g is written %q, expected %q", v, got, want)
		}
	}
}
