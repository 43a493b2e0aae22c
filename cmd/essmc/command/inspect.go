package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime/cpu"
)

func newInspectCommand() *cobra.Command {
	var asJSON, withStates bool
	var file string
	var out target
	var s shape
	cmd := &cobra.Command{
		Use:     "inspect MODEL",
		Short:   "Show a model's inputs, outputs, operators, and memory",
		GroupID: groupLook,
		Long: `Inspect shows a model's inputs and outputs, its parameters by part, its operators before
and after the passes, how it moves data along time, and the memory that it needs. It
tells whether the model can run as a stream, and if not, what prevents it, and names
nodes that will be slow on the cpu backend, since it has no kernel for them.

--states shows the state-space systems instead: continuous and discrete eigenvalues (λ
and λ̄), step sizes Δ, memory lengths and gains, by layer and head. With -o it writes a
page with figures, a table with a row for each state, or a picture. Memory is the number
of steps in which an impulse decays to 1/e. Gains are those of a head: of constant
inputs, and the largest over all frequencies. Models that were compiled, and ONNX files,
have discrete systems only, so λ is then λΔ.`,
		Example: `  essmc inspect model
  essmc inspect model.essm --shape 16x4096
  essmc inspect model.onnx --shape input=1,16000
  essmc inspect model --json
  essmc inspect model --states
  essmc inspect model --states -o states.html`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkStates(cmd, withStates, file, args[0], &out, asJSON); err != nil {
				return err
			}
			m, err := readModel(cmd, args[0], open.Options{Shapes: s.named})
			if err != nil {
				return err
			}
			if withStates {
				return inspectStates(cmd, m, file)
			}
			r, err := busy(cmd, "compiling", func() (*inspection, error) { return inspect(m, s, tunedOptions(cmd)) })
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	modelCompletion(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&withStates, "states", false, "show eigenvalues, step sizes, memory lengths and gains")
	cmd.Flags().StringVarP(&file, "output", "o", "", "with --states: write to `FILE`.html, .csv or .png")
	complete(cmd, "output", filesOf("html", "csv", "png"))
	out.register(cmd)
	cmd.Flags().Var(&s, "shape", "sizes for the working memory: samples x steps, or by name (default 1x1024)")
	return cmd
}

// writeLine writes an object on one line.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeJSON writes an object on several lines, for people.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// inspection is the result of inspect.
type inspection struct {
	Model       string            `json:"model"`
	Kind        string            `json:"kind"`
	Meta        map[string]string `json:"meta"`
	Inputs      []portReport      `json:"inputs"`
	Outputs     []portReport      `json:"outputs"`
	Labels      []string          `json:"labels,omitempty"`
	Replaceable []parameterReport `json:"replaceable,omitempty"`
	Parameters  int64             `json:"parameters"`
	Parts       []partReport      `json:"parts"`
	Ops         []opReport        `json:"ops"`
	Time        *timeReport       `json:"time,omitempty"`
	Memory      memoryReport      `json:"memory"`
	Slow        []string          `json:"slow,omitempty"` // nodes that have no kernel on the cpu backend
	config      string            // a line about the configuration of a model directory
	plan        bool
}

type portReport struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
	// Keys are those of the columns, where the model's file has maps.
	Keys []any `json:"keys,omitempty"`
}

// parameterReport describes a parameter, whose content may be replaced.
type parameterReport struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Update string `json:"update,omitempty"` // the output that a run may write into it
}

// partReport describes the weights of one part of the model: constants and parameters.
type partReport struct {
	Part       string `json:"part"`
	Tensors    int    `json:"tensors"`
	Parameters int64  `json:"parameters"` // trained numbers
	Bytes      int64  `json:"bytes"`
}

// opReport is the number of nodes of one operator.
type opReport struct {
	Op       string `json:"op"`
	Written  int    `json:"written"`
	Compiled int    `json:"compiled"`
	// Condition is the largest condition number of the eigenvectors of systems that are too ill-conditioned to be
	// diagonal.
	Condition float64 `json:"condition,omitempty"`
}

