package hostile

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// TestWideFiles opens and runs the wide models among the shared cases, which the Python in ESSMC_PYTHON (python3) makes,
// under open.Untrusted and with limits above these files, with a deadline of 50 ms.
func TestWideFiles(t *testing.T) {
	script := shared.Path(t, "hostile", "wide.py")
	python := shared.Python(t, "onnx", "numpy")
	dir := t.TempDir()
	if out, err := exec.Command(python, script, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	if err != nil || len(paths) < 4 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		for _, with := range []string{"open.Untrusted", "limits above the file"} {
			best, err := 24*time.Hour, error(nil)
			var held uint64
			for range 3 {
				var after time.Duration
				if after, held, err = underDeadline(t, path, with != "open.Untrusted"); after < best {
					best = after
				}
			}
			t.Logf("%s, %s: back %v of processor time after the deadline, %d MiB: %v", filepath.Base(path), with, best, held>>20, first(err))
			if best > 5*time.Millisecond+mostGap {
				t.Errorf("%s, %s: back %v after its deadline", filepath.Base(path), with, best)
			}
			if held > 256<<20 {
				t.Errorf("%s, %s: holds %d MiB", filepath.Base(path), with, held>>20)
			}
		}
	}
}

func first(err error) string {
	if err == nil {
		return "answered"
	}
	return strings.Split(err.Error(), "\n")[0]
}

// underDeadline opens and runs a model under a deadline of 50 ms for each, and returns the processor time of its thread after
// it, the larger one, and the bytes that the program then holds.
func underDeadline(t *testing.T, path string, raised bool) (after time.Duration, held uint64, err error) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	debug.FreeOSMemory()
	defer func() {
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		held = m.Sys - m.HeapReleased
	}()
	const limit = 50 * time.Millisecond
	opening := func(ctx context.Context) open.Options {
		o := open.Untrusted()
		if raised {
			o = loose(context.Background())
		}
		o.Context = ctx
		return o
	}
	watch := newLate(limit)
	_, err = open.Load(path, opening(watch))
	after = watch.after()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return after, 0, err
	}
	m, err := open.Load(path, opening(context.Background()))
	if err != nil {
		return after, 0, err
	}
	defer m.Close()
	s := m.NewSession()
	watch = newLate(limit)
	_, err = s.Run(watch, map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 3, 4)})
	if after = max(after, watch.after()); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, runtime.ErrMemory) {
		return after, 0, err
	}
	return after, 0, err
}
