// Package passes has the portable pipeline: the rewrites from the graph of a source to the graph of a plan. Each
// pass is in its own file.
//
// It imports ir, the operator packages and passes/match. It does not depend on a machine, so its results run on
// every backend. A pass keeps the meaning of the graph, and its inputs and outputs with their names. The graph is
// verified after every pass that changes it. Equal graphs give equal results.
package passes

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // the operators that passes match and make
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/passes/match"
)

// Pass is one rewrite of a whole graph.
type Pass struct {
	Name string
	Doc  string
	// After and Before name passes that must run before, and after, this one if they run at all. One of the two passes
	// states each such condition.
	After, Before []Reason
	// Run changes the graph in place and returns the number of changes.
	Run func(c *Context, g *ir.Graph) (changes int, err error)
}

// Context collects the messages of a pass, and limits its work. The methods that limit work accept a nil Context,
// which has no limit.
type Context struct {
	budget *ir.Budget // of the run; its bytes are those of new constants
	fold   *ir.Budget // its part for evaluations whose results stay in the graph
	search *ir.Budget // its part for recognizing forms
	source int64      // bytes of the constants before the first pass
	ctx    context.Context
	notes  []string
	// verifier of the run; may be nil
	verifier *ir.Verifier
	// seen holds the messages so far: rules run in rounds, and repeat theirs.
	seen map[string]bool
}

// Note records a line for the graph's history.
func (c *Context) Note(format string, args ...any) { c.add(fmt.Sprintf(format, args...)) }

// Warn records a line that the user should see.
func (c *Context) Warn(format string, args ...any) { c.add("warning: " + fmt.Sprintf(format, args...)) }

func (c *Context) add(s string) {
	if !c.seen[s] {
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[s] = true
		c.notes = append(c.notes, s)
	}
}

// Search returns the budget for the work of recognizing forms: evaluations, products, fits, and walks over the graph.
// All passes of a run share it. What does not fit is left as it is.
func (c *Context) Search() *ir.Budget {
	if c == nil {
		return nil
	}
	return c.search
}

