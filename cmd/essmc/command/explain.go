package command

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// explainFlags are the options of essmc explain.
type explainFlags struct {
	shape               shape
	page                string
	out                 target
	json                bool
	why, lowered, timed bool
	outputs             []string
	threads             whole
	precision, fallback choice
	on                  device
	source              sourceFlags
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:     "explain MODEL",
		Short:   "Show the work of each pass, and the form of each layer, with reasons",
		GroupID: groupLook,
		Long: `Explain shows what each pass did to the model, and the form (scan, chunked, fft, direct)
of each state-space layer on the cpu backend for a given shape, with the cost estimates
of all forms. For a plan it shows the stored history of the passes. With --precision it
shows which dense products run in that precision, and why the others stay in float32.
--html writes a page that draws the graph before the passes and after each of them: what
a pass has added, removed and changed, and the attributes, inputs and outputs of a node.
The page is one file that loads nothing. With --bench it also shows the time and form of
each step of a run with random inputs.

Sequences begin without a state (state_in). --outputs explains runs that compute only
some outputs: if it need not give its state after the last step, a layer may take
another form.

--why lists near misses: parts of the graph that a pass almost recognized, such as
state-space layers that an exporter has expanded, with the condition that failed.

--device cuda explains runs on an NVIDIA card: with --fallback cpu, the operators that the
processor computes, why, and the copies that they cost.

--lowered prints only the steps that the backend makes of the graph. With --shape it
prints the plan for that shape: the steps that run together, their kernels, and the
places of values in memory.`,
		Example: `  essmc explain model
  essmc explain model.essm --shape 8x16000
  essmc explain model.onnx --why
  essmc explain model --lowered --shape 1x16000
  essmc explain model.onnx --device cuda --fallback cpu
  essmc explain model --html passes.html
  essmc explain model --html passes.html --bench --shape 1x4096`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	modelCompletion(cmd)
	cmd.Flags().Var(&f.shape, "shape", "sizes for the choice of forms: samples x steps, or by name (default 1x1024)")
	outputsVar(cmd, &f.outputs, "explain runs that compute only these outputs: `NAMES` with commas (default: all)")
	deviceVar(cmd, &f.on, "device", "cpu, or cuda, an NVIDIA card")
	fallbackVar(cmd, &f.fallback)
	choiceVar(cmd, &f.precision, "precision", "say which products run in low precision", "float32", "bf16", "int8",
		"tf32")
	f.threads = whole{0, 0}
	cmd.Flags().Var(&f.threads, "threads", "number of threads; 0: all processors")
	cmd.Flags().BoolVar(&f.lowered, "lowered", false, "print the steps that run, and with --shape their plan")
	cmd.Flags().BoolVar(&f.why, "why", false, "list near misses, with the conditions that failed")
	cmd.Flags().StringVar(&f.page, "html", "", "write a page that draws the graph after each pass to `FILE`")
	cmd.Flags().BoolVar(&f.timed, "bench", false, "with --html: run the model, and show the time and form of each step")
	jsonVar(cmd, &f.json, "write passes, near misses and forms as one JSON object")
	complete(cmd, "html", filesOf("html"))
	f.source.registerSkip(cmd)
	f.source.registerParameters(cmd)
	f.out.register(cmd)
	return cmd
}

