package graphfuzz

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// interpreted runs a graph by the interpreter.
func interpreted(g *ir.Graph, in Data, wide bool) (Data, error) {
	o := runtime.Options{Backend: ref.New(), MaxMemory: mostMemory / 4}
	if wide {
		o.Precision = tensor.Float64
	}
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	return m.NewSession().Run(ctx, in)
}

// expectation holds all that is known of the answers to one run.
type expectation struct {
	graph        *ir.Graph
	in           Data
	wide, narrow Data
	err          error // of the interpreter
	fits         bool  // the sizes are those that the graph was made with
	noisyErr     bool  // an evaluation with errors fails: a shape or an index depends on digits
	noisyOdd     bool  // a value of one is infinite or NaN
}

// expect interprets a graph. An error is a fault of an operator.
//
// If fits is not set, sizes may contradict what operators expect of unknown dimensions.
func expect(g *ir.Graph, in Data, fits bool) (*expectation, error) {
	e := &expectation{graph: g, in: in, fits: fits || len(g.Symbols()) == 0}
	e.wide, e.err = interpreted(g, in, true)
	var err error
	e.narrow, err = interpreted(g, in, false)
	for _, err := range []error{e.err, err} {
		if errors.Is(err, runtime.ErrInternal) {
			return nil, fmt.Errorf("the interpreter: %w%s", err, stack(err))
		}
		if errors.Is(err, ref.ErrResult) && fits && !loops(g) {
			return nil, fmt.Errorf("the interpreter: %w", err)
		}
		if errors.Is(err, ref.ErrResult) {
			return nil, nil
		}
	}
	if errors.Is(e.err, runtime.ErrMemory) || errors.Is(err, runtime.ErrMemory) {
		return nil, nil // the CPU shall not try
	}
	if (err == nil) != (e.err == nil) {
		return nil, nil // digits decide whether there is an answer
	}
	return e, nil
}

// spreading are the operators that some implementations compute by transforms, or with taps beyond the sequence: NaN
// reaches further there.
var spreading = []string{"SSM", "DenseSSM", "StateSpace", "LongConv", "Scan", "DenseScan", "DPLR", "DPLRScan",
	"MatrixConv",
	"ContinuousConv", "SoftmaxConv", "FourierMix", "DFT", "STFT", "Rfft", "Irfft", "Conv", "ConvTranspose"}

// anySpreads reports whether a graph has an operator that spreads infinities and NaN. A loop is one if it is raised: a
// coefficient of 0 takes part in a linear form.
func anySpreads(g *ir.Graph, raised bool) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		spreads := slices.Contains(spreading, n.Op.Name) && (n.Op.Domain != "" || n.Op.Name != "Scan")
		if spreads || raised && (n.Op.Name == "Scan" || n.Op.Name == "Loop") {
			return errFound
		}
		return nil
	}) != nil
}

// strange reports whether a run has infinities or NaN, and an operator that spreads them.
func strange(g *ir.Graph, in Data, raised bool) bool {
	if !anySpreads(g, raised) {
		return false
	}
	for _, v := range g.Constants() {
		if notFinite(v.Const) {
			return true
		}
	}
	for _, d := range in {
		if notFinite(d) {
			return true
		}
	}
	return !finite(g, in)
}

// finite reports whether no value of a run is infinite or NaN, or nearly so large.
func finite(g *ir.Graph, in Data) bool {
	p, w := eval.New(eval.Options{Wide: true}), &noise{tol: func(*ir.Node) float64 { return 0 }}
	if p.Add(g) != nil {
		return true
	}
	data := make([]tensor.Datum, len(g.Inputs))
	for i, v := range g.Inputs {
		data[i] = eval.Present(eval.Widen(in[v.Name]))
	}
	_, _ = p.Graph(context.Background(), g, data, nil, nil, w)
	return !w.odd
}

// notFinite reports whether a tensor has an infinity or NaN, or a number that is nearly as large.
func notFinite(d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	return ok && t.DType().IsFloat() && slices.ContainsFunc(reals(t), func(v float64) bool {
		return math.IsNaN(v) || math.Abs(v) > 1e18
	})
}

// empty reports whether a datum is a tensor without elements. For a loop without iterations, only its body may show
// the sizes of the other dimensions.
func empty(d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	return ok && t.Len() == 0
}

// has reports whether a graph has an operator of one of the names.
func has(g *ir.Graph, ops ...string) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if slices.Contains(ops, n.Op.Name) {
			return errFound
		}
		return nil
	}) != nil
}

// loops reports whether a graph has a Loop or Scan. Without iterations, their stacked results have no step that
// would show its size.
func loops(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if n.Op.Name == "Loop" || n.Op.Name == "Scan" && n.Op.Domain == "" {
			return errFound
		}
		return nil
	}) != nil
}

var errFound = errors.New("found")

// judge returns how an answer differs from the expected one, or "".
func (e *expectation) judge(got Data, tol func(n *ir.Node) float64, raised bool) string {
	if len(got) != len(e.wide) {
		return fmt.Sprintf("expected outputs %v, found %v", names(e.wide), names(got))
	}
	for _, name := range names(e.wide) {
		v := views{wide: e.wide[name], narrow: e.narrow[name], factor: 4}
		if compare(got[name], v) == "" {
			continue
		}
		if strange(e.graph, e.in, raised) {
			continue
		}
		v.poles, v.lossy = has(e.graph, "Div", "Reciprocal"), tol != nil
		v.counts = has(e.graph, "Unique") || loops(e.graph) && empty(got[name]) && empty(e.wide[name])
		// states that cancel
		if has(e.graph, "Scan", "SSM", "DenseScan", "DenseSSM", "DPLRScan", "StateSpace", "LongConv") {
			most := 0.0
			for _, d := range e.in {
				most = max(most, largest(d))
			}
			for _, c := range e.graph.Constants() {
				most = max(most, largest(c.Const))
			}
			if v.floor = 1e-9 * most; most > 1e6 { // a transform mixes all steps
				v.floor = most
			}
		}
		if tol == nil {
			tol = tolerance
		}
		d := ""
		for _, runs := range []int{4, 24} {
			noisy := e.more(runs, tol)
			if e.noisyErr {
				return ""
			}
			v.perturbed = nil
			for _, p := range noisy {
				v.perturbed = append(v.perturbed, p[name])
			}
			if d = compare(got[name], v); d == "" {
				break
			}
		}
		if d != "" && !(e.noisyOdd && notFinite(got[name]) && anySpreads(e.graph, raised)) {
			return fmt.Sprintf("output %s: %s", name, d)
		}
	}
	return ""
}

// more returns evaluations with errors.
func (e *expectation) more(n int, tol func(n *ir.Node) float64) []Data {
	var all []Data
	var t equals
	for i := range n {
		t.at = 0
		d, odd, err := perturbed(e.graph, e.in, uint64(i), tol, &t)
		e.noisyOdd = e.noisyOdd || odd
		if err != nil {
			e.noisyErr = true
			return nil
		}
		all = append(all, d)
	}
	return all
}

// tolerance is the tolerance of a node in units, without its subgraphs.
func tolerance(n *ir.Node) float64 { return n.Op.Tol.Ulps }
