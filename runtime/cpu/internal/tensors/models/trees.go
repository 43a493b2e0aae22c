package models

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/ml"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, op := range []*ir.Op{ml.TreeEnsemble, ml.TreeEnsembleClassifier, ml.TreeEnsembleRegressor} {
		record.Register(record.Record{Op: op.FullName(), Tensor: record.TensorKind{Make: treesKernel}})
	}
}

// trees are the trees of a step in the layout for walks: branches in the order in which a walk visits them, then the
// reachable leaves.
type trees[K kernel.TreeKey] struct {
	*ml.Ensemble
	nodes  []kernel.TreeNode[K]
	leaves uint32 // offset of the first leaf
	roots  []uint32
	// Features that branches read: those for which NaN has the smallest key, then those for which it has the
	// greatest one. The keys of a sample are in this order.
	low, high []int32
	starts    []int32   // of each leaf, and of the end: index of the first of its votes
	votes     []ml.Vote // of the leaves
	weights   []float64 // per leaf, if there is one target and each leaf has one vote; otherwise nil
}

// nodeSize returns the size of a node.
func (*trees[K]) nodeSize() int { return int(unsafe.Sizeof(kernel.TreeNode[K]{})) }

// Keys that no number has. NaN's key is nanLow or nanHigh.
const nanLow = 1

func nanHigh[K kernel.TreeKey]() K { return ^K(0) }

// layTrees lays out the trees of e. It returns nil if one of them has a cycle; the evaluation refuses that once a
// sample enters it. exact returns the key of the smallest number of the kernel's type that is ≥ a number, and of
// the greatest that is ≤ it.
func layTrees[K kernel.TreeKey](c *ir.EvalCtx, e *ml.Ensemble, exact func(x float64) (above, below K)) *trees[K] {
	t := &trees[K]{Ensemble: e}
	tests := ops.Make[[]treeTest[K]](c, len(e.Branches))
	type read struct {
		feature int
		high    bool
	}
	reads := map[read]int{}
	for i := range e.Branches {
		c.Step(32)
		tests[i] = testsOf(c, &e.Branches[i], exact)
		reads[read{e.Branches[i].Feature, tests[i][0].high}] = 0
	}
	for r := range reads {
		if r.high {
			t.high = append(t.high, int32(r.feature))
		} else {
			t.low = append(t.low, int32(r.feature))
		}
	}
	slices.Sort(t.low)
	slices.Sort(t.high)
	for i, f := range t.low {
		reads[read{int(f), false}] = i
	}
	for i, f := range t.high {
		reads[read{int(f), true}] = len(t.low) + i
	}

	// The first node of each branch, or unseen, and the number of each leaf.
	const unseen = -1
	branch, leaf := ops.Make[int](c, len(e.Branches)), ops.Make[int](c, len(e.Leaves))
	for i := range branch {
		branch[i] = unseen
	}
	for i := range leaf {
		leaf[i] = unseen
	}
	var order, leaves []int // in the order of visits
	nodes := 0
	done := ops.Make[bool](c, len(e.Branches))
	var stack []ml.Child
	var closing []bool // for each entry of stack: a branch whose children are done
	push := func(k ml.Child, end bool) { stack, closing = append(stack, k), append(closing, end) }
	for _, root := range e.Roots {
		push(root, false)
		for len(stack) > 0 {
			c.Step(8)
			k, end := stack[len(stack)-1], closing[len(closing)-1]
			stack, closing = stack[:len(stack)-1], closing[:len(closing)-1]
			switch {
			case k < 0:
				if leaf[^k] == unseen {
					leaf[^k] = len(leaves)
					leaves = append(leaves, int(^k))
				}
			case end:
				done[k] = true
			case branch[k] == unseen:
				branch[k] = nodes
				nodes += len(tests[k])
				order = append(order, int(k))
				push(k, true)
				push(e.Branches[k].No, false)
				push(e.Branches[k].Yes, false)
			case !done[k]:
				return nil
			}
		}
	}
	size, lanes := t.nodeSize(), kernel.TreeLanes*int(unsafe.Sizeof(K(0)))
	if nodes+len(leaves) > math.MaxInt32/size || len(reads) > math.MaxInt32/lanes {
		return nil
	}
	t.leaves = uint32(nodes * size)
	t.nodes = ops.Make[kernel.TreeNode[K]](c, nodes+len(leaves))[:0]
	place := func(k ml.Child) uint32 {
		if k < 0 {
			return uint32((nodes + leaf[^k]) * size)
		}
		return uint32(branch[k] * size)
	}
	for _, i := range order {
		c.Step(8)
		b := &e.Branches[i]
		to := func(k int) uint32 {
			switch k {
			case toYes:
				return place(b.Yes)
			case toNo:
				return place(b.No)
			}
			return uint32((branch[i] + k) * size)
		}
		feature := uint32(reads[read{b.Feature, tests[i][0].high}] * lanes)
		for _, n := range tests[i] {
			yes := to(n.yes)
			t.nodes = append(t.nodes, kernel.TreeNode[K]{Most: n.most, Feature: feature, Yes: yes, Else: to(n.no) - yes})
		}
	}
	single := e.Targets == 1
	for i, l := range leaves {
		c.Step(8)
		at := uint32((nodes + i) * size)
		t.nodes = append(t.nodes, kernel.TreeNode[K]{Yes: at})
		t.starts = append(t.starts, int32(len(t.votes)))
		t.votes = append(t.votes, e.Leaves[l]...)
		single = single && len(e.Leaves[l]) == 1
	}
	t.starts = append(t.starts, int32(len(t.votes)))
	for _, r := range e.Roots {
		c.Step(1)
		t.roots = append(t.roots, place(r))
	}
	if single && len(t.roots) > 0 {
		for _, v := range t.votes {
			c.Step(1)
			t.weights = append(t.weights, v.Weight)
		}
	}
	return t
}