// timeReport describes how the model moves data along time.
type timeReport struct {
	Symbol     string       `json:"symbol"`
	Streamable bool         `json:"streamable"`
	Blocker    string       `json:"blocker,omitempty"`
	State      int64        `json:"state"` // numbers per stream
	Parts      []factReport `json:"parts"`
}

type factReport struct {
	Part  string `json:"part"`
	Fact  string `json:"fact"`
	fact  ir.Fact
	State int64 `json:"state"`
}

type memoryReport struct {
	Shape   string `json:"shape"`
	Weights int64  `json:"weights"` // of the graph after the passes
	Working int64  `json:"working"` // on the cpu backend, for the shape; 0: unknown
	// Error says why the model cannot run, or why no shape was found.
	Error string `json:"error,omitempty"`
}

func inspect(m *open.Model, s shape, options []cpu.Option) (*inspection, error) {
	source, err := m.Source()
	if err != nil {
		return nil, err
	}
	g, err := m.Graph()
	if err != nil {
		return nil, err
	}
	r := &inspection{Model: m.Name, Kind: kindName(m.Kind),
		Meta:   source.Meta,
		Inputs: ports(source, source.Inputs), Outputs: ports(source, source.Outputs), Labels: classNames(source.Meta),
		plan: m.Kind == open.Plan}
	r.Replaceable = parameterPorts(source)
	r.Parts = parts(source, m.Config)
	for _, p := range r.Parts {
		r.Parameters += p.Parameters
	}
	if c := m.Config; c != nil {
		common := c.Common()
		direction := "bidirectional"
		if common.Causal {
			direction = "causal"
		}
		r.config = strings.Join(append([]string{c.Type(), fmt.Sprintf("%s of %d features",
			plural(common.Layers, "layer"), common.Width), direction}, common.Details...), ", ")
	}
	r.Ops = countOps(source, g)
	r.Time = alongTime(source)
	if t := r.Time; t != nil {
		t.fromSteps(g)
	}
	for _, t := range weightsOf(g) {
		r.Memory.Weights += byteSize(t)
	}
	sizes, err := s.sizes(g, m.Dims, func(dims map[string]int64) error {
		r.Slow = nil
		_, err := planned(g, dims, 0, options, onWarning(func(message string) { r.Slow = append(r.Slow, message) }))
		return err
	})
	if err == nil {
		r.Memory.Shape = sizes.text
		r.Memory.Working, err = workingMemory(g, sizes.dims, options)
	}
	if err != nil && s.given() {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	if err != nil { // without a given shape, the rest is of use
		r.Memory.Error, r.Slow = oneLine(err.Error()), nil
	}
	return r, nil
}

// kindName returns the name of a kind without its article.
func kindName(k open.Kind) string {
	return strings.TrimPrefix(strings.TrimPrefix(k.String(), "a "), "an ")
}

func ports(g *ir.Graph, values []*ir.Value) []portReport {
	out := make([]portReport, len(values))
	for i, v := range values {
		t, optional := v.Type, false
		if o, ok := t.(*ir.OptionalType); ok {
			t, optional = o.Elem, true
		}
		out[i] = portReport{Name: v.Name, Type: t.String(), Optional: optional}
		if text := g.Meta[ir.MetaKeys+v.Name]; text != "" {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if d.Decode(&out[i].Keys) != nil {
				out[i].Keys = nil
			}
		}
	}
	return out
}

// parameterPorts describes the parameters of a graph.
func parameterPorts(g *ir.Graph) []parameterReport {
	update := map[*ir.Value]string{}
	for _, u := range g.Updates {
		update[u.Parameter] = u.Output.Name
	}
	var out []parameterReport
	for _, v := range g.Parameters {
		out = append(out, parameterReport{Name: v.Name, Type: v.Type.String(), Update: update[v]})
	}
	return out
}

// weightsOf lists the tensors of a graph's constants and parameters.
func weightsOf(g *ir.Graph) []*tensor.Tensor {
	var out []*tensor.Tensor
	for _, v := range g.Constants() {
		out = append(out, v.Const)
	}
	for _, v := range g.Parameters {
		out = append(out, v.Init)
	}
	return out
}

// content is the tensor of a constant or parameter, or nil.
func content(v *ir.Value) *tensor.Tensor {
	if v.Init != nil {
		return v.Init
	}
	return v.Const
}

func byteSize(t *tensor.Tensor) int64 {
	n := int64(len(t.Bytes()))
	for _, s := range t.Strings() {
		n += int64(len(s))
	}
	return n
}

// parts counts the constants and parameters by the first part of the model that reads them. Of a model directory, whose
// configuration is given, these are its tensors alone. Integers (axes, shapes) and running statistics are not
// parameters.
func parts(g *ir.Graph, c models.Config) []partReport {
	statistic := map[string]bool{} // by tensor of the directory
	if c != nil {
		// the model has been built, so there is no error; the names of statistics depend on no sizes
		specs, _ := c.Specs(nil)
		for _, s := range specs {
			statistic[s.Name] = s.Statistic
		}
	}
	var out []partReport
	at := map[string]int{}
	seen := map[*ir.Value]bool{}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		for _, v := range n.Inputs {
			if v == nil || content(v) == nil || seen[v] || !v.Elem().IsFloat() && !v.Elem().IsComplex() {
				continue
			}
			if c != nil && !strings.Contains(v.Name, ".") { // no tensor of the model
				continue
			}
			fixed := statistic[v.Name] || strings.HasSuffix(v.Name, ".running_mean") ||
				strings.HasSuffix(v.Name, ".running_var")
			seen[v] = true
			i, ok := at[n.Scope]
			if !ok {
				i = len(out)
				at[n.Scope] = i
				out = append(out, partReport{Part: n.Scope})
			}
			p := &out[i]
			p.Tensors++
			p.Bytes += byteSize(content(v))
			if !fixed {
				p.Parameters += int64(content(v).Len())
			}
		}
		return nil
	})
	return out
}

