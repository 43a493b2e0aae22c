package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/grad"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/train/optim"
	"github.com/essmc/essmc/train/schedule"
)

// Group is parameters with one optimizer and one base rate.
type Group struct {
	Name string
	// Patterns select parameters by name, as in open.Options.Parameters; nil: all that no group before has.
	Patterns []string
	Rule     optim.Rule
	Rate     float64
}

// Options are the settings of training.
type Options struct {
	Loss   Loss
	Groups []Group
	// Frozen are patterns of parameters that do not change.
	Frozen []string
	// Schedule gives the rate of each step from the base rate of a group; nil: the base rate.
	Schedule schedule.Schedule
	// ClipNorm is the largest norm of all gradients together; larger ones are scaled. 0: none is.
	ClipNorm float64
	// Average is the decay of an exponential moving average of the parameters; 0: there is none.
	Average float64
	// Momentum is the weight of a batch in the running statistics of batch norms; 0: 0.1.
	Momentum float64
	// MaxSkipped is how many steps in a row may be skipped because their gradients are not finite; 0: 10.
	MaxSkipped int64

	Backend runtime.Backend
	// Threads is the number of goroutines of a step; 0: GOMAXPROCS. Answers do not depend on it.
	Threads   int
	Precision tensor.DType // Float64 for the ref backend; 0: Float32
}

// Names of the values that a training graph has besides the model's.
const (
	LossOutput = "train.loss"
	NormOutput = "train.norm" // of all gradients, before clipping
	prefix     = "train."
)

// Report is what a step has done.
type Report struct {
	Step    int64 // steps done, with this one
	Loss    float64
	Norm    float64 // of all gradients, before clipping
	Skipped bool    // the norm is not finite: all parameters are as before
}

// Trainer trains one model. One goroutine uses it at a time.
type Trainer struct {
	o       Options
	graph   *ir.Graph // as it is run
	model   *runtime.Model
	set     *runtime.Set
	session *runtime.Session
	numbers []number
	weights []string // the names of the model's own parameters
	in, out map[string]tensor.Datum
	step    int64
	skipped int64 // in a row
	total   int64 // skipped steps
}

// number is a scalar input that differs from step to step.
type number struct {
	group, index int
	name         string
	value        *tensor.Tensor
}

// New compiles the step of training for a model: the graph of its answer, whose weights are parameters
// (models.BuildOptions), as its source states it. g is not changed. The first output is what the loss compares with the
// labels. Batch norms get the statistics of the batch, and update their running ones (grad.Train).
func New(ctx context.Context, g *ir.Graph, o Options) (*Trainer, error) {
	if o.Schedule == nil {
		o.Schedule = schedule.Constant{}
	}
	o.MaxSkipped, o.Momentum = cmp.Or(o.MaxSkipped, 10), cmp.Or(o.Momentum, 0.1)
	if err := check(o); err != nil {
		return nil, err
	}
	t := &Trainer{o: o, graph: g.Clone(), in: map[string]tensor.Datum{}, out: map[string]tensor.Datum{}}
	for _, p := range g.Parameters {
		t.weights = append(t.weights, p.Name)
	}
	if err := t.build(ctx); err != nil {
		return nil, err
	}
	if err := passes.Run(t.graph, passes.Pipeline(), passes.Options{Context: ctx}); err != nil {
		return nil, err
	}
	var err error
	t.model, err = runtime.New(t.graph, runtime.Options{Backend: o.Backend, Threads: o.Threads, Precision: o.Precision,
		Context: ctx})
	if err != nil {
		return nil, err
	}
	t.set, t.session = t.model.NewSet(), t.model.NewSession()
	if err := t.session.Use(t.set); err != nil {
		return nil, errors.Join(err, t.model.Close())
	}
	return t, nil
}

func check(o Options) error {
	if o.Loss == nil || len(o.Groups) == 0 || o.Backend == nil {
		return errors.New("train: expected a loss, groups of parameters and a backend")
	}
	for _, g := range o.Groups {
		if g.Rule == nil || !(g.Rate >= 0) || math.IsInf(g.Rate, 0) {
			return fmt.Errorf("group %q: expected an optimizer and a rate of 0 or more, found %v and %g", g.Name, g.Rule, g.Rate)
		}
		if err := g.Rule.Check(); err != nil {
			return fmt.Errorf("group %q: %w", g.Name, err)
		}
	}
	if !(o.ClipNorm >= 0) || !(o.Average >= 0 && o.Average < 1) {
		return fmt.Errorf("train: expected a norm of 0 or more and an average from 0 to below 1, found %g and %g", o.ClipNorm, o.Average)
	}
	return schedule.Check(o.Schedule)
}