// treeTest is a node of a branch: keys up to most lead to yes, greater ones to no. Both are children of the branch,
// or other nodes of it, by index.
type treeTest[K kernel.TreeKey] struct {
	most    K
	yes, no int
	high    bool // NaN has the greatest key in all nodes of the branch
}

const toYes, toNo = -1, -2

// testsOf returns nodes that decide like b.
func testsOf[K kernel.TreeKey](c *ir.EvalCtx, b *ml.Branch, exact func(x float64) (above, below K)) []treeTest[K] {
	above, below := exact(b.Split)
	nan := b.Split != b.Split
	switch b.Mode {
	case ml.LessOrEqual, ml.Less:
		if b.Mode == ml.Less {
			below = above - 1
		}
		if nan { // no number passes
			below = nanLow
		}
		return []treeTest[K]{{below, toYes, toNo, !b.Missing}}
	case ml.GreaterOrEqual, ml.Greater: // by the smaller numbers
		if b.Mode == ml.GreaterOrEqual {
			below = above - 1
		}
		if nan {
			below = nanHigh[K]() - 1
		}
		return []treeTest[K]{{below, toNo, toYes, b.Missing}}
	}
	// A set of keys, in which NaN's key is the smallest.
	var keys []K
	yes, no := toYes, toNo
	switch {
	case b.Mode == ml.Unequal:
		yes, no = no, yes
		if !nan && above == below {
			keys = append(keys, above)
		}
	case b.Mode == ml.Equal && !nan && above == below:
		keys = append(keys, above)
	case b.Mode == ml.Member:
		for x := range b.Set {
			c.Step(64)
			if above, below := exact(x); x == x && above == below {
				keys = append(keys, above)
			}
		}
	}
	if b.Missing && b.Mode != ml.Unequal { // NaN is unequal to all
		keys = append(keys, nanLow)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return []treeTest[K]{{0, yes, no, false}}
	}
	return findKey(nil, keys, yes, no)
}

// findKey appends the nodes that find a key in a sorted list by binary search.
func findKey[K kernel.TreeKey](list []treeTest[K], keys []K, yes, no int) []treeTest[K] {
	at, half := len(list), len(keys)/2
	if len(keys) == 1 {
		return append(list, treeTest[K]{keys[0], at + 1, no, false}, treeTest[K]{keys[0] - 1, no, yes, false})
	}
	list = append(list, treeTest[K]{keys[half-1], at + 1, 0, false})
	list = findKey(list, keys[:half], yes, no)
	list[at].no = len(list)
	return findKey(list, keys[half:], yes, no)
}

// exact32 returns the keys of the float32 numbers next to x.
func exact32(x float64) (above, below uint32) {
	a := float32(x)
	b := a
	if float64(a) < x {
		a = math.Nextafter32(a, float32(math.Inf(1)))
	}
	if float64(b) > x {
		b = math.Nextafter32(b, float32(math.Inf(-1)))
	}
	return kernel.Key32(a), kernel.Key32(b)
}

func exact64(x float64) (above, below uint64) { return kernel.Key64(x), kernel.Key64(x) }