func countOps(source, compiled *ir.Graph) []opReport {
	count := map[string]*opReport{}
	add := func(g *ir.Graph, one func(*opReport, *ir.Node)) {
		_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
			name := n.Op.FullName()
			if count[name] == nil {
				count[name] = &opReport{Op: name}
			}
			one(count[name], n)
			return nil
		})
	}
	add(source, func(r *opReport, _ *ir.Node) { r.Written++ })
	add(compiled, func(r *opReport, n *ir.Node) {
		r.Compiled++
		r.Condition = max(r.Condition, n.Attrs.Float("condition", 0))
	})
	var out []opReport
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, *count[name])
	}
	return out
}

func alongTime(g *ir.Graph) *timeReport {
	facts := ops.TimeFacts(g)
	if facts == nil {
		return nil
	}
	r := &timeReport{Symbol: facts.Symbol, State: facts.State(), Streamable: true}
	if b := facts.Blocker(); b != nil {
		r.Streamable, r.Blocker = false, b.String()
	}
	for _, n := range g.Nodes {
		at := slices.IndexFunc(r.Parts, func(p factReport) bool { return p.Part == n.Scope })
		if at < 0 {
			at, r.Parts = len(r.Parts), append(r.Parts, factReport{Part: n.Scope})
		}
		p := &r.Parts[at]
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			f := facts.Of(v)
			p.State += f.State
			if i == 0 {
				f.State = 0
				p.Fact, p.fact = f.String(), f
			}
		}
	}
	r.Parts = slices.DeleteFunc(r.Parts, func(p factReport) bool { return p.Fact == ir.Fact{}.String() })
	return r
}

