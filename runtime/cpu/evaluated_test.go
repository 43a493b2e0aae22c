package cpu

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Nodes without a kernel are named, with the time that they take, before they run for the first time.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		op   string
		size int
		want string
	}{
		{"Det", 100, "Det (float32) has no kernel on the cpu: 1 node evaluated as the operator is defined, about "},
		{"Det", 3, ""}, // takes microseconds
		{"Relu", 60, ""},
	} {
		x := tensor.New(tensor.Float32, 20, c.size, c.size)
		g, feed := NodeGraph(t, c.op, 1, []Operand{Given(x)})
		var log strings.Builder
		m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // warned once
			if _, err := m.NewSession().Run(context.Background(), feed); err != nil {
				t.Fatal(err)
			}
		}
		if got := log.String(); c.want == "" && got != "" || strings.Count(got, "has no kernel") > 1 || !strings.Contains(got, c.want) {
			t.Errorf("%s of %d: %q, expected %q once", c.op, c.size, got, c.want)
		}
	}
}
