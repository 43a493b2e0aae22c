package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/plan"
)

// random makes a graph of n nodes that is wide, long and forked: chains of all lengths, values with one to thousands of
// readers, sums of up to a thousand values, Splits, and branches.
func random(n int) string {
	rng := rand.New(rand.NewPCG(27, uint64(n)))
	var b strings.Builder
	values := 1 // x, o1, o2, …; all of type float[N, 4]
	pick := func() string {
		switch rng.IntN(4) {
		case 0:
			return name(values - 1) // the chain goes on
		case 1:
			return name(rng.IntN(min(values, 8))) // many read the first ones
		default:
			return name(rng.IntN(values))
		}
	}
	for range n {
		switch k := rng.IntN(40); {
		case k == 0:
			fmt.Fprintf(&b, "o%d = Sum(%s", values, pick())
			for range rng.IntN(400) {
				b.WriteString(", " + pick())
			}
			b.WriteString(")\n")
		case k == 1:
			parts := 2 + rng.IntN(200)
			fmt.Fprintf(&b, "w%d = Concat <axis = 0> (%s", values, pick())
			for range parts - 1 {
				b.WriteString(", " + pick())
			}
			fmt.Fprintf(&b, ")\no%d", values)
			for i := range parts - 1 {
				fmt.Fprintf(&b, ", p%d_%d", values, i)
			}
			fmt.Fprintf(&b, " = Split <axis = 0, num_outputs = %d> (w%d)\n", parts, values)
		case k == 2:
			fmt.Fprintf(&b, "c%d = Cast <to = 9> (z)\no%d = If (c%d) <then_branch = t () => (t%d) { t%d = Neg(%s) }, else_branch = e () => (e%d) { e%d = Abs(%s) }>\n",
				values, values, values, values, values, pick(), values, values, pick())
		case k < 20:
			fmt.Fprintf(&b, "o%d = Add(%s, %s)\n", values, pick(), pick())
		default:
			fmt.Fprintf(&b, "o%d = %s(%s)\n", values, []string{"Neg", "Relu", "Tanh", "Identity"}[rng.IntN(4)], pick())
		}
		values++
	}
	return graph("float[M, 4] y", "z = Constant <value = float {1}> ()", b.String(), fmt.Sprintf("y = Neg(%s)", name(values-1)))
}

// size is the number of nodes of large graphs.
func size() int {
	if os.Getenv("ESSMC_LONG") != "" {
		return 20_000
	}
	return 2500
}

// ports is the number of inputs or outputs of wide nodes. TestWideFiles has more.
func ports() int { return min(size(), open.Untrusted().Limits.Ports) }

// loose are options of open.Untrusted with limits above the files of these tests, and a context.
func loose(ctx context.Context) open.Options {
	o := open.Untrusted()
	o.Context = ctx
	o.Limits.Nodes, o.Limits.Ports = 1<<20, 1<<20
	o.Run.Limits.Nodes, o.Run.Limits.Ports, o.Run.Limits.MetadataBytes = 1<<20, 1<<20, 64<<20
	return o
}

// TestOpeningChecks checks that reading, passes and compilation check their context often, for graphs with many nodes,
// inputs and outputs, in all forms.
func TestOpeningChecks(t *testing.T) {
	n := size()
	texts := map[string]string{"random": random(n)}
	for what, of := range wide {
		texts[what] = of(ports())
		if what == "chain" || what == "edges" { // many nodes, none of them wide
			texts[what] = of(n)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(texts)) {
		t.Run(what, func(t *testing.T) {
			text := []byte(texts[what])
			g, err := irtext.Parse(text, what, ops.Default, irtext.Options{Budget: irtext.Budget{Ports: 1 << 20}})
			if err != nil {
				t.Fatal(err)
			}
			checkOpening(t, what, "text", text)
			for form, b := range stored(t, g) {
				checkOpening(t, what, form, b)
			}
		})
	}
}

// stored returns a graph as an ONNX file and as a plan.
func stored(t *testing.T, g *ir.Graph) map[string][]byte {
	t.Helper()
	var standard, planned bytes.Buffer
	if err := onnx.Write(&standard, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := plan.Write(&planned, g); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"ONNX": standard.Bytes(), "plan": planned.Bytes()}
}

// checkOpening opens and compiles a file twice: with a context that measures the time between checks, and with one that
// ends amid the work.
func checkOpening(t *testing.T, what, form string, b []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), form)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	var checks int
	checkGap(t, form, func(g *gaps) error {
		o := loose(g)
		o.Run.Copy = true
		m, err := open.Load(path, o)
		if err != nil {
			return err
		}
		checks = g.checks
		return m.Close()
	})
	for _, share := range []float64{0.1, 0.5, 0.9} {
		ctx := &enough{Context: context.Background(), left: int(float64(checks) * share)}
		if _, err := open.Load(path, loose(ctx)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s as %s, ended after %d of %d checks: %v", what, form, int(float64(checks)*share), checks, err)
		}
	}
}

// enough is a context that is done after some checks.
type enough struct {
	context.Context
	left int
}

func (e *enough) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// checkGap runs f with a context that measures the time between checks: the least of some runs, since a thread whose core
// is shared counts more.
func checkGap(t *testing.T, what string, f func(g *gaps) error) {
	t.Helper()
	checkWithin(t, what, mostGap, f)
}

// checkWithin is checkGap with another bound.
func checkWithin(t *testing.T, what string, bound time.Duration, f func(g *gaps) error) {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	var best *gaps
	for try := range 8 {
		goruntime.GC()
		g := &gaps{Context: context.Background(), last: worktime.Thread()}
		if err := f(g); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_ = g.Err()
		if best == nil || g.most < best.most {
			best = g
		}
		if best.most <= bound/4 || try >= 2 && best.most <= bound {
			break
		}
	}
	t.Logf("%s: at most %v between %d checks", what, best.most, best.checks)
	if os.Getenv("GAPS") != "" && best.most > 2*time.Millisecond {
		t.Logf("FROM\n%sTO\n%s", best.from, best.to)
	}
	if best.most > bound {
		t.Errorf("%s: %v between checks of the context, from\n%s\nto\n%s", what, best.most, best.from, best.to)
	}
}