// treesKernel supports samples of float32, float64 and integers. The trees are laid out once for all shapes.
func treesKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	var mu sync.Mutex
	var model *ml.Ensemble
	var narrow *trees[uint32]
	var wide *trees[uint64]
	return func(d *lowering.Binding) *record.TensorKernel {
		if r := len(d.ShapeOf(s, 0)); r != 1 && r != 2 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if model == nil {
			e, err := ml.EnsembleOf(d.Steps(), s.Node)
			if err != nil {
				return nil // the evaluation reports the error
			}
			model = e
		}
		if d.Typed(s, 0, tensor.Float32) {
			if narrow == nil {
				narrow = layTrees(d.Steps(), model, exact32)
			}
			if k := newTree(d, s, narrow); k != nil {
				return k
			}
			return newTrees(d, s, narrow, kernel.Keys32)
		}
		if wide == nil {
			wide = layTrees(d.Steps(), model, exact64)
		}
		switch {
		case d.Typed(s, 0, tensor.Float64):
			return newTrees(d, s, wide, kernel.Keys64[float64])
		case d.Typed(s, 0, tensor.Int64):
			return newTrees(d, s, wide, kernel.Keys64[int64])
		case d.Typed(s, 0, tensor.Int32):
			return newTrees(d, s, wide, kernel.Keys64[int32])
		}
		return nil
	}
}

// treesPass computes blocks of samples.
type treesPass[T tensor.Elem, K kernel.TreeKey] struct {
	*trees[K]
	keys             func(dst []K, x []T, used []int32, nan K)
	rows, cols, most int // most: maximum number of samples of a block
	width            int // of a sample's keys

	x       []T
	narrow  []float32 // scores, of one of two types
	wide    []float64
	labels  []int64
	classes []int64 // instead of labels, whose text is looked up at the end
}

func newTrees[T tensor.Elem, K kernel.TreeKey](d *lowering.Binding, s *lowering.Step, t *trees[K],
	keys func(dst []K, x []T, used []int32, nan K)) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	p := &treesPass[T, K]{trees: t, keys: keys, rows: 1, cols: shape[len(shape)-1]}
	if len(shape) == 2 {
		p.rows = shape[0]
	}
	if t == nil || t.Features > p.cols || t.Targets > maxTargets {
		return nil // refused by the evaluation, or rare
	}
	p.width = max(1, len(t.low)+len(t.high))
	p.most = min(max(1, 1<<13/p.width), 64)&^(kernel.TreeLanes-1) + kernel.TreeLanes

	d.Charge(t.Bytes()) // shared by all executables of the program
	x := lowering.Input[T](d, s, 0)
	last := len(s.Node.Outputs) - 1 // the scores; a classifier's first output is the labels
	var narrow lowering.Slot[float32]
	var wide lowering.Slot[float64]
	var labels lowering.Slot[int64]
	var text *lowering.Value
	switch {
	case last >= len(s.Out) || s.Out[last] == nil:
	case d.Gives(s, last, tensor.Float32):
		narrow = lowering.Output[float32](d, s, last)
	case d.Gives(s, last, tensor.Float64):
		wide = lowering.Output[float64](d, s, last)
	default:
		return nil
	}
	if last > 0 && s.Out[0] != nil {
		if d.Gives(s, 0, tensor.Int64) {
			labels = lowering.Output[int64](d, s, 0)
		} else {
			text, p.classes = s.Out[0], lowering.Make[int64](d, p.rows)
		}
	}
	return &record.TensorKernel{Scratch: p.scratch(), Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.narrow, p.wide, p.labels = x.In(f), narrow.In(f), wide.In(f), labels.In(f)
		if err := e.Parallel(p, (p.rows+p.most-1)/p.most); err != nil || text == nil {
			return err
		}
		if err := f.Take(int64(p.rows)*int64(unsafe.Sizeof("")), text.Name); err != nil {
			return err
		}
		return f.Store(text, p.Labels(e.Steps(), p.classes))
	}}
}

// Bytes returns the size of the trees.
func (t *trees[K]) Bytes() int64 {
	votes := len(t.votes)*int(unsafe.Sizeof(ml.Vote{})) + 8*len(t.weights) + 4*len(t.starts)
	return int64(len(t.nodes)*t.nodeSize() + votes)
}

// maxTargets limits the scratch memory of a worker.
const maxTargets = 1 << 12

// sums returns the stride of the sums of samples. It is at least two, because one sum may become two scores.
func (t *trees[K]) sums() int { return max(2, t.Targets) }

// scratch returns the size of a worker's memory: sums, keys, and whether targets are without votes.
func (p *treesPass[T, K]) scratch() int {
	n := p.most * p.sums()
	return 2*n + p.keyWords() + (n+3)/4
}

// keyWords returns the size of the keys of a block.
func (p *treesPass[T, K]) keyWords() int { return p.most * p.width * int(unsafe.Sizeof(K(0))/4) }

