package hostile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// Bounds of one model, in a process that has its own memory besides.
const (
	mostMemory  = 640 << 20               // the compilation's budget, garbage, and twice a session's memory
	mostOpening = 2500 * time.Millisecond // processor time, the collector's included
	mostRunning = 500 * time.Millisecond
)

// TestModels checks that models that demand too much are refused, or end at the deadline, and that the process stays
// within its bounds.
func TestModels(t *testing.T) {
	a, err := txtar.ParseFile(filepath.Join("testdata", "models.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	long := os.Getenv("ESSMC_LONG") != ""
	idle := filepath.Join(dir, "idle.txt")
	if err := os.WriteFile(idle, []byte(`<ir_version: 10, opset_import: ["" : 24]> g (float[N] x) => (y) { y = Neg (x) }`), 0o666); err != nil {
		t.Fatal(err)
	}
	base := child(t, idle, "cpu")
	if base.Err != "" {
		t.Fatal(base.Err)
	}
	var worst report
	var which [4]string
	count, answered := 0, 0
	for _, f := range a.Files {
		for _, form := range []string{"text", "onnx", "plan"} {
			if form != "text" && !long {
				continue
			}
			path, ok := write(t, dir, f, form)
			if !ok {
				continue
			}
			for _, backend := range []string{"cpu", "ref"} {
				if backend == "ref" && (!long || form != "text") {
					continue
				}
				name := fmt.Sprintf("%s/%s/%s", f.Name, form, backend)
				t.Run(name, func(t *testing.T) {
					r := child(t, path, backend)
					count++
					if r.Err == "" {
						answered++
					}
					r.Peak -= base.Peak
					t.Logf("opened in %v, ran for %v, stepped for %v, %d MiB: %.200s", r.Opened, r.Ran, r.Stepped, r.Peak>>20, r.Err)
					check(t, r)
					for i, x := range []struct {
						mine  int64
						worst *int64
					}{{int64(r.Opened), (*int64)(&worst.Opened)}, {int64(r.Ran), (*int64)(&worst.Ran)},
						{int64(r.Stepped), (*int64)(&worst.Stepped)}, {r.Peak, &worst.Peak}} {
						if x.mine > *x.worst {
							*x.worst, which[i] = x.mine, name
						}
					}
				})
			}
		}
	}
	t.Logf("figure: %d runs, %d answered; most memory beside the program's %d MiB: %d MiB (%s); processor time: to open %v (%s), "+
		"to run %v (%s), to step %v (%s)", count, answered, base.Peak>>20, worst.Peak>>20, which[3], worst.Opened, which[0],
		worst.Ran, which[1], worst.Stepped, which[2])
}

func check(t *testing.T, r report) {
	for _, e := range []string{r.Err, r.StepErr} {
		if strings.Contains(e, runtime.ErrInternal.Error()) || strings.Contains(e, "\n") || len(e) > 2000 {
			t.Errorf("error: %.3000s", e)
		}
	}
	if r.Peak > mostMemory {
		t.Errorf("%d MiB, more than %d", r.Peak>>20, mostMemory>>20)
	}
	if r.Opened > mostOpening || r.Ran > mostRunning || r.Stepped > mostRunning {
		t.Errorf("processor time to open %v, run %v, step %v: more than %v, %v, %v", r.Opened, r.Ran, r.Stepped,
			mostOpening, mostRunning, mostRunning)
	}
}

// write writes a model in a form. It reports false if the model has none.
func write(t *testing.T, dir string, f txtar.File, form string) (string, bool) {
	path := filepath.Join(dir, f.Name+"."+form)
	text := f.Data
	if form != "text" {
		m, err := open.Bytes(f.Data, f.Name, open.Options{})
		if err != nil {
			return "", false // refused as text
		}
		var b bytes.Buffer
		if form == "onnx" {
			g, err := m.Source()
			if err == nil {
				err = onnx.Write(&b, g, onnx.WriteOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		} else {
			g, err := m.Graph()
			if err != nil {
				return "", false
			}
			if err := plan.Write(&b, g); err != nil {
				t.Fatal(err)
			}
		}
		text = b.Bytes()
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return path, true
}
