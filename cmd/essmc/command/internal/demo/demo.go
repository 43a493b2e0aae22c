// Package demo runs the paper's illustrative example (section "An Illustrative Example"): it compiles the system, runs
// it in the four forms that the paper compares, repeats the experiment on state convergence, and draws both figures.
//
// It may import everything. The reference interpreter computes all numbers in float64, from one graph. The forms differ
// only by passes and kernel.
package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/cmplx"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm/spectral"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// The system of the paper.
var matrixA = []float64{-0.2, 1, -1, -3}

const (
	step     = 0.005 // seconds
	duration = 10    // seconds
	length   = duration / step
)

// Graph returns the example as a model: x' = Ax + u, y = x, with u and y of shape (B, L, 2), and the state before the
// first step as an optional input.
func Graph() (*ir.Graph, error) {
	b := ir.NewBuilder("illustrative_example", ops.Default, ops.Opsets())
	g := b.Graph()
	g.Meta[ir.MetaTime], g.Meta[ir.MetaBatch] = "L", "B"
	u := b.Input("u", ir.Tensor(tensor.Float64, "B", "L", 2))
	x0 := b.Input("x0", ir.Tensor(tensor.Float64, "B", 2))
	constant := func(name string, v []float64, shape ...int) *ir.Value {
		return b.Const(name, tensor.FromSlice(v, shape...))
	}
	eye := []float64{1, 0, 0, 1}
	b.Scope("system")
	y := b.Op("essm", "StateSpace", []*ir.Value{u, constant("log_dt", []float64{math.Log(step)}, 1, 1, 1),
		constant("B", eye, 1, 1, 2, 2),
		constant("C", eye, 1, 1, 2, 2), nil, constant("A", matrixA, 1, 1, 2, 2), nil, x0}, ir.A("method", "zoh"))
	b.Output("y", y)
	return b.Build()
}

// form is one of the ways to run the example.
type form struct {
	name, equation string
	keepA          bool // the passes keep the full A
	kernel         string
}

var forms = []form{
	{"recurrence with the full A", "x[t] = Ā x[t-1] + B̄ u[t]", true, "scan"},
	{"recurrence with the diagonal Λ", "z[t] = λ̄ z[t-1] + b v[t]", false, "scan"},
	{"convolution, directly", "x = K * v", false, "direct"},
	{"convolution by FFT", "x = F⁻¹(F K · F v)", false, "fft"},
}

// result is the answer of a form: y at every step, both states side by side.
type result struct {
	form
	y    []float64
	took time.Duration
}

// Run computes everything. It writes a report to w, and figures of a kind ("png" or "svg") to dir.
func Run(ctx context.Context, w io.Writer, dir, kind string) error {
	u := make([]float64, 2*int(length))
	for t := range int(length) {
		at := float64(t) * step
		u[2*t], u[2*t+1] = math.Sin(at), math.Cos(2*at)
	}
	fmt.Fprintf(w, "The paper's illustrative example: x' = A x + B u, y = C x\n")
	fmt.Fprintf(w, "A = [[-0.2, 1], [-1, -3]], B = C = I, D = 0, u = [sin t, cos 2t], %d s in steps of %v s\n\n",
		duration, step)
	if err := compile(w); err != nil {
		return err
	}
	results, err := runForms(ctx, u)
	if err != nil {
		return err
	}
	worst := report(w, results)
	fmt.Fprintf(w, "Largest difference between two forms: %.1e of the largest value.\n\n", worst)
	if !(worst <= 1e-9) {
		return fmt.Errorf("the forms differ by %.1e of the largest value, expected at most 1e-9", worst)
	}
	gap, err := converge(ctx, w, u, results[len(results)-1].y)
	if err != nil {
		return err
	}
	if err := files.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := Files(dir, kind)
	equivalence, convergence := files[0], files[1]
	if err := drawEquivalence(equivalence, results); err != nil {
		return err
	}
	if err := drawConvergence(convergence, gap); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nFigures: %s\n         %s\n", equivalence, convergence)
	return nil
}

// Files returns the figures that Run writes.
func Files(dir, kind string) []string {
	return []string{filepath.Join(dir, "equivalence."+kind), filepath.Join(dir, "convergence."+kind)}
}