// Done returns the context of the run.
func (c *Context) Done() context.Context {
	if c == nil || c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// ended is the panic with which Check ends a pass.
type ended struct{ err error }

func (ended) Interrupts() {}

// Check ends the run if its context is done. Passes call it between parts of their work that take about a millisecond,
// from the goroutine that runs them. It does not return then.
func (c *Context) Check() {
	if c != nil && c.ctx != nil && c.ctx.Err() != nil {
		panic(ended{context.Cause(c.ctx)})
	}
}

// Apart runs f, whose parts cannot be interrupted, on a goroutine of its own. When ctx is done it returns its error
// at once, without waiting for f. f must then end by itself, and the caller must not use what f writes to. A panic
// of f is passed on to the caller.
func Apart(ctx context.Context, f func()) error {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	select {
	case v := <-done:
		if v != nil {
			panic(v)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run runs a pass. The error of a run that Check has ended is the cause.
func (c *Context) run(p *Pass, g *ir.Graph) (changes int, err error) {
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(ended)
			if !ok {
				panic(v)
			}
			err = e.err
		}
	}()
	changes, err = p.Run(c, g)
	c.Check() // an evaluation may have ended with the context, and its node been left as it is
	return changes, err
}

// Snapshot is the argument of an observer after a pass.
type Snapshot struct {
	Index   int // from 0; -1 for the graph before the first pass
	Pass    *Pass
	Graph   *ir.Graph // the graph after the pass; valid during the call only
	Event   ir.Event
	Time    time.Duration
	Failure error
}

// Options are the options of Run. The zero value runs the whole pipeline.
type Options struct {
	// StopAfter is the name of the last pass to run.
	StopAfter string
	// Observe is called with the graph before the first pass and after each pass, including one that fails.
	Observe func(Snapshot)
	// Context, if not nil, ends the run when it is done.
	Context context.Context
	// Budget bounds the work of all passes together: evaluations of constants, and the search for forms; nil: NewBudget
	// of the graph. Where it does not suffice, computations stay in the graph.
	Budget *ir.Budget
}

// Pipeline returns the portable passes in order. Each pass states the reasons for its place.
func Pipeline() []*Pass {
	return []*Pass{Fold, Canonicalize, Diagonalize, Discretize, FoldNorm, FoldConv, Fuse, CSE, DCE}
}

// Reason is a condition on the order of two passes, with its reason.
type Reason struct{ Pass, Why string }

// Optimize runs the whole pipeline on g, in place.
func Optimize(g *ir.Graph) error { return Run(g, Pipeline(), Options{}) }

// Run applies passes in order, in place, and adds an event to the graph's history for each pass that changed or noted
// something. It verifies the graph before the first pass, then the changes that passes report (of all, if there is an
// observer), and the whole graph after the last one. An error names the pass, its index, and the pass before it. The
// graph is undefined then.
func Run(g *ir.Graph, list []*Pass, o Options) (err error) {
	if err := checkOrder(list); err != nil {
		return err
	}
	if o.StopAfter != "" {
		last := slices.IndexFunc(list, func(p *Pass) bool { return p.Name == o.StopAfter })
		if last < 0 {
			return fmt.Errorf("no pass %q; expected one of %s", o.StopAfter, strings.Join(names(list), ", "))
		}
		list = list[:last+1]
	}
	at := "before the first pass"
	if o.Context != nil {
		c := &Context{ctx: o.Context}
		defer func() {
			g.Interrupt(nil)
			if v := recover(); v != nil {
				e, ok := v.(ended)
				if !ok {
					panic(v)
				}
				err = fmt.Errorf("%s: %w", at, e.err)
			}
		}()
		g.Interrupt(c.Check) // may already end
	}
	verifier := new(ir.Verifier)
	if err := verifier.Verify(g); err != nil {
		return fmt.Errorf("before the first pass: %w", err)
	}
	observe := o.Observe
	if observe == nil {
		observe = func(Snapshot) {}
	}
	observe(Snapshot{Index: -1, Graph: g})
	budget, source := o.Budget, constantBytes(g)
	if budget == nil {
		budget = newBudget(source)
	}
	forFold, forSearch := workFor(source)
	fold, search := budget.Part(-1, forFold), budget.Part(-1, forSearch)
	former := "nothing"
	for i, p := range list {
		if o.Context != nil && o.Context.Err() != nil {
			return fmt.Errorf("before pass %d %s: %w", i+1, p.Name, context.Cause(o.Context))
		}
		at = fmt.Sprintf("pass %d %s (after %s)", i+1, p.Name, former)
		start := time.Now()
		c := &Context{budget: budget, fold: fold, search: search, source: source, ctx: o.Context, verifier: verifier}
		changes, err := c.run(p, g)
		switch {
		case err != nil:
		case i == len(list)-1:
			err = ir.Verify(g)
		case changes > 0 || o.Observe != nil:
			err = verifier.Verify(g)
		}
		if err != nil {
			err = fmt.Errorf("pass %d %s (after %s): %w", i+1, p.Name, former, err)
		}
		event := ir.Event{Pass: p.Name, Changes: changes, Notes: c.notes}
		if changes > 0 || len(c.notes) > 0 {
			g.History = append(g.History, event)
		}
		observe(Snapshot{i, p, g, event, time.Since(start), err})
		if err != nil {
			return err
		}
		former = p.Name
		if changes > 0 {
			c.tidy()
		}
	}
	return nil
}

// tidy frees the constants that a pass has replaced, where much was allocated since the last collection. They are few
// and large: the collector itself would wait until they take as much memory as all that is in use.
func (c *Context) tidy() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 || s[1].Value.Kind() != metrics.KindUint64 {
		return
	}
	if live, now := s[0].Value.Uint64(), s[1].Value.Uint64(); now > live+live/8+tidyBytes {
		if c != nil && c.verifier != nil {
			c.verifier.Forget()
		}
		runtime.GC()
	}
}

// tidyBytes is the minimum growth for which tidy collects.
const tidyBytes = 1 << 25

func names(list []*Pass) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.Name
	}
	return out
}

func checkOrder(list []*Pass) error {
	at := func(name string) int { return slices.IndexFunc(list, func(p *Pass) bool { return p.Name == name }) }
	check := func(before, after, why string) error {
		if i, j := at(before), at(after); i >= 0 && j >= 0 && i > j {
			return fmt.Errorf("pass %s must run before %s: %s", before, after, why)
		}
		return nil
	}
	for _, p := range list {
		for _, r := range p.After {
			if err := check(r.Pass, p.Name, r.Why); err != nil {
				return err
			}
		}
		for _, r := range p.Before {
			if err := check(p.Name, r.Pass, r.Why); err != nil {
				return err
			}
		}
	}
	return nil
}

// Warnings returns the warnings in a graph's history, without their prefix.
func Warnings(g *ir.Graph) []string {
	var out []string
	for _, e := range g.History {
		for _, n := range e.Notes {
			if w, ok := strings.CutPrefix(n, "warning: "); ok {
				out = append(out, w)
			}
		}
	}
	return out
}

// where names a node by its scope in the model, or by itself if it has none.
func where(n *ir.Node) string {
	if n.Scope != "" {
		return n.Scope
	}
	return n.String()
}

// Edit returns a builder that appends to g. Operator sets that the graph does not name get this program's versions.
func Edit(g *ir.Graph) *ir.Builder {
	complete(g)
	return ir.Edit(g, ops.Default, g.Opsets)
}

