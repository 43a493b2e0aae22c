package command

import (
	"cmp"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// The number of runs without --repeat: as many as take benchTime, within these bounds.
const (
	benchTime = 2 * time.Second
	benchMin  = 5
	benchMax  = 2000
)

func newBenchCommand() *cobra.Command {
	var f runFlags
	var s shape
	var inputs inputFlags
	var repeat whole
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "bench MODEL [--shape BxL …]",
		Short:   "Measure the time of a model",
		GroupID: groupRun,
		Long: `Bench runs a model on random inputs. It reports the median and percentiles of the time
of a run, the arithmetic operations, and the time of each step. Without --repeat it
measures for two seconds, at least five times.

--shape gives samples and steps of the input. For models with other inputs, it gives
their sizes by name, as in --shape x=8,1024,3, or the value of a named dimension, as in
--shape N=8. Models of fixed sizes need no --shape. --input gives an input as a file or
number: --input sr=16000.

A run computes all outputs, but for the state of a causal model after the last step
(state_out), which whole sequences hardly need. --outputs names those to compute.

--json writes one object. It has the settings: model, device, kernel, precision,
threads, outputs (that a run computes), shape, batch and length (0 if the shape is given
by name). It has the times of a run in milliseconds: median_ms, mean_ms, min_ms, p10_ms,
p90_ms, p99_ms, and the number of runs; flops, gflops per second at the median, and
working_memory_bytes. ops lists the steps in order: name, op, form (if there is a
choice), ms, and share of the total. These come from separate runs in which steps are
timed, without the first run.`,
		Example: `  essmc bench model.essm --shape 8x1024
  essmc bench model --shape 1x16000 --threads 1 --kernel fft --repeat 50
  essmc bench model.essm --shape 1x4096 --precision int8
  essmc bench model.essm --shape 8x1024 --device cuda
  essmc bench vad.onnx --shape input=1,512 --shape state=2,1,128 --input sr=16000
  essmc bench model.essm --shape 8x1024 --json`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			f.shapes.list = s.named
			m, err := f.open(cmd, args[0])
			if err != nil {
				return err
			}
			o, err := f.options(cmd)
			if err != nil {
				return err
			}
			if len(o.Outputs) == 0 {
				if o.Outputs, err = answers(m); err != nil {
					return err
				}
			}
			model, err := f.compileModel(cmd, m, o)
			if err != nil {
				return err
			}
			defer model.Close()
			var in map[string]tensor.Datum
			sizes, err := s.sizes(model.Graph(), m.Dims, func(dims map[string]int64) (err error) {
				if in, err = inputs.someInputs(cmd, model, dims); err != nil ||
					len(missingSymbols(model.Graph(), m.Dims)) == 0 {
					return err
				}
				return tryRun(cmd, model, in)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if sizes.made {
				note(cmd, "measured with %s, since not all sizes are given", sizes.flag)
			}
			r, err := bench(cmd, model, in, sizes.dims, repeat.value)
			if err != nil {
				return err
			}
			o.Profile = true
			profiled, err := f.compileModel(cmd, m, o)
			if err != nil {
				return err
			}
			defer profiled.Close()
			if err := r.profile(cmd, profiled, in); err != nil {
				return err
			}
			r.Model, r.Device, r.Kernel, r.Precision, r.Threads = args[0], f.device.value, f.kernel.value,
				f.precision.value, f.threads.value
			if r.Threads == 0 {
				r.Threads = goruntime.GOMAXPROCS(0)
			}
			r.Shape, r.Batch, r.Length = sizes.text, sizes.batch, sizes.length
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout(), model.Graph())
		},
	}
	modelCompletion(cmd)
	cmd.Flags().Var(&s, "shape", "sizes of the inputs: samples x steps, or by name")
	inputs.register(cmd)
	outputsVar(cmd, &f.outputs, "outputs that a run computes: `NAMES` with commas (default: all but the state after "+
		"the last step)")
	f.register(cmd)
	f.registerLow(cmd)
	f.registerSkip(cmd)
	repeat = whole{0, 1}
	cmd.Flags().Var(&repeat, "repeat", "number of runs (default: as many as take two seconds)")
	cmd.Flags().Lookup("repeat").DefValue = ""
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// tryRun runs the model once.
func tryRun(cmd *cobra.Command, model *runtime.Model, in map[string]tensor.Datum) error {
	s := model.NewSession()
	defer s.Close()
	_, err := s.Run(cmd.Context(), in)
	return err
}

// benchmark is the result of bench. Times are of one run.
type benchmark struct {
	Model     string      `json:"model"`
	Device    string      `json:"device"`
	Kernel    string      `json:"kernel"`
	Precision string      `json:"precision"`
	Threads   int         `json:"threads"`
	Outputs   []string    `json:"outputs"`
	Shape     string      `json:"shape"`
	Batch     int64       `json:"batch"`
	Length    int64       `json:"length"`
	Runs      int         `json:"runs"`
	MedianMS  float64     `json:"median_ms"`
	MeanMS    float64     `json:"mean_ms"`
	MinMS     float64     `json:"min_ms"`
	P10MS     float64     `json:"p10_ms"`
	P90MS     float64     `json:"p90_ms"`
	P99MS     float64     `json:"p99_ms"`
	Flops     int64       `json:"flops"`  // per run, as operators count them
	Gflops    float64     `json:"gflops"` // per second, at the median
	Memory    int64       `json:"working_memory_bytes"`
	Ops       []stepShare `json:"ops"`
}

// answers returns the names of a model's outputs but for the state of its layers, or none for all.
func answers(m *open.Model) ([]string, error) {
	g, err := m.Source()
	if err != nil {
		return nil, err
	}
	pairs, err := stepgraph.Pairs(g, ir.MetaState)
	if err != nil {
		return nil, nil // only streams need them
	}
	var names []string
	for _, v := range g.Outputs {
		if v.Name != models.StateOut && !slices.ContainsFunc(pairs,
			func(p stepgraph.Pair) bool { return p.Out == v.Name }) {
			names = append(names, v.Name)
		}
	}
	return names, nil
}

// stepShare is the time of one step in a profiled run.
type stepShare struct {
	Name  string  `json:"name"`
	Op    string  `json:"op"`
	Form  string  `json:"form,omitempty"`
	MS    float64 `json:"ms"`
	Share float64 `json:"share"`
	// values are the names of the first outputs of its nodes.
	values []string
}

func bench(cmd *cobra.Command, model *runtime.Model, in map[string]tensor.Datum, dims map[string]int64,
	repeat int) (*benchmark, error) {
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
		if repeat > 0 && len(times) >= repeat || repeat == 0 &&
			(len(times) >= benchMax || len(times) >= benchMin && time.Since(began) > benchTime) {
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
	r.MedianMS, r.P10MS, r.P90MS, r.P99MS = quantile(times, 0.5), quantile(times, 0.1), quantile(times, 0.9),
		quantile(times, 0.99)
	g := model.Graph().Clone()
	for _, p := range model.Outputs() {
		r.Outputs = append(r.Outputs, p.Name)
	}
	g.SelectOutputs(r.Outputs, func(*ir.Value) bool { return true })
	for _, n := range g.Nodes {
		r.Flops += ops.WorkOf(n, dims).Flops
	}
	if r.MedianMS > 0 {
		r.Gflops = float64(r.Flops) / r.MedianMS / 1e6
	}
	return r, nil
}

// warmUp runs the model twice: the first run plans and allocates, the second finds caches warm. It returns outputs that
// RunInto can overwrite.
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

// profiledRuns is the number of runs for the table of steps.
const profiledRuns = 5

// profile measures the steps of a few runs, after a first one that plans and finds caches cold.
func (r *benchmark) profile(cmd *cobra.Command, model *runtime.Model, in map[string]tensor.Datum) error {
	s := model.NewSession()
	defer s.Close()
	runs := min(profiledRuns, r.Runs)
	step, done := bar(cmd, 1+runs, "timing steps")
	defer done()
	var first []runtime.StepTime
	for i := range 1 + runs {
		if _, err := s.Run(cmd.Context(), in); err != nil {
			return err
		}
		if i == 0 {
			first = slices.Clone(s.Profile())
		}
		step()
	}
	total := time.Duration(0)
	profile := slices.Clone(s.Profile())
	for i := range profile {
		if len(first) == len(profile) { // not if a branch was taken for the first time later
			profile[i].Time -= first[i].Time
		}
		total += profile[i].Time
	}
	for _, p := range profile {
		share := 0.0
		if total > 0 {
			share = float64(p.Time) / float64(total)
		}
		r.Ops = append(r.Ops, stepShare{p.Name, p.Op, p.Form, float64(p.Time) / 1e6 / float64(runs), share, p.Values})
	}
	return nil
}

// print writes the result for people. g is the graph, with all outputs.
func (r *benchmark) print(w io.Writer, g *ir.Graph) error {
	ms := func(v float64) string { return duration(time.Duration(v * 1e6)) }
	shape := r.Shape
	if shape != "" {
		shape += ", "
	}
	kernel := r.Kernel
	if r.Precision != "float32" {
		kernel += ", " + r.Precision
	}
	fmt.Fprintf(w, "%s  %s%s, kernel %s, %s\n\n", r.Model, shape, r.Device, kernel, plural(r.Threads, "thread"))
	fmt.Fprintf(w, "  median   %s\n  min      %s\n  p10      %s\n  p90      %s\n  p99      %s\n", ms(r.MedianMS),
		ms(r.MinMS), ms(r.P10MS), ms(r.P90MS), ms(r.P99MS))
	fmt.Fprintf(w, "  runs     %d\n", r.Runs)
	if len(r.Outputs) < len(g.Outputs) {
		var without []string
		for _, v := range g.Outputs {
			if !slices.Contains(r.Outputs, v.Name) {
				without = append(without, v.Name)
			}
		}
		fmt.Fprintf(w, "  outputs  %s, without %s\n", strings.Join(r.Outputs, ", "), strings.Join(without, ", "))
	}
	fmt.Fprintf(w, "  work     %.3g GFLOP, %.3g GFLOP/s\n", float64(r.Flops)/1e9, r.Gflops)
	if r.Memory > 0 {
		fmt.Fprintf(w, "  memory   %s\n", byteCount(r.Memory))
	}
	if len(r.Ops) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	columns := []table.Column{{Title: "step", Width: 60}, {Title: "operator"}, {Title: "form"},
		{Title: "time", Right: true}, {Title: "share", Right: true}}
	var rows [][]string
	steps := slices.Clone(r.Ops)
	slices.SortStableFunc(steps, func(a, b stepShare) int { return cmp.Compare(b.MS, a.MS) })
	for _, s := range steps {
		rows = append(rows, []string{s.Name, s.Op, s.Form, ms(s.MS),
			strconv.FormatFloat(100*s.Share, 'f', 1, 64) + "%"})
	}
	return table.Print(w, columns, rows)
}
