package open_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// nested is a graph as text with Ifs within Ifs.
func nested(depth int) string {
	body, name := "{ y0 = Neg (x) }", "y0"
	for i := range depth {
		next := fmt.Sprintf("y%d", i+1)
		body = fmt.Sprintf("{ %s = If (c) <then_branch: graph = a%d () => (%s) %s, "+
			"else_branch: graph = b%d () => (z%d) { z%d = Neg (x) }> }", next, i, name, body, i, i, i)
		name = next
	}
	return fmt.Sprintf("g (float[N] x, bool c) => (%s) %s", name, body)
}

// What Untrusted refuses, and how soon; and that it takes the models of the paper.
func TestUntrusted(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, size int64) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if size > 0 {
			if err := os.Truncate(path, size); err != nil { // the rest are zeros, which take no room
				t.Fatal(err)
			}
		}
		return path
	}
	var long strings.Builder
	long.WriteString("g (float[N] v0) => (v100001) {\n")
	for i := range 100_001 {
		fmt.Fprintf(&long, "v%d = Neg (v%d)\n", i+1, i)
	}
	long.WriteString("}\n")
	g, err := irtext.Parse([]byte("g (float[N] x) => (y) { y = Neg (x) }"), "", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.essm")
	if err := plan.WriteFile(large, g); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 257<<20); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"large ONNX file", file("large.onnx", "\x08\x08\x12\x04test", 257<<20), "268435456"},
		{"large plan", large, "269484032"},
		{"large text", file("large.txt", "g () => () {}", 257<<20), "268435456"},
		{"many nodes", file("long.txt", long.String(), 0), "100000"},
		{"wide node", file("wide.txt", "g (float[N] x) => (y) { y = Sum (x"+strings.Repeat(", x", 4096)+") }", 0),
			"node Sum: expected at most 4096 inputs, found 4097"},
		{"deep graph", file("deep.txt", nested(20), 0), "16"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		o := open.Untrusted()
		o.Context = ctx
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		begin := time.Now()
		_, err := open.Load(c.path, o)
		took := time.Since(begin)
		goruntime.ReadMemStats(&after)
		bytes := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %.1f ms, %d KiB: %v", c.name, took.Seconds()*1000, bytes>>10, err)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected it to be refused for %s: %v", c.name, c.want, err)
		}
		if bytes > 128<<20 {
			t.Errorf("%s: takes %d MiB", c.name, bytes>>20)
		}
		cancel()
	}
	presets := essm.Presets()
	if testing.Short() {
		presets = presets[:1]
	}
	for _, p := range presets {
		w, err := essm.Init(p.Config, essm.InitOptions{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, p.ID+".essm")
		if err := plan.WriteFile(path, g); err != nil {
			t.Fatal(err)
		}
		m, err := open.Load(path, open.Untrusted())
		if err != nil {
			t.Fatal(err)
		}
		dims := map[string]int64{"B": 1, "P": 1, "L": int64(p.Length)}
		if err := m.NewSession().BindShape(dims); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	o := open.Untrusted()
	if o.Run.MaxMemory == 0 || !o.Run.Copy || o.Run.Threads != 1 || o.Run.Limits == (plan.Limits{}) ||
		o.Limits.Bytes == 0 || o.Limits.Nodes == 0 || o.Limits.Depth == 0 || o.Limits.Ports == 0 || o.Limits.Memory == 0 {
		t.Errorf("a limit is not set: %+v", o)
	}
	greedy := "g (float[N] x) => (y) <int64[1] r = {1099511627776}> { y = Tile (x, r) }"
	m, err := open.Load(file("greedy.txt", greedy, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.NewSession().BindShape(map[string]int64{"N": 1000}); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("bytes beyond MaxMemory: %v", err)
	}
}