// dependence describes the steps of the input that a step of a value depends on.
func dependence(f ir.Fact) string {
	count := func(k int64) string {
		if k >= ir.Unbounded {
			return "all"
		}
		return strconv.FormatInt(k, 10)
	}
	s := "itself"
	switch {
	case f.Global:
		return "the whole sequence"
	case f.Back > 0 && f.Ahead > 0:
		s = fmt.Sprintf("%s before, %s after", count(f.Back), count(f.Ahead))
	case f.Back > 0:
		s = count(f.Back) + " before"
	case f.Ahead > 0:
		s = count(f.Ahead) + " after"
	}
	if f.Stride > 1 {
		s += fmt.Sprintf(", one per %d steps", f.Stride)
	}
	return s
}

// axis returns the index of a value's time axis as text.
func axis(f ir.Fact) string {
	if f.Axis < 0 {
		return "none"
	}
	return strconv.Itoa(f.Axis)
}

// fromSteps records that the model can run as a stream, if its compiled graph has a step graph, and its state: all but
// counters of steps.
func (r *timeReport) fromSteps(compiled *ir.Graph) {
	sg, err := stepgraph.Of(compiled)
	if err != nil {
		return
	}
	r.Streamable, r.Blocker, r.State = true, "", 0
	for i := range r.Parts {
		r.Parts[i].State = 0
	}
	for _, s := range sg.States {
		n := int64(1)
		for _, d := range s.Shape {
			if k, err := d.Eval(map[string]int64{compiled.Meta[ir.MetaBatch]: 1}); err == nil {
				n *= k
			}
		}
		if n > 2 || !s.DType.IsInt() {
			r.State += n
			if i := slices.IndexFunc(r.Parts, func(p factReport) bool { return p.Part == s.Scope }); i >= 0 {
				r.Parts[i].State += n
			}
		}
	}
}

func (r *inspection) print(w io.Writer) error {
	fmt.Fprintf(w, "%s  %s\n", r.Model, r.Kind)
	if r.config != "" {
		fmt.Fprintf(w, "%s\n", r.config)
	}
	if rate := feed.SamplingRate(r.Meta); rate > 0 {
		fmt.Fprintf(w, "sampled at %.6g Hz\n", rate)
	}
	if rate := r.Meta[ir.MetaRate]; rate != "" {
		fmt.Fprintf(w, "resampled by %s\n", rate)
	}
	if err := printPorts(w, "Inputs", r.Inputs); err != nil {
		return err
	}
	if err := printPorts(w, "Outputs", r.Outputs); err != nil {
		return err
	}
	if len(r.Labels) > 0 {
		fmt.Fprintf(w, "\nClasses: %s\n", oneLine(list(r.Labels, 12)))
	}
	if err := r.printReplaceable(w); err != nil {
		return err
	}
	title := "Parameters"
	if r.plan {
		title = "Constants after the passes"
	}
	if err := r.printParts(w, title); err != nil {
		return err
	}
	if err := r.printOps(w); err != nil {
		return err
	}
	if err := r.printTime(w); err != nil {
		return err
	}
	r.printMemory(w)
	if len(r.Slow) > 0 {
		fmt.Fprintf(w, "\nSlow\n")
		for _, line := range r.Slow {
			fmt.Fprintf(w, "  %s\n", oneLine(line))
		}
	}
	return nil
}

// printPorts prints inputs or outputs.
func printPorts(w io.Writer, title string, all []portReport) error {
	fmt.Fprintf(w, "\n%s\n", title)
	var rows [][]string
	for _, p := range all {
		optional := ""
		if p.Optional {
			optional = "optional"
		}
		if len(p.Keys) > 0 {
			words := make([]string, len(p.Keys))
			for i, k := range p.Keys {
				words[i] = fmt.Sprint(k)
			}
			optional = strings.TrimSpace(optional + " maps of " + oneLine(list(words, 8)))
		}
		rows = append(rows, []string{p.Name, p.Type, optional})
	}
	return table.Print(w, []table.Column{{Title: "name"}, {Title: "type"}, {Title: ""}}, rows)
}