// complete adds the operator sets that a graph does not name.
func complete(g *ir.Graph) {
	if g.Opsets == nil {
		g.Opsets = map[string]int{}
	}
	for domain, v := range ops.Opsets() {
		if _, ok := g.Opsets[domain]; !ok {
			g.Opsets[domain] = v
		}
	}
}

// Replace replaces old by with in all its readers. If old is an output of the graph, with takes over its name. Replace
// returns false, and changes nothing, if with cannot have that name because it is an input, a constant or another
// output.
func Replace(g *ir.Graph, old, with *ir.Value) bool {
	if !takesOver(g, old, with) {
		return false
	}
	g.ReplaceUses(old, with)
	return true
}

// Finish removes dead code and sorts the graph.
func Finish(g *ir.Graph) error {
	g.RemoveDead()
	return g.Sort()
}

// takesOver prepares a replacement. It returns false if that is not possible.
func takesOver(g *ir.Graph, old, with *ir.Value) bool {
	return prepare(old, with, func(v *ir.Value) bool { return slices.Contains(g.Outputs, v) },
		func(n *ir.Node) bool { return slices.Contains(g.Nodes, n) })
}

// prepare is takesOver for a graph whose outputs and nodes are known by output and within.
func prepare(old, with *ir.Value, output func(*ir.Value) bool, within func(*ir.Node) bool) bool {
	if old == with {
		return false
	}
	if output(old) {
		if with.Def == nil || output(with) || !within(with.Def) {
			return false
		}
		old.Name, with.Name = with.Name, old.Name
	}
	return true
}

// Leave is the result of a rule's Check if the rule does not apply and that needs no note.
const Leave = "-"

// Apply applies rules to the graph until none matches, and returns the number of rewrites. A rule's refusals become
// notes, except Leave.
func Apply(c *Context, g *ir.Graph, rules *match.Set) (int, error) {
	changes := 0
	for round := 0; ; round++ {
		if round > 1000 {
			return changes, fmt.Errorf("rules do not end after %d rewrites", changes)
		}
		n, err := applyOnce(c, g, rules)
		changes += n
		if err != nil {
			return changes, err
		}
		if err := Finish(g); err != nil || n == 0 {
			return changes, err
		}
		c.tidy()
	}
}

// walkBytes is the maximum size of the constants that one walk makes, so that the constants that they replace can be
// freed in between.
const walkBytes = 1 << 26

// applyOnce walks the graph once and rewrites matches that do not overlap. It ends early where it has made many
// constants.
func applyOnce(c *Context, g *ir.Graph, set *match.Set) (int, error) {
	changes := 0
	complete(g)
	rules := set.In(g)
	if rules == nil {
		return 0, nil
	}
	readers := newReaders(g)
	uses := readers.before
	stale := map[*ir.Node]bool{} // nodes near a rewrite of this walk
	settled := SettledOf(c, g)
	m := &match.Match{Settled: settled}
	var b *ir.Builder
	var bytes int64
	for _, n := range slices.Clone(g.Nodes) {
		if c.Check(); bytes > walkBytes {
			break
		}
		for _, r := range rules[n.Op.Name] {
			if !m.Of(r.Pattern, n, uses) || touches(m, stale) {
				continue
			}
			if r.Check != nil {
				if why := r.Check(m); why == Leave {
					continue
				} else if why != "" {
					c.Note("%s: %v left as it is: %s", r.Name, n, why)
					continue
				}
			}
			if b == nil {
				b = Edit(g)
			}
			b.Scope(n.Scope)
			made := r.Make(b, m)
			if err := b.Err(); err != nil {
				return changes, fmt.Errorf("rule %s at node %v: %w", r.Name, n, err)
			}
			done := false
			for i, v := range made {
				if v != nil && i < len(n.Outputs) && n.Outputs[i] != nil {
					done = readers.replace(n.Outputs[i], v) || done
				}
			}
			if done && r.Also != nil {
				for old, with := range r.Also(m, made) {
					readers.replace(old, with)
				}
			}
			if !done {
				continue
			}
			changes++
			stale[n] = true
			for _, v := range made {
				if v != nil && v.Def != nil {
					stale[v.Def] = true
					for _, k := range v.Def.Inputs {
						if k != nil && k.Const != nil && !slices.Contains(n.Inputs, k) {
							bytes += ops.SizeOf(k.Const)
						}
					}
				}
			}
			for _, v := range n.Outputs {
				for _, u := range uses[v] {
					if u.Node != nil {
						stale[u.Node] = true
					}
				}
			}
			for _, q := range m.Nodes() {
				stale[q] = true
			}
			m = &match.Match{Settled: settled} // the rule may have kept this match
			break
		}
	}
	return changes, nil
}

func touches(m *match.Match, stale map[*ir.Node]bool) bool {
	return len(stale) > 0 && slices.ContainsFunc(m.Nodes(), func(n *ir.Node) bool { return stale[n] })
}
