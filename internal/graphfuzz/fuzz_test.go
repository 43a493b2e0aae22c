package graphfuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/runtime/cpu"
)

// FuzzGraphs takes the choices of a case from bytes.
func FuzzGraphs(f *testing.F) {
	for seed := range uint64(40) {
		s := FromSeed(seed)
		b := make([]byte, 300)
		for i := range b {
			b[i] = byte(s.IntN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		var c Checker
		if r := c.hunt(FromBytes(choices), 0, 30*time.Second, nil); r != nil {
			text := ""
			if r.Case != nil {
				b, _ := Format(r.Case, r.Way, "")
				text = string(b)
			}
			t.Fatalf("%s\n%s", r.Finding, text)
		}
	})
}

// TestSeeds checks the cases of fixed seeds, and that they reach many operators.
func TestSeeds(t *testing.T) {
	seeds := 400
	if testing.Short() {
		seeds = 100
	}
	var c Checker
	for seed := range uint64(seeds) {
		if r := c.Hunt(seed, 20*time.Second, nil); r != nil {
			t.Errorf("seed %d: %s\n%s", seed, r.Finding, textOf(r))
		}
	}
	operators, types, ways := c.Coverage.Counts()
	t.Logf("%d operators, %d with element types, %d with their implementations", operators, types, ways)
	if least := min(seeds, 220); operators < least {
		t.Errorf("%d seeds reach %d operators, expected at least %d", seeds, operators, least)
	}
}

func textOf(r *Report) string {
	if r.Case == nil {
		return ""
	}
	b, err := Format(r.Case, r.Way, "")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestFound runs the cases that showed faults once.
func TestFound(t *testing.T) {
	files, err := filepath.Glob("testdata/found/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, w, err := ParseCase(file, src)
			if err != nil {
				t.Fatal(err)
			}
			var k Checker
			for _, way := range []Way{w, All()} {
				if f := k.Check(c, way); f != nil {
					t.Errorf("%s", f)
				}
			}
		})
	}
}

// TestLong runs as long as ESSMC_FUZZ says (30s, 6h), with ESSMC_FUZZ_THREADS goroutines, from the seed ESSMC_FUZZ_SEED on,
// and writes the faults that differ to the folder ESSMC_FUZZ_OUT. With ESSMC_FUZZ_STOP it ends at the first one.
func TestLong(t *testing.T) {
	text := os.Getenv("ESSMC_FUZZ")
	if text == "" {
		t.Skip("ESSMC_FUZZ=DURATION runs it")
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	threads, seed := 1, uint64(time.Now().UnixNano())
	if s := os.Getenv("ESSMC_FUZZ_THREADS"); s != "" {
		if threads, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("ESSMC_FUZZ_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	dir := os.Getenv("ESSMC_FUZZ_OUT")
	if dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var (
		c      Checker
		mu     sync.Mutex
		found  = map[string]int{}
		cases  int
		start  = time.Now()
		report = start
		done   bool
		wait   sync.WaitGroup
	)
	if os.Getenv("ESSMC_PYTHON") != "" {
		c.Other = newEngine(t, &c.Coverage)
	}
	status := func() string {
		operators, types, ways := c.Coverage.Counts()
		took := time.Since(start)
		return fmt.Sprintf("%s: %v: %d graphs, %.1f per second; %d operators, %d with element types, %d with "+
			"implementations; %d faults", cpu.Kernels(), took.Round(time.Second), cases, float64(cases)/took.Seconds(),
			operators, types, ways, len(found))
	}
	seen := func(key string) int {
		mu.Lock()
		defer mu.Unlock()
		return found[key]
	}
	for range threads {
		wait.Go(func() {
			for {
				mu.Lock()
				if done || time.Since(start) > limit {
					mu.Unlock()
					return
				}
				cases++
				seed++
				mine := seed
				if time.Since(report) > time.Minute {
					report = time.Now()
					fmt.Println(status())
				}
				mu.Unlock()
				r := c.Hunt(mine, 20*time.Second, seen)
				if r == nil {
					continue
				}
				mu.Lock()
				if found[r.Key]++; found[r.Key] == 1 {
					fmt.Printf("%v: seed %d: %s\n", time.Since(start).Round(time.Millisecond), mine, firstLine(r.Finding.String()))
					if dir != "" {
						name, text := r.File()
						if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
							t.Error(err)
						}
					}
					if os.Getenv("ESSMC_FUZZ_STOP") != "" {
						done = true
						fmt.Println(textOf(r))
					}
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	fmt.Println(status())
	var all []string
	for _, n := range operatorNames() {
		all = append(all, strings.TrimPrefix(n[0]+"."+n[1], "."))
	}
	if missing := c.Coverage.Missing(all); len(missing) > 0 {
		fmt.Println("not reached:", strings.Join(missing, " "))
	}
	if dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "coverage.txt"), []byte(c.Coverage.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
	keys := []string{}
	for k, n := range found {
		keys = append(keys, fmt.Sprintf("%6d %s", n, k))
	}
	slices.Sort(keys)
	for _, k := range keys {
		t.Error(k)
	}
}