// build adds loss, gradients, optimizer and updates to the graph.
func (t *Trainer) build(ctx context.Context) error {
	g := t.graph
	if len(g.Outputs) == 0 {
		return errors.New("the model has no output")
	}
	answer := g.Outputs[0]
	out, ok := answer.Type.(*ir.TensorType)
	if !ok {
		return fmt.Errorf("output %s: expected a tensor, found %v", answer.Name, answer.Type)
	}
	if _, err := t.o.Loss.labels(out); err != nil {
		return fmt.Errorf("output %s: %w", answer.Name, err)
	}
	if _, err := grad.Train(g, t.o.Momentum); err != nil {
		return err
	}
	g.Outputs = slices.DeleteFunc(g.Outputs, func(v *ir.Value) bool { // states of streams, and the like
		return v != answer && !slices.ContainsFunc(g.Updates, func(u ir.Update) bool { return u.Output == v })
	})
	b := passes.Edit(g)
	loss := t.o.Loss.add(b, answer)
	if err := b.Err(); err != nil {
		return err
	}
	group, err := t.groups()
	if err != nil {
		return err
	}
	var wrt []*ir.Value
	for _, p := range g.Parameters {
		if _, ok := group[p]; ok {
			wrt = append(wrt, p)
		}
	}
	if len(wrt) == 0 {
		return errors.New("train: no parameter is left to train")
	}
	if err := g.Sort(); err != nil {
		return err
	}
	gradients, err := grad.Of(ctx, g, loss, wrt)
	if err != nil {
		return err
	}
	return t.addStep(wrt, gradients, group, loss)
}

// groups returns the group of each parameter that is trained.
func (t *Trainer) groups() (map[*ir.Value]int, error) {
	of := map[*ir.Value]int{}
	frozen := patterns.New(t.o.Frozen)
	selected := make([]*patterns.Set, len(t.o.Groups))
	for i, g := range t.o.Groups {
		selected[i] = patterns.New(g.Patterns)
	}
	for _, p := range t.graph.Parameters {
		if !p.Elem().IsFloat() || frozen.Select(p.Name, p.Elem()) ||
			slices.ContainsFunc(t.graph.Updates, func(u ir.Update) bool { return u.Parameter == p }) {
			continue
		}
		i := slices.IndexFunc(selected, func(s *patterns.Set) bool { return s.Select(p.Name, p.Elem()) })
		if i < 0 {
			i = slices.IndexFunc(t.o.Groups, func(g Group) bool { return g.Patterns == nil })
		}
		if i < 0 {
			return nil, fmt.Errorf("parameter %s: no group selects it; name it in frozen, or add a group without patterns", p.Name)
		}
		of[p] = i
	}
	for i, s := range selected {
		if err := s.Err("parameters"); err != nil {
			return nil, fmt.Errorf("group %q: %w", t.o.Groups[i].Name, err)
		}
	}
	if err := frozen.Err("parameters"); err != nil {
		return nil, fmt.Errorf("frozen: %w", err)
	}
	return of, nil
}

// addStep adds the optimizers' nodes and the updates.
func (t *Trainer) addStep(wrt, gradients []*ir.Value, group map[*ir.Value]int, loss *ir.Value) error {
	b := passes.Edit(t.graph)
	clipped, norm, keep := optim.ClipNorm(b, gradients, t.o.ClipNorm)
	numbers := make([][]*ir.Value, len(t.o.Groups))
	for i, g := range t.o.Groups {
		for k, name := range g.Rule.Numbers() {
			n := number{group: i, index: k, name: fmt.Sprintf("%s%d.%s", prefix, i, name),
				value: tensor.FromSlice([]float32{0})}
			t.numbers = append(t.numbers, n)
			numbers[i] = append(numbers[i], b.Input(n.name, ir.Tensor(tensor.Float32)))
		}
	}
	own := t.graph.Updates // of running statistics
	t.graph.Updates = nil
	update := func(p, next *ir.Value) {
		b.Output(prefix+"next."+p.Name, next)
		if b.Err() == nil {
			b.Update(p, t.graph.Outputs[len(t.graph.Outputs)-1])
		}
	}
	for _, u := range own {
		x := scalar.Inputs(3)
		t.graph.Outputs = slices.DeleteFunc(t.graph.Outputs, func(v *ir.Value) bool { return v == u.Output })
		update(u.Parameter, ops.MapOf(b, scalar.Select(x[2], x[0], x[1]), u.Output, u.Parameter, keep))
	}
	moment := func(kind string, p *ir.Value, zero bool) *ir.Value {
		content := p.Init.Clone()
		if zero {
			clear(content.Bytes())
		}
		return b.Parameter(prefix+kind+"."+p.Name, content)
	}
	for i, p := range wrt {
		r := t.o.Groups[group[p]].Rule
		var moments []*ir.Value
		for _, name := range r.Moments() {
			moments = append(moments, moment(name, p, true))
		}
		next, nextMoments := optim.Update(b, r, optim.Step{Parameter: p, Gradient: clipped[i], Moments: moments,
			Numbers: numbers[group[p]], Keep: keep})
		for k, m := range moments {
			update(m, nextMoments[k])
		}
		if t.o.Average > 0 {
			a := moment("average", p, false)
			update(a, optim.Average(b, a, next, t.o.Average))
		}
		update(p, next)
	}
	b.Output(LossOutput, loss)
	b.Output(NormOutput, norm)
	return b.Err()
}