// run explains the model at a path.
func (f *explainFlags) run(cmd *cobra.Command, path string) error {
	if err := f.out.check(f.page, pageFile, path); err != nil {
		return err
	}
	if f.timed && f.page == "" {
		return usagef("%s: --bench is for the page of --html; essmc bench prints the times", cmd.CommandPath())
	}
	if f.on.value == deviceRef {
		return usagef("%s: --device ref has no forms; expected cpu or cuda", cmd.CommandPath())
	}
	if err := checkFallback(cmd, &f.on, &f.fallback); err != nil {
		return err
	}
	var seen []passes.Snapshot
	var drawn pageMaker
	m, err := readModel(cmd, path, open.Options{Shapes: f.shape.named, Skip: f.source.skip,
		Parameters: f.source.parameters, Observe: func(p passes.Snapshot) {
			if f.page != "" {
				drawn.observe(p)
			}
			p.Graph = nil // valid during the call only
			seen = append(seen, p)
		}})
	if err != nil {
		return wrongSource(path, err)
	}
	g, err := busy(cmd, "compiling", m.Graph)
	drawn.plan(m, g)
	if f.page != "" { // even if a pass has failed: the page shows its result
		if err := drawn.write(f.page, path); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	o := runtime.Options{Threads: f.threads.value, Precision: precisions[f.precision.value], Outputs: f.outputs,
		Copy: ownCopy(m)}
	measured := tuned(cmd)
	o.Backend, err = f.on.backend(f.fallback.value, func() []cpu.Option { return withCosts(measured) })
	if err != nil {
		return err
	}
	model, failed := m.Compile(o)
	if failed == nil {
		defer model.Close()
	}
	if err := wrongOutputs(cmd, failed); err != failed || failed != nil && f.lowered {
		return err
	}
	if f.timed && failed == nil {
		if err := drawn.measure(cmd, m, f.shape, o); err != nil {
			return err
		}
		if err := drawn.write(f.page, path); err != nil {
			return err
		}
	}
	if f.lowered {
		return printLowered(w, m, model, f.shape)
	}
	if f.json {
		return explainJSON(w, m, model, failed, f.shape, f.on.value, passesJSON(seen, g.History))
	}
	if m.Kind == open.Plan {
		fmt.Fprintf(w, "Passes, from the plan's history\n")
		printHistory(w, withoutMisses(g.History), true)
	} else {
		fmt.Fprintf(w, "Passes\n")
		printPasses(w, seen)
	}
	if f.page != "" {
		fmt.Fprintf(w, "  %s shows the graph after each pass\n", f.page)
	}
	printParameters(w, g)
	printMisses(w, g.History, f.why)
	if failed != nil {
		return failed
	}
	return explainForms(w, m, model, f.shape, f.on.kind(), measured)
}

// printParameters names the parameters of a graph and what updates them.
func printParameters(w io.Writer, g *ir.Graph) {
	if len(g.Parameters) == 0 {
		return
	}
	var names []string
	for _, p := range parameterPorts(g) {
		text := p.Name + " " + p.Type
		if p.Update != "" {
			text += " (updated by " + p.Update + ")"
		}
		names = append(names, text)
	}
	fmt.Fprintf(w, "\nReplaceable parameters\n%s\n", indent(wrap(oneLine(list(names, 12)), noteWidth), "  "))
}

func historyLines(history []ir.Event) []string {
	var out []string
	for _, e := range history {
		out = append(out, fmt.Sprintf("%s: %s", e.Pass, plural(e.Changes, "change")))
		out = append(out, e.Notes...)
	}
	return out
}

const noteWidth = 84

// printPasses prints every pass that ran. The description is printed for passes with changes only.
func printPasses(w io.Writer, seen []passes.Snapshot) {
	width := 0
	for _, s := range seen {
		if s.Pass != nil {
			width = max(width, len(s.Pass.Name))
		}
	}
	for _, s := range seen {
		if s.Pass == nil {
			continue
		}
		if s.Event.Changes == 0 && len(s.Event.Notes) == 0 {
			fmt.Fprintf(w, "  %-*s  no changes, %s\n", width, s.Pass.Name, duration(s.Time))
			continue
		}
		fmt.Fprintf(w, "  %-*s  %s, %s\n", width, s.Pass.Name, plural(s.Event.Changes, "change"), duration(s.Time))
		fmt.Fprintf(w, "%s\n", indent(wrap(s.Pass.Doc, noteWidth), "                "))
		printNotes(w, slices.DeleteFunc(slices.Clone(s.Event.Notes), isMiss))
	}
}

// isMiss reports whether a note of a pass is about a near miss.
func isMiss(note string) bool {
	return strings.Contains(note, " left as it is: ") || strings.Contains(note, " is not an essm.SSM: ")
}

func withoutMisses(history []ir.Event) []ir.Event {
	var out []ir.Event
	for _, e := range history {
		e.Notes = slices.DeleteFunc(slices.Clone(e.Notes), isMiss)
		if e.Changes > 0 || len(e.Notes) > 0 {
			out = append(out, e)
		}
	}
	return out
}

// printMisses prints the near misses with their reasons or, without why, their number.
func printMisses(w io.Writer, history []ir.Event, why bool) {
	var misses []ir.Event
	n := 0
	for _, e := range history {
		e.Notes = slices.DeleteFunc(slices.Clone(e.Notes), func(s string) bool { return !isMiss(s) })
		if len(e.Notes) > 0 {
			misses = append(misses, e)
			n += len(e.Notes)
		}
	}
	switch {
	case !why && n > 0:
		fmt.Fprintf(w, "  %s; --why shows them\n", plural(n, "near miss"))
	case why:
		fmt.Fprintf(w, "\nNear misses\n")
		if n == 0 {
			fmt.Fprintf(w, "  none\n")
		}
		for _, e := range misses {
			fmt.Fprintf(w, "  %s\n", e.Pass)
			printNotes(w, e.Notes)
		}
	}
}

// printHistory prints the changes and notes of passes, with or without their warnings.
func printHistory(w io.Writer, history []ir.Event, warnings bool) {
	if len(history) == 0 {
		fmt.Fprintf(w, "  no changes\n")
	}
	for _, e := range history {
		fmt.Fprintf(w, "  %-12s  %s\n", e.Pass, plural(e.Changes, "change"))
		notes := slices.Clone(e.Notes)
		if !warnings {
			notes = slices.DeleteFunc(notes, func(n string) bool { return strings.HasPrefix(n, "warning: ") })
		}
		printNotes(w, notes)
	}
}

func printNotes(w io.Writer, notes []string) {
	for _, n := range condense(notes) {
		fmt.Fprintf(w, "                - %s\n", strings.TrimSpace(indent(wrap(oneLine(n), noteWidth),
			"                  ")))
	}
}

// withCosts returns the options of the cpu backend with measured constants, if there are any.
func withCosts(measured *tune.File) []cpu.Option {
	if measured == nil {
		return nil
	}
	return []cpu.Option{cpu.WithCosts(measured.Costs)}
}

// noState names the input for the state before the first step, which most runs of whole sequences do without.
func noState(model *runtime.Model) []string {
	for _, p := range model.Inputs() {
		if p.Name == models.StateIn && p.Optional {
			return []string{p.Name}
		}
	}
	return nil
}

// printLowered prints the steps of the model, or the plan for a shape.
func printLowered(w io.Writer, m *open.Model, model *runtime.Model, s shape) (err error) {
	var dims map[string]int64
	if s.given() {
		if dims, err = s.dims(model.Graph(), m.Dims); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	text, err := model.Lowered(dims, noState(model)...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	_, err = io.WriteString(w, text)
	return err
}

// explainForms prints the backend's choices.
func explainForms(w io.Writer, m *open.Model, model *runtime.Model, s shape, kind string,
	measured *tune.File) error {
	constants := fmt.Sprintf("default constants, kernels %s; essmc tune can measure this machine", cpu.Kernels())
	if measured != nil {
		constants = fmt.Sprintf("constants from essmc tune of %s, kernels %s", measured.Time.Format("2006-01-02"),
			measured.Kernels)
	}
	if kind != deviceCPU {
		constants = ""
	}
	sizes, err := s.sizes(model.Graph(), m.Dims, takes(model))
	if err == nil {
		var choices []runtime.Choice
		if choices, err = model.Explain(sizes.dims, noState(model)...); err == nil {
			return printForms(w, choices, sizes, kind, constants)
		}
	}
	if !s.given() {
		_, err = fmt.Fprintf(w, "\nForms: unknown: %s\n", oneLine(err.Error()))
		return err
	}
	return fmt.Errorf("%s: %w", m.Name, err)
}

// explainJSON writes passes and forms as an object. failed is why there is no model.
func explainJSON(w io.Writer, m *open.Model, model *runtime.Model, failed error, s shape, device string,
	passes []passReport) error {
	r := &explainReport{Model: m.Name, Kind: kindName(m.Kind), Device: device, Passes: passes, Forms: []choiceReport{}}
	if failed != nil {
		return failed
	}
	sizes, err := s.sizes(model.Graph(), m.Dims, takes(model))
	var choices []runtime.Choice
	if err == nil {
		r.Shape = sizes.text
		choices, err = model.Explain(sizes.dims, noState(model)...)
	}
	if err != nil && s.given() {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	if err != nil {
		r.Error = oneLine(err.Error())
	}
	r.Forms = formsJSON(choices)
	return writeJSON(w, r)
}

func printForms(w io.Writer, choices []runtime.Choice, s *sizesOf, kind, constants string) error {
	what := ""
	if s.text != "" {
		what = " for " + s.text
	}
	if s.made && what != "" {
		what += " (--shape BxL for another)"
	}
	fmt.Fprintf(w, "\nForms on %s%s\n", map[string]string{deviceCPU: "the cpu", deviceCUDA: "the card"}[kind], what)
	if len(choices) == 0 {
		fmt.Fprintf(w, "  no node has several forms\n")
		return nil
	}
	if constants != "" {
		fmt.Fprintf(w, "  estimates with %s\n", constants)
	}
	columns := []table.Column{{Title: "node", Width: 40}, {Title: "form"}, {Title: "time", Right: true},
		{Title: "GFLOP", Right: true},
		{Title: "memory", Right: true}, {Title: "why", Width: 44}}
	var rows [][]string
	for i := 0; i < len(choices); {
		c, alike := choices[i], 1
		for i+alike < len(choices) && sameChoice(c, choices[i+alike]) {
			alike++
		}
		i += alike
		node := c.Node
		if alike > 1 {
			node += fmt.Sprintf(", and %d more", alike-1)
		}
		rows = append(rows, append([]string{node, c.Form}, append(estimate(c.Cost), c.Why)...))
		for _, o := range c.Others {
			rows = append(rows, append([]string{"", "not " + o.Form}, append(estimate(o.Cost), o.Why)...))
		}
	}
	return table.Print(w, columns, rows)
}

// sameChoice reports whether the choices for two nodes are equal.
func sameChoice(a, b runtime.Choice) bool {
	return a.Op == b.Op && a.Form == b.Form && a.Why == b.Why && a.Cost == b.Cost && slices.Equal(a.Others, b.Others)
}

// condense joins notes with the same text about several layers: "layers.0: x", "layers.1: x" → "layers.0–1: x".
func condense(notes []string) []string {
	var out []string
	for i := 0; i < len(notes); {
		scope, what, ok := strings.Cut(notes[i], ": ")
		first, isLayer := layerNumber(scope)
		n := 1
		for ok && isLayer && i+n < len(notes) {
			next, same, _ := strings.Cut(notes[i+n], ": ")
			if k, isLayer := layerNumber(next); !isLayer || same != what || k != first+n {
				break
			}
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%s–%d: %s", scope, first+n-1, what))
		} else {
			out = append(out, notes[i])
		}
		i += n
	}
	return out
}

// layerNumber reads "layers.3".
func layerNumber(scope string) (int, bool) {
	text, ok := strings.CutPrefix(scope, "layers.")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}

// estimate returns the cells for time, work and memory.
func estimate(e runtime.Estimate) []string {
	cells := make([]string, 3)
	if e.Time > 0 {
		cells[0] = duration(e.Time.Round(10 * time.Nanosecond))
	}
	if e.Work.Flops > 0 {
		cells[1] = strconv.FormatFloat(float64(e.Work.Flops)/1e9, 'g', 3, 64)
	}
	if e.Bytes > 0 {
		cells[2] = byteCount(e.Bytes)
	}
	return cells
}
