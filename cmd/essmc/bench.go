package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/internal/ram"
	"github.com/essmc/essmc/cmd/essmc/internal/table"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// How many runs bench makes where --repeat does not say: until benchTime has passed, within bounds.
const (
	benchTime = 2 * time.Second
	benchMin  = 5
	benchMax  = 2000
)

func newBenchCommand() *cobra.Command {
	var f runFlags
	var s shape
	var repeat whole
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "bench MODEL --shape BxL",
		Short:   "Measure how long a model takes",
		GroupID: groupRun,
		Long: `Bench runs a model on random inputs and reports the median and percentiles of the time
that one run takes, the arithmetic that this amounts to, and what each step of it took.
Without --repeat it measures for two seconds, at least five times.`,
		Example: `  essmc bench model.essm --shape 8x1024
  essmc bench model --shape 1x16000 --threads 1 --kernel fft --repeat 50
  essmc bench model.essm --shape 8x1024 --json`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !s.given() {
				return usagef("%s: --shape BxL is missing: samples x steps, as in 8x1024", cmd.CommandPath())
			}
			m, err := f.open(cmd, args[0])
			if err != nil {
				return err
			}
			model, err := f.compileModel(cmd, m, f.options())
			if err != nil {
				return err
			}
			defer model.Close()
			dims, err := s.dims(model.Graph())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			r, err := bench(cmd, model, dims, repeat.value)
			if err != nil {
				return err
			}
			o := f.options()
			o.Profile = true
			profiled, err := f.compileModel(cmd, m, o)
			if err != nil {
				return err
			}
			defer profiled.Close()
			if err := r.profile(cmd.Context(), profiled, dims); err != nil {
				return err
			}
			r.Model, r.Device, r.Kernel, r.Threads = args[0], f.device.value, f.kernel.value, f.threads.value
			if r.Threads == 0 {
				r.Threads = goruntime.GOMAXPROCS(0)
			}
			r.Batch, r.Length = s.batch, s.length
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	modelCompletion(cmd)
	cmd.Flags().Var(&s, "shape", "samples x steps of the input")
	f.register(cmd)
	f.precision.value, f.resample.value = "float32", 1
	repeat = whole{0, 1}
	cmd.Flags().Var(&repeat, "repeat", "measure so many runs (default: two seconds)")
	cmd.Flags().Lookup("repeat").DefValue = ""
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// benchmark is what bench reports; times are of one run.
type benchmark struct {
	Model    string      `json:"model"`
	Device   string      `json:"device"`
	Kernel   string      `json:"kernel"`
	Threads  int         `json:"threads"`
	Batch    int64       `json:"batch"`
	Length   int64       `json:"length"`
	Runs     int         `json:"runs"`
	MedianMS float64     `json:"median_ms"`
	MeanMS   float64     `json:"mean_ms"`
	MinMS    float64     `json:"min_ms"`
	P10MS    float64     `json:"p10_ms"`
	P90MS    float64     `json:"p90_ms"`
	P99MS    float64     `json:"p99_ms"`
	Flops    int64       `json:"flops"`  // of one run, as the operators count them
	Gflops   float64     `json:"gflops"` // per second, at the median
	Memory   int64       `json:"working_memory_bytes"`
	Ops      []stepShare `json:"ops"`
}

// stepShare is what one step took of a profiled run.
type stepShare struct {
	Name  string  `json:"name"`
	Op    string  `json:"op"`
	Form  string  `json:"form,omitempty"`
	MS    float64 `json:"ms"`
	Share float64 `json:"share"`
}

func bench(cmd *cobra.Command, model *runtime.Model, dims map[string]int64, repeat int) (*benchmark, error) {
	in, err := randomInputs(model, dims)
	if err != nil {
		return nil, err
	}
	s := model.NewSession()
	defer s.Close()
	out, err := warmUp(cmd, s, in)
	if err != nil {
		return nil, err
	}
	step, done := bar(cmd, repeat, "measuring")
	defer done()
	var times []float64
	for began := time.Now(); ; {
		start := time.Now()
		if err := s.RunInto(cmd.Context(), in, out); err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(start))/1e6)
		step()
		if repeat > 0 && len(times) >= repeat || repeat == 0 && (len(times) >= benchMax || len(times) >= benchMin && time.Since(began) > benchTime) {
			break
		}
	}
	r := &benchmark{Runs: len(times), Memory: s.Memory()}
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	slices.Sort(times)
	r.MeanMS, r.MinMS = sum/float64(len(times)), times[0]
	r.MedianMS, r.P10MS, r.P90MS, r.P99MS = quantile(times, 0.5), quantile(times, 0.1), quantile(times, 0.9), quantile(times, 0.99)
	for _, n := range model.Graph().Nodes {
		r.Flops += ops.WorkOf(n, dims).Flops
	}
	if r.MedianMS > 0 {
		r.Gflops = float64(r.Flops) / r.MedianMS / 1e6
	}
	return r, nil
}

// warmUp runs twice: the first run plans and allocates, the second finds everything warm. It gives outputs that RunInto can
// write to again.
func warmUp(cmd *cobra.Command, s *runtime.Session, in map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	done := spin(cmd, "warming up")
	defer done()
	out := map[string]tensor.Datum{}
	for range 2 {
		if err := s.RunInto(cmd.Context(), in, out); err != nil {
			return nil, err
		}
		for name, d := range out {
			if _, ok := d.(*tensor.Tensor); !ok {
				delete(out, name)
			}
		}
	}
	return out, nil
}