// printReplaceable prints the parameters whose content may be replaced.
func (r *inspection) printReplaceable(w io.Writer) error {
	if len(r.Replaceable) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nReplaceable parameters\n")
	var rows [][]string
	for _, p := range r.Replaceable[:min(len(r.Replaceable), mostReplaceable)] {
		update := ""
		if p.Update != "" {
			update = "updated by " + p.Update
		}
		rows = append(rows, []string{p.Name, p.Type, update})
	}
	if err := table.Print(w, []table.Column{{Title: "name"}, {Title: "type"}, {Title: ""}}, rows); err != nil {
		return err
	}
	if n := len(r.Replaceable) - len(rows); n > 0 {
		fmt.Fprintf(w, "  and %d more; --json lists all\n", n)
	}
	return nil
}

// printOps prints how many nodes of each operator the source and the compiled graph have.
func (r *inspection) printOps(w io.Writer) error {
	var rows [][]string
	fmt.Fprintf(w, "\nOperators\n")
	for _, o := range r.Ops {
		written := strconv.Itoa(o.Written)
		if r.plan {
			written = ""
		}
		rows = append(rows, []string{o.Op, written, strconv.Itoa(o.Compiled)})
	}
	columns := []table.Column{{Title: "operator"}, {Title: "source", Right: true}, {Title: "compiled", Right: true}}
	if err := table.Print(w, columns, rows); err != nil {
		return err
	}
	for _, o := range r.Ops {
		if o.Condition > 0 {
			fmt.Fprintf(w, "  %s has no diagonal form: its eigenvectors have condition numbers up to %.2g\n", o.Op,
				o.Condition)
		}
	}
	return nil
}

// printTime prints how the model moves along time.
func (r *inspection) printTime(w io.Writer) error {
	t := r.Time
	if t == nil {
		return nil
	}
	fmt.Fprintf(w, "\nAlong time (%s)\n", t.Symbol)
	if t.Streamable {
		fmt.Fprintf(w, "  can run as a stream, with a state of %s\n", plural(int(t.State), "number"))
	} else {
		fmt.Fprintf(w, "  cannot run as a stream: %s\n", t.Blocker)
	}
	var rows [][]string
	for _, p := range t.Parts {
		state := ""
		if p.State > 0 {
			state = grouped(p.State)
		}
		rows = append(rows, []string{partName(p.Part), dependence(p.fact), axis(p.fact), state})
	}
	columns := []table.Column{{Title: "part"}, {Title: "a step depends on"}, {Title: "time axis"},
		{Title: "state", Right: true}}
	return table.Print(w, columns, rows)
}

// printMemory prints the memory for weights and for a run.
func (r *inspection) printMemory(w io.Writer) {
	fmt.Fprintf(w, "\nMemory\n  weights  %s\n", byteCount(r.Memory.Weights))
	if r.Memory.Working > 0 {
		what := ""
		if r.Memory.Shape != "" {
			what = " for " + r.Memory.Shape
		}
		fmt.Fprintf(w, "  working  %s%s on the cpu\n", byteCount(r.Memory.Working), what)
	}
	if r.Memory.Error != "" {
		fmt.Fprintf(w, "  working  unknown: %s\n", r.Memory.Error)
	}
}

// mostReplaceable is how many parameters the text lists.
const mostReplaceable = 24

func (r *inspection) printParts(w io.Writer, title string) error {
	if len(r.Parts) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", title)
	var rows [][]string
	tensors, size := 0, int64(0)
	for _, p := range r.Parts {
		rows = append(rows, []string{partName(p.Part), strconv.Itoa(p.Tensors), grouped(p.Parameters),
			byteCount(p.Bytes)})
		tensors, size = tensors+p.Tensors, size+p.Bytes
	}
	rows = append(rows, []string{"total", strconv.Itoa(tensors), grouped(r.Parameters), byteCount(size)})
	columns := []table.Column{{Title: "part"}, {Title: "tensors", Right: true}, {Title: "numbers", Right: true},
		{Title: "size", Right: true}}
	return table.Print(w, columns, rows)
}

func partName(scope string) string {
	if scope == "" {
		return "(model)"
	}
	return scope
}

// list returns the first n names, and the number of others.
func list(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
