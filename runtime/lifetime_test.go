package runtime_test

import (
	"context"
	"errors"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// heap is what is reachable.
func heap() int64 {
	goruntime.GC()
	goruntime.GC() // what cleanups of the first released
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("after 5 s: %s", what)
}

// A thousand models that are loaded, run and closed, or only dropped, leave neither memory nor goroutines behind.
func TestLoadCycles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(path, network(t, small("pool"))); err != nil {
		t.Fatal(err)
	}
	in := data{"input": noise(1, 1, 40, 2)}
	cycle := func(i int) {
		m, err := runtime.Load(path, runtime.Options{Backend: cpu.New(), Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.NewSession().Run(context.Background(), in); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	cycle(0)
	goroutines, memory := goruntime.NumGoroutine(), heap()
	for i := range cycles {
		cycle(i)
	}
	until(t, "goroutines are left behind", func() bool { return goruntime.NumGoroutine() <= goroutines })
	until(t, "memory is left behind", func() bool { return heap()-memory < 512<<10 })
	until(t, "mappings are left behind", func() bool { n := mappings(t, path); goruntime.GC(); return n == 0 })
}

// Many goroutines run one model, which is closed meanwhile: each call gives the right answer, or ErrClosed.
func TestHammer(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New(), Threads: 2})
	want := map[int]*tensor.Tensor{}
	for l := 1; l <= 5; l++ {
		out, err := m.NewSession().Run(context.Background(), data{"input": noise(uint32(l), 1, l, 2)})
		if err != nil {
			t.Fatal(err)
		}
		want[l] = out["output"].(*tensor.Tensor)
	}
	var wg, running sync.WaitGroup
	running.Add(64)
	for i := range 64 {
		wg.Go(func() {
			s := m.NewSession()
			defer s.Close()
			for j := 0; ; j++ {
				l := 1 + (i+j)%5
				out, err := s.Run(context.Background(), data{"input": noise(uint32(l), 1, l, 2)})
				if j == 0 {
					running.Done()
				}
				if errors.Is(err, runtime.ErrClosed) {
					return
				}
				if err != nil || !tensor.Equal(out["output"].(*tensor.Tensor), want[l]) {
					t.Errorf("goroutine %d, run %d: %v", i, j, err)
					return
				}
			}
		})
	}
	running.Wait()
	for range 3 {
		wg.Go(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// afterWork is a context that is canceled once the process has worked for so long. It is the run that asks for the time,
// not a timer: what a thread has worked for is known to others only when its time slice ends.
type afterWork struct {
	context.Context
	end time.Duration
}

func (c *afterWork) Err() error {
	if worktime.Now() >= c.end {
		return context.Canceled
	}
	return nil
}

// A run ends within a millisecond of its context; of work, as other processes may take the processor.
func TestCancelAtOnce(t *testing.T) {
	p, err := essm.NewPreset("sc35")
	if err != nil {
		t.Fatal(err)
	}
	m := model(t, network(t, p.Config), runtime.Options{Backend: cpu.New(), Threads: 1})
	in := data{"input": noise(1, 1, 16000, 1)}
	s := m.NewSession()
	if err := s.BindShape(map[string]int64{"B": 1, "L": 16000}); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range 9 {
		ctx := &afterWork{Context: context.Background(), end: worktime.Now() + time.Duration(5+i)*time.Millisecond}
		_, err := s.Run(ctx, in)
		end := worktime.Now()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("found %v", err)
		}
		took = append(took, end-ctx.end)
	}
	slices.Sort(took)
	t.Logf("figure: a run of the preset sc35 ended %v after it was cancelled, at most %v", took[len(took)/2], took[len(took)-1])
	limit := time.Millisecond
	if race.Enabled {
		limit *= 20
	}
	if took[len(took)/2] > limit {
		t.Errorf("half of the runs worked for more than %v after they were cancelled: %v", limit, took)
	}
}
