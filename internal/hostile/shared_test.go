package hostile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/runtime"
)

// TestWideFiles opens and runs wide models as ONNX files, under open.Untrusted and with limits above these files, with a
// deadline of 50 ms. They are wide in every way that hostile files were. If ESSMC_PYTHON is a Python with
// onnx, the files that the script makes are tried, too.
func TestWideFiles(t *testing.T) {
	if race.Enabled {
		t.Skip("measures processor time, which the race detector multiplies")
	}
	dir := t.TempDir()
	for name, f := range wideFiles {
		if f.always || os.Getenv("ESSMC_LONG") != "" {
			written(t, dir, name, wide[f.of](f.n))
		}
	}
	if python := os.Getenv("ESSMC_PYTHON"); python != "" && shared.Lacks(python, "onnx", "numpy") == "" {
		if out, err := exec.Command(python, shared.Path(t, "hostile", "wide.py"), filepath.Join(dir, "python")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.onnx"))
	more, err2 := filepath.Glob(filepath.Join(dir, "python", "*.onnx"))
	if err != nil || err2 != nil || len(paths) < 4 {
		t.Fatal(paths, err, err2)
	}
	for _, path := range append(paths, more...) {
		for _, with := range []string{"open.Untrusted", "limits above the file"} {
			best, err := 24*time.Hour, error(nil)
			var held uint64
			for range 8 {
				var after time.Duration
				if after, held, err = underDeadline(t, path, with != "open.Untrusted"); after < best {
					best = after
				}
				if best <= mostGap/2 {
					break
				}
			}
			t.Logf("%s, %s: back %v of processor time after the deadline, %d MiB: %v", filepath.Base(path), with, best, held>>20, first(err))
			if best > mostGap/2 {
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
	in, err := inputs(m.Inputs(), 3)
	if err != nil {
		return after, 0, err
	}
	s := m.NewSession()
	watch = newLate(limit)
	_, err = s.Run(watch, in)
	if after = max(after, watch.after()); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, runtime.ErrMemory) {
		return after, 0, err
	}
	return after, 0, err
}
