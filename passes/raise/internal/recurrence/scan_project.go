package recurrence

import (
	"maps"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Projections outside a recurrence are linear operators that treat each step separately, before its input sequences
// and after its output sequences. If that saves work, they are multiplied into the recurrence's matrices, so that
// everything becomes one system. They are read at a length of 1. This is sound if, according to its facts, each step
// of a result depends only on the same step of the arguments, and if only shapes depend on the length (see admits).

// Maximum number of operators considered on either side, and of multiplications for one choice of them.
const (
	maxProjected = 64
	maxProducts  = 1 << 25
)

// projector searches for projections around one recurrence.
type projector struct {
	d    *draft
	g    *ir.Graph
	c    *cell
	bind map[string]int64 // sizes for the open dimensions of batch and time; that of time is 1
	uses map[*ir.Value][]ir.Use
	// length and batch are the dimensions of time and samples, by which fixed numbers of steps and samples are
	// recognized.
	length, batch ir.Dim
	body          map[*ir.Node]bool // the recurrence's node and the nodes of its body
}

func cloned(bind map[string]int64) map[string]int64 {
	out := map[string]int64{}
	maps.Copy(out, bind)
	return out
}

func known(d ir.Dim) bool {
	_, ok := d.Known()
	return ok
}

// project moves projections around the draft into its system. It changes the draft, the cell and the system
// accordingly.
func (d *draft) project(g *ir.Graph, c *cell, s *system) {
	if c.single() || len(c.bind) != 1 && !d.parallel || len(d.results) == 0 {
		return
	}
	first := d.in[0]
	length := first.v.Shape()[first.time]
	name, open := length.Symbol()
	if _, batch := c.bind[name]; batch || !open && !known(length) {
		return
	}
	for _, q := range d.in {
		if q.reversed != first.reversed || !q.v.Shape()[q.time].Equal(length) {
			return
		}
	}
	p := &projector{d: d, g: g, c: c, bind: cloned(c.bind), uses: g.Uses(), length: length}
	if p.batch = ir.Const(int64(c.samples)); len(c.bind) == 0 &&
		first.v.Shape()[first.full(c.inputs[0].batch)].Equal(length) {
		return
	}
	for symbol := range c.bind {
		p.batch = ir.Sym(symbol)
	}
	if open {
		p.bind[name] = 1
	}
	p.body = map[*ir.Node]bool{}
	if d.parallel { // everything between the inputs and the results is replaced, too
		p.scanned()
	} else {
		p.body[d.node] = true
	}
	for _, sub := range d.node.Subgraphs() {
		_ = sub.Walk(func(_ *ir.Graph, n *ir.Node) error { p.body[n] = true; return nil })
	}
	p.before(s)
	p.behind(s)
}

// scanned adds the nodes between the inputs and the results to the body.
func (p *projector) scanned() {
	stop := map[*ir.Value]bool{}
	for _, q := range p.d.in {
		stop[q.v] = true
	}
	walk := regions.WalkFrom(p.d.results...)
	for v := range walk.Values() {
		if v.Def != nil && !stop[v] && !p.body[v.Def] {
			p.body[v.Def] = true
			walk.Add(v.Def.Inputs...)
		}
	}
}

// whole describes the sequence v as a step of length 1 that keeps its axis of time.
func (p *projector) whole(v *ir.Value, time, batch int) (slot, bool) {
	shape := make([]int, len(v.Shape()))
	for i, d := range v.Shape() {
		n, err := d.Eval(p.bind)
		if err != nil {
			return slot{}, false
		}
		if shape[i] = int(n); d.Equal(p.length) && i == time {
			shape[i] = 1
		}
	}
	ok := time != batch && time < len(shape) && batch < len(shape) && shape[time] == 1 && shape[batch] == p.c.samples
	return slot{v, shape, batch}, ok
}

// axisOf returns the only axis of v that is the given open dimension.
func axisOf(v *ir.Value, symbol ir.Dim) int {
	at := -1
	for i, d := range v.Shape() {
		if d.Equal(symbol) {
			if at >= 0 {
				return -1
			}
			at = i
		}
	}
	return at
}

// fixed reports whether a value, including its shape, depends on no input.
func fixed(run *passes.Context, v *ir.Value) bool {
	if v.Const != nil {
		return true
	}
	_, err := regions.Constants(run, nil).Tensor(v)
	return err == nil
}

// admits reports whether a node may become part of a projection, because it is linear, and returns its inputs that
// vary.
func admits(run *passes.Context, n *ir.Node) (varying []*ir.Value, ok bool) {
	if n == nil || n.Op.Linear == nil || n.Op.Along == nil || n.Op.Random || len(n.Inputs) == 0 || ops.IsSystem(n.Op) {
		return nil, false
	}
	for _, o := range n.Outputs {
		if o == nil || !o.Elem().IsFloat() || o.Shape() == nil {
			return nil, false
		}
	}
	var at []int
	for i, v := range n.Inputs {
		switch {
		case v == nil || fixed(run, v):
		case i > 0 && (n.Op.Name == "Reshape" || n.Op.Name == "Expand"): // a shape may depend on the length
		case !v.Elem().IsFloat() || v.Elem() != n.Outputs[0].Elem():
			return nil, false
		default:
			varying, at = append(varying, v), append(at, i)
		}
	}
	return varying, len(varying) > 0 && regions.LinearIn(n, at)
}

// follow returns the facts of a node's outputs along time and batch, if it treats each step and each sample separately.
func follow(n *ir.Node, facts map[*ir.Value][2]ir.Fact) ([2]ir.Fact, bool) {
	var out [2]ir.Fact
	for k := range out {
		in := make([]ir.Fact, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = facts[v][k]
		}
		f := n.Op.Along(n, in)[0]
		if f.Constant() || f.Global || f.Axis < 0 || f.Stride != 1 || f.Back != 0 || f.Ahead != 0 {
			return out, false
		}
		out[k] = f
	}
	return out, out[0].Axis != out[1].Axis
}

// facts returns the facts of a sequence with these axes.
func (p *projector) facts(time, batch int) [2]ir.Fact {
	t, open := p.length.Symbol()
	if !open {
		t = "steps of a fixed number"
	}
	b, open := p.batch.Symbol()
	if !open {
		b = "samples of a fixed number"
	}
	return [2]ir.Fact{{Symbol: t, Axis: time, Stride: 1}, {Symbol: b, Axis: batch, Stride: 1}}
}

// work returns the multiplications per step of the nodes.
func (p *projector) work(nodes []*ir.Node) int {
	bind := map[string]int64{}
	for k := range p.bind {
		bind[k] = 1
	}
	sum := 0
	for _, n := range nodes {
		sum += int(min(ops.WorkOf(n, bind).Flops/2, linear.MaxElements))
	}
	return sum
}

// spared returns the work of the nodes that become unnecessary when they are part of the recurrence's matrices,
// because no other node reads their results. Nodes must be in the opposite order of the graph. replaced, if not nil,
// is a value that will be recomputed.
func (p *projector) spared(nodes []*ir.Node, replaced *ir.Value) int {
	gone := maps.Clone(p.body)
	var out []*ir.Node
	for _, n := range nodes {
		if !slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v != replaced && p.read(v, gone, 0) }) {
			gone[n] = true
			out = append(out, n)
		}
	}
	return p.work(out)
}