// Step does one step on a batch: the model's inputs, and Labels. It replaces the parameters by their next content,
// unless the gradients are not finite; after MaxSkipped of such steps in a row it returns an error. A step that fails
// leaves all parameters as they were.
func (t *Trainer) Step(ctx context.Context, batch map[string]tensor.Datum) (Report, error) {
	clear(t.in)
	maps.Copy(t.in, batch)
	for _, n := range t.numbers {
		g := t.o.Groups[n.group]
		all := g.Rule.At(t.o.Schedule.Rate(g.Rate, t.step), t.step+1)
		tensor.Data[float32](n.value)[0] = float32(all[n.index])
		t.in[n.name] = n.value
	}
	if err := t.session.RunInto(ctx, t.in, t.out); err != nil {
		return Report{}, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	r := Report{Step: t.step + 1, Loss: number64(t.out[LossOutput]), Norm: number64(t.out[NormOutput])}
	r.Skipped = !(r.Norm <= math.MaxFloat32)
	t.step++
	if !r.Skipped {
		t.skipped = 0
		return r, nil
	}
	t.total++
	if t.skipped++; t.skipped > t.o.MaxSkipped {
		return r, fmt.Errorf("step %d: the gradients of %d steps in a row are not finite; the parameters are those before. "+
			"Try a smaller learning rate, or a smaller norm of gradients", r.Step, t.skipped)
	}
	return r, nil
}

// number64 returns a scalar.
func number64(d tensor.Datum) float64 {
	x, err := d.(*tensor.Tensor).Float64s()
	if err != nil || len(x) != 1 {
		return math.NaN()
	}
	return x[0]
}

// Answer returns the first output of the last step: what the model answered to its batch, before the parameters
// changed. The next step overwrites it.
func (t *Trainer) Answer() *tensor.Tensor {
	a, _ := t.out[t.graph.Outputs[0].Name].(*tensor.Tensor)
	return a
}

// Observe gives the metric of an evaluation to the schedule, if that depends on it.
func (t *Trainer) Observe(metric float64) {
	if o, ok := t.o.Schedule.(schedule.Observer); ok {
		o.Observe(metric)
	}
}

// Rates returns the learning rate of each group at the next step.
func (t *Trainer) Rates() []float64 {
	rates := make([]float64, len(t.o.Groups))
	for i, g := range t.o.Groups {
		rates[i] = t.o.Schedule.Rate(g.Rate, t.step)
	}
	return rates
}

// Graph returns the graph of a step, as it is run. It must not be changed.
func (t *Trainer) Graph() *ir.Graph { return t.graph }

// Weights returns the model's parameters, with the names of its graph.
func (t *Trainer) Weights() (map[string]*tensor.Tensor, error) { return t.read(t.weights, "") }

// Averages returns the moving averages of the parameters, and the other parameters as they are.
func (t *Trainer) Averages() (map[string]*tensor.Tensor, error) {
	all, err := t.Weights()
	if err != nil || t.o.Average == 0 {
		return all, err
	}
	state, err := t.State()
	for name := range all {
		if a := state.Tensors["average."+name]; a != nil {
			all[name] = a
		}
	}
	return all, err
}

// State is what a trainer needs to go on, besides the model's parameters.
type State struct {
	Step    int64 `json:"step"`
	Skipped int64 `json:"skipped"` // in a row
	Total   int64 `json:"total_skipped"`
	// Tensors are the moments and averages, by kind and parameter: "exp_avg.encoder.weight".
	Tensors map[string]*tensor.Tensor `json:"-"`
}

// State returns the state after the last step.
func (t *Trainer) State() (State, error) {
	s := State{Step: t.step, Skipped: t.skipped, Total: t.total}
	var names []string
	for _, p := range t.graph.Parameters {
		if strings.HasPrefix(p.Name, prefix) {
			names = append(names, p.Name)
		}
	}
	var err error
	s.Tensors, err = t.read(names, prefix)
	return s, err
}

// read returns copies of parameters, by their names without a prefix.
func (t *Trainer) read(names []string, prefix string) (map[string]*tensor.Tensor, error) {
	all := map[string]*tensor.Tensor{}
	if len(names) == 0 {
		return all, nil
	}
	content, err := t.set.Read(names...)
	if err != nil {
		return nil, err
	}
	for name, d := range content {
		all[strings.TrimPrefix(name, prefix)] = d.(*tensor.Tensor)
	}
	return all, nil
}

// Restore makes the trainer go on where another one with the same options was, whose weights and state these are: all
// of its parameters, moments and averages.
func (t *Trainer) Restore(ctx context.Context, weights map[string]*tensor.Tensor, s State) error {
	content := map[string]tensor.Datum{}
	for _, p := range t.graph.Parameters {
		name, from := p.Name, weights
		if k, ok := strings.CutPrefix(name, prefix); ok {
			name, from = k, s.Tensors
		}
		if from[name] == nil {
			return fmt.Errorf("the state to restore has no %s", name)
		}
		content[p.Name] = from[name]
	}
	if err := t.set.Replace(ctx, content); err != nil {
		return err
	}
	t.step, t.skipped, t.total = s.Step, s.Skipped, s.Total
	return nil
}

// Close releases the memory of the trainer.
func (t *Trainer) Close() error { return t.model.Close() }