func (p *treesPass[T, K]) Do(w *record.Workspace, block int) {
	first := block * p.most
	rows := min(p.most, p.rows-first)
	n := p.most * p.sums()
	sums := tensors.Reinterpret[float64](w.Scratch[:2*n])
	keys := tensors.Reinterpret[K](w.Scratch[2*n : 2*n+p.keyWords()])
	none := tensors.Reinterpret[bool](w.Scratch[2*n+p.keyWords():])
	for i := range ops.Each(w.Steps, rows*p.sums()) {
		sums[i], none[i] = 0, true
	}
	whole := rows &^ (kernel.TreeLanes - 1)
	for r := range whole {
		p.fill(w, keys[r/kernel.TreeLanes*p.width*kernel.TreeLanes+r%kernel.TreeLanes:], first+r)
	}
	p.walkRows(w, sums, none, keys, whole)
	for r := whole; r < rows; r++ {
		p.fill(w, keys, first+r)
		for i := range ops.Each(w.Steps, p.width) {
			k := keys[i*kernel.TreeLanes:][:kernel.TreeLanes]
			for l := range k {
				k[l] = k[0]
			}
		}
		p.walkTrees(w, sums[r*p.sums():], none[r*p.sums():], keys)
	}
	if w.Stopped() {
		return
	}
	for r := range rows {
		p.finish(w, first+r, sums[r*p.sums():(r+1)*p.sums()], none[r*p.sums():][:p.Targets])
	}
}

// fill sets the keys of a sample.
func (p *treesPass[T, K]) fill(w *record.Workspace, keys []K, row int) {
	w.Steps.Step(p.width)
	x := p.x[row*p.cols : (row+1)*p.cols]
	p.keys(keys, x, p.low, nanLow)
	if len(p.high) > 0 {
		p.keys(keys[len(p.low)*kernel.TreeLanes:], x, p.high, nanHigh[K]())
	}
}

// walkRows runs samples through all trees, and adds up the votes.
func (p *treesPass[T, K]) walkRows(w *record.Workspace, sums []float64, none []bool, keys []K, rows int) {
	var at [kernel.TreeLanes]uint32
	group, sum, size := p.width*kernel.TreeLanes, p.sums(), uint32(p.nodeSize())
	for _, root := range p.roots {
		for r := 0; r < rows; r += kernel.TreeLanes {
			for i := range at {
				at[i] = root
			}
			w.Steps.Step(kernel.WalkTrees(p.nodes, p.leaves, keys[r/kernel.TreeLanes*group:], &at))
			for i, n := range at {
				from := (r + i) * sum
				p.vote(sums[from:from+sum], none[from:from+sum], (n-p.leaves)/size)
			}
		}
	}
}

// walkTrees runs one sample through all trees, and adds up the votes in order.
func (p *treesPass[T, K]) walkTrees(w *record.Workspace, sums []float64, none []bool, keys []K) {
	var at [kernel.TreeLanes]uint32
	size := uint32(p.nodeSize())
	for i := 0; i < len(p.roots); i += kernel.TreeLanes {
		got := copy(at[:], p.roots[i:])
		for k := got; k < len(at); k++ {
			at[k] = at[0]
		}
		w.Steps.Step(kernel.WalkTrees(p.nodes, p.leaves, keys, &at))
		for _, n := range at[:got] {
			p.vote(sums, none, (n-p.leaves)/size)
		}
	}
}

// decide turns the votes for a sample into its class and its scores.
func (t *trees[K]) decide(c *ir.EvalCtx, sums []float64, none []bool) (class int, scores []float64) {
	if t.Combine == ml.Average {
		for i := range ops.Each(c, t.Targets) {
			sums[i] /= float64(len(t.roots))
		}
	}
	return t.Finish(c, sums[:t.Targets], none[:t.Targets])
}

// finish turns the sums of a sample into results.
func (p *treesPass[T, K]) finish(w *record.Workspace, row int, sums []float64, none []bool) {
	class, scores := p.decide(w.Steps, sums, none)
	if p.classes != nil {
		p.classes[row] = int64(class)
	}
	if p.labels != nil {
		p.labels[row] = p.Label(class)
	}
	if p.wide != nil {
		copy(p.wide[row*p.Scores:], scores)
	}
	if p.narrow != nil {
		y := p.narrow[row*p.Scores:][:len(scores)]
		for i, s := range ops.All(w.Steps, scores) {
			y[i] = float32(s)
		}
	}
}

// vote adds the votes of a leaf to the sums of a sample.
func (t *trees[K]) vote(sums []float64, none []bool, leaf uint32) {
	if t.weights != nil && !none[0] {
		sums[0] = t.add(sums[0], t.weights[leaf])
		return
	}
	for _, v := range t.votes[t.starts[leaf]:t.starts[leaf+1]] {
		if none[v.Target] {
			sums[v.Target], none[v.Target] = v.Weight, false
		} else {
			sums[v.Target] = t.add(sums[v.Target], v.Weight)
		}
	}
}

// add combines a sum with a vote.
func (t *trees[K]) add(sum, weight float64) float64 {
	switch {
	case t.Combine == ml.Min:
		if weight < sum {
			return weight
		}
		return sum
	case t.Combine == ml.Max:
		if weight > sum {
			return weight
		}
		return sum
	}
	return sum + weight
}