// compile prints the changes of the passes.
func compile(w io.Writer) error {
	g, err := Graph()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Source:\n%s\n", indent(irtext.ViewString(g)))
	fmt.Fprintln(w, "Passes:")
	if err := passes.Optimize(g); err != nil {
		return err
	}
	for _, e := range g.History {
		fmt.Fprintf(w, "  %-14s %s\n", e.Pass, plural(e.Changes, "change"))
		for _, n := range e.Notes {
			fmt.Fprintf(w, "  %-14s %s\n", "", n)
		}
	}
	fmt.Fprintf(w, "\nCompiled:\n%s\n", indent(irtext.ViewString(g)))
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ") + "\n"
}

// execute runs the example in one form, from state x0.
func execute(ctx context.Context, f form, u, x0 []float64) (*result, error) {
	g, err := Graph()
	if err != nil {
		return nil, err
	}
	var list []*passes.Pass
	for _, p := range passes.Pipeline() {
		if !f.keepA || p != passes.Diagonalize {
			list = append(list, p)
		}
	}
	if err := passes.Run(g, list, passes.Options{}); err != nil {
		return nil, err
	}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Kernel: f.kernel})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	in := map[string]tensor.Datum{"u": tensor.FromSlice(u, 1, int(length), 2), "x0": tensor.FromSlice(x0, 1, 2)}
	start := time.Now()
	out, err := m.NewSession().Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return &result{f, tensor.Data[float64](out["y"].(*tensor.Tensor)), time.Since(start)}, nil
}

func runForms(ctx context.Context, u []float64) ([]*result, error) {
	var all []*result
	for _, f := range forms {
		r, err := execute(ctx, f, u, []float64{0, 0})
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	return t
}

// report prints a table of the forms. It returns the largest difference between any two, relative to the largest value.
func report(w io.Writer, results []*result) float64 {
	t := newTable(w)
	t.AppendHeader(table.Row{"form", "equation", "time", "difference from the first"})
	worst := 0.0
	for i, r := range results {
		for _, q := range results[:i] {
			worst = max(worst, difference(r.y, q.y))
		}
		d := "–"
		if i > 0 {
			d = fmt.Sprintf("%.1e", difference(r.y, results[0].y))
		}
		t.AppendRow(table.Row{r.name, r.equation, fmt.Sprintf("%.2f ms", 1e3*r.took.Seconds()), d})
	}
	fmt.Fprintln(w, "Model equivalence, in float64 on the reference interpreter:")
	t.Render()
	return worst
}

// difference returns the largest difference, relative to the largest absolute value of b.
func difference(a, b []float64) float64 {
	diff, scale := 0.0, 0.0
	for i := range b {
		diff, scale = max(diff, math.Abs(a[i]-b[i])), max(scale, math.Abs(b[i]))
	}
	return diff / scale
}

// convergence is the result of the second experiment: the same input from the initial states [1, 0] and [0, 0].
type convergence struct {
	original, biased []float64
	gap              []float64 // norm of the difference at each step
	slowest          float64   // real part of the slowest eigenvalue
}

func converge(ctx context.Context, w io.Writer, u, biased []float64) (*convergence, error) {
	r, err := execute(ctx, forms[0], u, []float64{1, 0})
	if err != nil {
		return nil, err
	}
	eigen, err := spectral.Decompose(matrixA, 2)
	if err != nil {
		return nil, err
	}
	c := &convergence{original: r.y, biased: biased, slowest: math.Inf(-1)}
	for _, v := range eigen.Values {
		c.slowest = max(c.slowest, real(v))
	}
	fmt.Fprintln(w,
		"State convergence: the real system starts at [1, 0], the convolution has no state, so it starts at [0, 0].")
	for t := range len(r.y) / 2 {
		c.gap = append(c.gap, cmplx.Abs(complex(r.y[2*t]-biased[2*t], r.y[2*t+1]-biased[2*t+1])))
	}
	t := newTable(w)
	t.AppendHeader(table.Row{"t", "‖difference‖", "exp(t·Re λ)"})
	for _, s := range []float64{step, 1, 2, 5, 10} {
		t.AppendRow(table.Row{fmt.Sprintf("%g s", s), fmt.Sprintf("%.2e", c.gap[int(math.Round(s/step))-1]),
			fmt.Sprintf("%.2e", math.Exp(c.slowest*s))})
	}
	t.Render()
	fmt.Fprintf(w, "The slowest eigenvalue of A is %.4f, so the influence of the start decays at that rate.\n",
		c.slowest)
	return c, nil
}