// quantile interpolates between sorted values.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// profiledRuns is how many runs the table of steps is made of.
const profiledRuns = 5

func (r *benchmark) profile(ctx context.Context, model *runtime.Model, dims map[string]int64) error {
	in, err := randomInputs(model, dims)
	if err != nil {
		return err
	}
	s := model.NewSession()
	defer s.Close()
	runs := min(profiledRuns, r.Runs)
	for range runs {
		if _, err := s.Run(ctx, in); err != nil {
			return err
		}
	}
	total := time.Duration(0)
	profile := s.Profile()
	for _, p := range profile {
		total += p.Time
	}
	for _, p := range profile {
		share := 0.0
		if total > 0 {
			share = float64(p.Time) / float64(total)
		}
		r.Ops = append(r.Ops, stepShare{p.Name, p.Op, p.Form, float64(p.Time) / 1e6 / float64(runs), share})
	}
	return nil
}

// randomInputs makes an input for each that is required: normal numbers, and whole ones within the vocabulary of the table
// that they look up. Equal models get equal inputs.
func randomInputs(model *runtime.Model, dims map[string]int64) (map[string]tensor.Datum, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[string]tensor.Datum{}
	for i, p := range model.Inputs() {
		if p.Optional {
			continue
		}
		t, ok := p.Type.(*ir.TensorType)
		if !ok || t.NoRank {
			return nil, fmt.Errorf("input %q: %v cannot be made up", p.Name, p.Type)
		}
		shape, elements := make([]int, len(t.Shape)), 1.0
		for k, d := range t.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				return nil, fmt.Errorf("input %q: dimension %d, %v, is not known", p.Name, k, d)
			}
			shape[k] = int(n)
			elements *= float64(n)
		}
		if limit := ram.Total(); elements > 1<<34 || limit > 0 && elements*16 > float64(limit) {
			return nil, fmt.Errorf("input %q: %s does not fit into memory", p.Name, tensor.ShapeString(shape))
		}
		v := make([]float64, int(elements))
		limit := 0
		if t.Elem.IsInt() {
			limit = vocabulary(model.Graph(), model.Graph().Inputs[i])
		}
		for k := range v {
			switch {
			case t.Elem.IsInt():
				v[k] = float64(rng.IntN(limit))
			case t.Elem == tensor.Bool:
				v[k] = float64(rng.IntN(2))
			default:
				v[k] = rng.NormFloat64()
			}
		}
		x, err := tensor.FromFloat64s(t.Elem, v, shape...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		in[p.Name] = x
	}
	return in, nil
}

// vocabulary is how many different numbers an input of tokens can be: the rows of the smallest table that it looks up. 1,
// which allows only 0, where it looks up none.
func vocabulary(g *ir.Graph, v *ir.Value) int {
	limit := math.MaxInt
	for _, u := range g.Uses()[v] {
		if u.Node == nil {
			continue
		}
		table := -1
		switch {
		case u.Node.Op.FullName() == "essm.Embedding" && u.Index == 0:
			table = 1
		case u.Node.Op.FullName() == "Gather" && u.Index == 1:
			table = 0
		}
		if table < 0 || len(u.Node.In(table).Shape()) == 0 {
			continue
		}
		if n, ok := u.Node.In(table).Shape()[0].Known(); ok {
			limit = min(limit, int(n))
		}
	}
	if limit == math.MaxInt || limit < 1 {
		return 1
	}
	return limit
}

func (r *benchmark) print(w io.Writer) error {
	ms := func(v float64) string { return duration(time.Duration(v * 1e6)) }
	fmt.Fprintf(w, "%s  %dx%d, %s, kernel %s, %s\n\n", r.Model, r.Batch, r.Length, r.Device, r.Kernel, plural(r.Threads, "thread"))
	fmt.Fprintf(w, "  median   %s\n  min      %s\n  p10      %s\n  p90      %s\n  p99      %s\n", ms(r.MedianMS), ms(r.MinMS), ms(r.P10MS), ms(r.P90MS), ms(r.P99MS))
	fmt.Fprintf(w, "  runs     %d\n", r.Runs)
	fmt.Fprintf(w, "  work     %.3g GFLOP, %.3g GFLOP/s\n", float64(r.Flops)/1e9, r.Gflops)
	if r.Memory > 0 {
		fmt.Fprintf(w, "  memory   %s\n", byteCount(r.Memory))
	}
	if len(r.Ops) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	columns := []table.Column{{Title: "step", Width: 60}, {Title: "operator"}, {Title: "form"}, {Title: "time", Right: true}, {Title: "share", Right: true}}
	var rows [][]string
	steps := slices.Clone(r.Ops)
	slices.SortStableFunc(steps, func(a, b stepShare) int { return cmp.Compare(b.MS, a.MS) })
	for _, s := range steps {
		rows = append(rows, []string{s.Name, s.Op, s.Form, ms(s.MS), strconv.FormatFloat(100*s.Share, 'f', 1, 64) + "%"})
	}
	return table.Print(w, columns, rows)
}