// read reports whether a node outside gone needs the numbers of a value. Reading its shape does not count: initial
// states of zeros are often made that way.
func (p *projector) read(v *ir.Value, gone map[*ir.Node]bool, depth int) bool {
	return slices.ContainsFunc(p.uses[v], func(u ir.Use) bool {
		switch {
		case u.Node == nil || depth > 4:
			return true
		case gone[u.Node] || u.Node.Op.OfShapes:
			return false
		}
		return len(u.Node.Subgraphs()) > 0 || slices.ContainsFunc(u.Node.Outputs,
			func(o *ir.Value) bool { return p.read(o, gone, depth+1) })
	})
}

// count returns the number of terms.
func count(rows ...[][]linear.Term) int {
	n := 0
	for _, r := range rows {
		for _, row := range r {
			n += len(row)
		}
	}
	return n
}

// before looks for one sequence such that all inputs are linear functions of it, step by step.
func (p *projector) before(s *system) {
	position := map[*ir.Node]int{}
	for i, n := range p.g.Nodes {
		position[n] = i
	}
	frontier := []*ir.Value{}
	for _, q := range p.d.in {
		if !slices.Contains(frontier, q.v) {
			frontier = append(frontier, q.v)
		}
	}
	type candidate struct {
		v     *ir.Value
		nodes int // number of nodes that it would include
	}
	var found []candidate
	var nodes []*ir.Node
	stuck := map[*ir.Value]bool{}
	for len(nodes) < maxProjected {
		at := -1
		for i, v := range frontier {
			if v.Def != nil && !stuck[v] && (at < 0 || position[v.Def] > position[frontier[at].Def]) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		v := frontier[at]
		in, ok := admits(p.d.run, v.Def)
		if !ok {
			stuck[v] = true
			continue
		}
		frontier = slices.Delete(frontier, at, at+1)
		for _, w := range in {
			if !slices.Contains(frontier, w) {
				frontier = append(frontier, w)
			}
		}
		if !slices.Contains(nodes, v.Def) {
			nodes = append(nodes, v.Def)
		}
		if len(frontier) == 1 {
			found = append(found, candidate{frontier[0], len(nodes)})
		}
	}
	cost := func(s *system) int {
		n := count(s.b)
		for _, o := range s.outputs {
			n += count(o.in)
		}
		return n
	}
	best, chosen := cost(s), slot{}
	var merged *system
	for _, f := range found {
		in, rows, ok := p.inputs(f.v, nodes[:f.nodes])
		if !ok {
			continue
		}
		m, ok := s.before(rows, in.size())
		if !ok {
			continue
		}
		if k := cost(m) - p.spared(nodes[:f.nodes], nil); k <= best {
			best, chosen, merged = k, in, m
		}
	}
	if chosen.v == nil {
		return
	}
	*s = *merged
	p.d.in = []sequence{{v: chosen.v, time: axisOf(chosen.v, p.length), kept: true, reversed: p.d.in[0].reversed}}
	p.c.inputs = []slot{chosen}
}

// inputs returns the recurrence's inputs as linear functions of u, as the nodes compute them.
func (p *projector) inputs(u *ir.Value, nodes []*ir.Node) (slot, [][]linear.Term, bool) {
	if u.Elem() != p.d.in[0].v.Elem() {
		return slot{}, nil, false
	}
	time, batch := axisOf(u, p.length), axisOf(u, p.batch)
	if time < 0 || batch < 0 {
		return slot{}, nil, false
	}
	in, ok := p.whole(u, time, batch)
	if !ok {
		return slot{}, nil, false
	}
	facts := map[*ir.Value][2]ir.Fact{u: p.facts(time, batch)}
	for _, n := range p.g.Nodes {
		if !slices.Contains(nodes, n) {
			continue
		}
		f, ok := follow(n, facts)
		if !ok {
			return slot{}, nil, false
		}
		for _, v := range n.Outputs {
			facts[v] = f
		}
	}
	l := linear.NewLinearizer(p.d.run, p.bind)
	k := in.size()
	l.Basis = k * p.c.samples
	if seedSamples(l, in, 0, k) != nil {
		return slot{}, nil, false
	}
	var rows [][]linear.Term
	for i, q := range p.d.in {
		at := q.full(p.c.inputs[i].batch)
		if f := facts[q.v]; f[0].Axis != q.time || f[1].Axis != at {
			return slot{}, nil, false
		}
		f, err := l.Form(q.v)
		if err != nil || len(f.Shape) != len(q.v.Shape()) || f.Shape[q.time] != 1 {
			return slot{}, nil, false
		}
		own, err := samples(p.d.run, f, at, p.c.samples, k)
		if err != nil {
			return slot{}, nil, false
		}
		for _, r := range own {
			if r.C != 0 { // a bias stays outside, because systems have none
				return slot{}, nil, false
			}
			rows = append(rows, r.Terms)
		}
	}
	return in, rows, true
}

// before returns the system over the h features from which rows compute its inputs. It returns false if that is too
// large.
func (s *system) before(rows [][]linear.Term, h int) (_ *system, ok bool) {
	out := *s
	out.h = h
	if out.b, ok = compose(s.b, rows, h); !ok {
		return nil, false
	}
	out.outputs = slices.Clone(s.outputs)
	for i := range out.outputs {
		o := &out.outputs[i]
		if o.in, ok = compose(o.in, rows, h); !ok {
			return nil, false
		}
	}
	return &out, true
}

// compose substitutes: rows are over features, of gives these over width other features. It returns false if that takes
// too many multiplications.
func compose(rows, of [][]linear.Term, width int) (out [][]linear.Term, ok bool) {
	work := 0
	for _, row := range rows {
		for _, t := range row {
			work += len(of[t.At])
		}
	}
	if work > maxProducts {
		return nil, false
	}
	l := linear.Linearizer{Basis: width}
	out = make([][]linear.Term, len(rows))
	for i, row := range rows {
		l.Begin()
		for _, t := range row {
			l.Add(&linear.Combination{Terms: of[t.At]}, t.Coef)
		}
		out[i] = l.End().Terms
	}
	return out, true
}

// plus returns the sum of rows.
func plus(a, b [][]linear.Term) [][]linear.Term {
	out := make([][]linear.Term, len(b))
	for i := range a {
		x, y := linear.Combination{Terms: a[i]}, linear.Combination{Terms: b[i]}
		out[i] = new(linear.Linearizer).Sum(&x, &y, 1).Terms
	}
	return out
}

// behind looks for the only sequence that outside readers need among the values computed step by step from the
// results and the input.
func (p *projector) behind(s *system) {
	q := p.d.out
	facts := map[*ir.Value][2]ir.Fact{}
	region := map[*ir.Value]bool{}
	for i, v := range p.d.results {
		if v == nil || q[i].reversed != q[0].reversed || len(v.Shape()) == 0 || v.Elem() != p.d.in[0].v.Elem() {
			return
		}
		o := s.outputs[i].at
		facts[v] = p.facts(q[i].time, q[i].full(o.batch))
		region[v] = true
	}
	u := p.d.in[0].v
	direct := len(p.d.in) == 1 && p.d.in[0].reversed == q[0].reversed
	if direct {
		facts[u] = p.facts(p.d.in[0].time, p.d.in[0].full(p.c.inputs[0].batch))
	}
	var nodes []*ir.Node
	taken := map[*ir.Node]bool{}
	type candidate struct {
		v     *ir.Value
		nodes int
	}
	var found []candidate
	for _, n := range p.g.Nodes {
		if len(nodes) == maxProjected {
			break
		}
		if p.body[n] {
			continue
		}
		in, ok := admits(p.d.run, n)
		inside, known := false, true
		for _, v := range in {
			_, has := facts[v]
			inside, known = inside || region[v], known && has
		}
		if !ok || !known {
			continue
		}
		f, ok := follow(n, facts)
		if !ok {
			continue
		}
		for _, v := range n.Outputs {
			facts[v] = f
			region[v] = inside
		}
		nodes = append(nodes, n)
		if !inside {
			continue // depends only on the input
		}
		taken[n] = true
		if e := p.exit(region, taken); e != nil {
			found = append(found, candidate{e, len(nodes)})
		}
	}
	best := 0
	for _, o := range s.outputs {
		best += count(o.next, o.prev, o.in)
	}
	var chosen outputMap
	var at sequence
	for _, f := range found {
		o, ok := p.output(f.v, facts[f.v], s, direct)
		if !ok {
			continue
		}
		merged := slices.Clone(nodes[:f.nodes])
		slices.Reverse(merged)
		if k := count(o.next, o.prev, o.in) - p.spared(merged, f.v); k <= best {
			best, chosen = k, o
			at = sequence{time: facts[f.v][0].Axis, kept: true, reversed: q[0].reversed}
		}
	}
	if chosen.at.v == nil {
		return
	}
	s.outputs = []outputMap{chosen}
	p.d.out, p.d.results = []sequence{at}, []*ir.Value{chosen.at.v}
}

// exit returns the only value of the region that is read by nodes other than the taken ones. It returns nil if there
// are several.
func (p *projector) exit(region map[*ir.Value]bool, taken map[*ir.Node]bool) *ir.Value {
	var found *ir.Value
	for v, in := range region {
		_, elsewhere := regions.Elsewhere(p.uses[v], func(n *ir.Node) bool { return taken[n] })
		if !in || !elsewhere {
			continue
		}
		if found != nil {
			return nil
		}
		found = v
	}
	return found
}

// output returns v as a function of the results and the input.
func (p *projector) output(v *ir.Value, f [2]ir.Fact, s *system, direct bool) (outputMap, bool) {
	var none outputMap
	k := 0
	if direct {
		k = s.h
	}
	first := k
	for _, o := range s.outputs {
		k += len(o.in)
	}
	l := linear.NewLinearizer(p.d.run, p.bind)
	l.Basis = k * p.c.samples
	if direct {
		q := p.d.in[0]
		in, ok := p.whole(q.v, q.time, q.full(p.c.inputs[0].batch))
		if !ok || in.size() != s.h || seedSamples(l, in, 0, k) != nil {
			return none, false
		}
	}
	at := first
	var next, prev, in [][]linear.Term
	var bias []float64
	for i, o := range s.outputs {
		q := p.d.out[i]
		step := slot{p.d.results[i], slices.Clone(o.at.shape), q.full(o.at.batch)}
		if !q.kept {
			step.shape = slices.Insert(step.shape, q.time, 1)
		}
		if seedSamples(l, step, at, k) != nil {
			return none, false
		}
		at += len(o.in)
		next, prev, in, bias = append(next, o.next...), append(prev, o.prev...), append(in, o.in...),
			append(bias, o.bias...)
	}
	y, err := l.Form(v)
	if err != nil || f[0].Axis >= len(y.Shape) || y.Shape[f[0].Axis] != 1 {
		return none, false
	}
	rows, err := samples(p.d.run, y, f[1].Axis, p.c.samples, k)
	if err != nil {
		return none, false
	}
	o := outputMap{at: slot{v, y.Shape, f[1].Axis}}
	var ofResults, ofInput [][]linear.Term
	for _, r := range rows {
		input, results, _ := cut(r.Terms, first, k-first)
		ofInput, ofResults = append(ofInput, input), append(ofResults, results)
		c := r.C
		for _, t := range results {
			c += t.Coef * bias[t.At]
		}
		o.bias = append(o.bias, c)
	}
	var okN, okP, okI bool
	o.next, okN = compose(ofResults, next, s.n)
	o.prev, okP = compose(ofResults, prev, s.n)
	o.in, okI = compose(ofResults, in, s.h)
	o.in = plus(o.in, ofInput)
	return o, okN && okP && okI
}
