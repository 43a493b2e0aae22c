package cpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Implementation describes how a node runs, or a node of the body that replaces it.
type Implementation struct {
	// Within is the path of the subgraph that holds the node, as in "Loop/If.then/"; "" for the graph itself.
	Within string
	// Op is the full name of the operator, with its version if it is not the newest ("Upsample-9"). A node of a body
	// has the operator that it belongs to before it ("MeanVarianceNormalization>Sub").
	Op string
	// Types lists the element types of the inputs and, after ">", of the outputs, each once; one list if both are the
	// same.
	Types string
	// Way is one of the constants below; with the form for recurrences, "recurrence(scan)", and with the precision for
	// products in low precision, "row(int8)".
	Way string
	// Region is the number of the region that the node is part of, from 1 in each subgraph; 0 for none.
	Region int
	// Chunk is the number of the stretch, whose units compute one time chunk after the other, from 1; 0 for none.
	Chunk int
}

// Values of Implementation.Way.
const (
	WayFused      = "fused"       // several elementwise operators in one kernel, in a region
	WayElement    = "elementwise" // one elementwise operator, in a region
	WayRow        = "row"         // each row by itself, in a region
	WayRecurrence = "recurrence"  // carries a state along time, in a region
	WayWindowed   = "windowed"    // looks a bounded number of steps back or ahead, in a region
	WayRunning    = "running sum" // sums along time, in a region
	WayTranspose  = "transpose"   // turns a sequence into rows, or back, in a region
	WayColumns    = "columns"     // copies features, in a region
	WayStreaming  = "streaming"   // step by step outside of regions, or sums over time
	WayTensor     = "tensor"      // whole tensors at once
	WayEpilogue   = "epilogue"    // by the kernel of the node before it
	WayProgram    = "program"     // its subgraphs are programs, which follow
	WayEvaluated  = "evaluated"   // as package ops defines it
	WayFolded     = "folded"      // a constant, or not used: nothing is left of it after Compile
	WayKnown      = "known"       // follows from the shapes: nothing is left of it after Bind
	WayAbsorbed   = "absorbed"    // part of other nodes' work, as the pads of a window, or a transpose that is not needed
)

// Implementations returns how an executable of this backend runs the nodes of its program p. First come the nodes
// that need no work in a run, in the graph's order, then the others in execution order. The nodes of subgraphs
// follow the node that they belong to.
func Implementations(p runtime.Program, e runtime.Executable) []Implementation {
	return implementations(p.(*program), e.(*executable), "")
}

func implementations(p *program, e *executable, within string) (all []Implementation) {
	d := e.d
	left := map[*ir.Node]string{} // nodes that need no work in a run
	walkFlat(p.Graph, func(n *ir.Node) { left[n] = WayFolded })
	for _, s := range p.Steps {
		switch {
		case !d.Dead(s):
			left[s.Source] = WayAbsorbed
		case left[s.Source] == WayFolded:
			left[s.Source] = WayKnown
		}
	}
	for _, u := range e.units {
		for _, s := range u.steps {
			delete(left, s.Source)
		}
	}
	walkFlat(p.Graph, func(n *ir.Node) {
		if way := left[n]; way != "" {
			types := typesText(declared(n.Inputs), declared(n.Outputs))
			all = append(all, Implementation{Within: within, Op: opName(n.Op), Types: types, Way: way})
		}
	})
	regions := 0
	for i, u := range e.units {
		region, chunk := 0, 0
		for k, st := range e.stretches {
			if st.from <= i && i < st.to {
				chunk = k + 1
			}
		}
		if u.region != nil {
			regions++
			region = regions
		}
		for j, s := range u.steps {
			types := typesText(d.elems(s.In[:min(len(s.In), len(s.Node.Inputs))]), d.elems(s.Out))
			x := Implementation{Within: within, Op: opName(s.Node.Op), Types: types, Way: u.way(s, j), Region: region,
				Chunk: chunk}
			if s.Node.Op != s.Source.Op {
				x.Op = opName(s.Source.Op) + ">" + x.Op
			}
			all = append(all, x)
		}
		if u.kernel == nil {
			continue
		}
		for k, sub := range u.subs {
			if sub == nil {
				continue
			}
			name := u.steps[0].Node.Op.FullName()
			if record.Named(u.steps[0].Node.Op).Program == record.Branches {
				name += []string{".else", ".then"}[k]
			} else if k > 0 {
				name += fmt.Sprintf(".%d", k)
			}
			all = append(all, implementations(sub.p, sub, within+name+"/")...)
		}
	}
	return all
}

// walkFlat visits the nodes of g, with the body of a Block instead of the Block.
func walkFlat(g *ir.Graph, visit func(n *ir.Node)) {
	for _, n := range g.Nodes {
		if record.Named(n.Op).Program == record.PartOfGraph {
			walkFlat(n.Attrs.Graph("body"), visit)
			continue
		}
		visit(n)
	}
}

// way returns how s, step j of the unit, runs.
func (u *unit) way(s *lowering.Step, j int) string {
	g := u.region
	switch {
	case g == nil && u.streaming != nil:
		if k, ok := u.streaming.(record.Formed); ok {
			return fmt.Sprintf("%s(%s)", WayStreaming, k.Form())
		}
		return WayStreaming
	case g == nil && u.kernel != nil && len(u.subs) > 0:
		return WayProgram
	case g == nil && j > 0:
		return WayEpilogue
	case g == nil && u.kernel != nil:
		return WayTensor
	case g == nil:
		return WayEvaluated
	case record.Of(s).Recurrence != nil:
		return fmt.Sprintf("%s(%s)", WayRecurrence, g.recurrence.choice.Form)
	case record.Of(s).WindowedOp != nil:
		return WayWindowed
	case s.Rows.Does(lowering.RowsSum):
		return WayRunning
	case s.Rows.Transposes():
		return WayTranspose
	case record.Of(s).Columns != nil:
		return WayColumns
	}
	for _, v := range slices.Concat(s.In, s.Out) {
		if v != nil && slices.Contains(g.between, v.ID) {
			return WayFused
		}
	}
	switch {
	case record.Of(s).Lowered != nil && record.Of(s).Lowered.Why == "":
		return fmt.Sprintf("%s(%v)", WayRow, record.Of(s).Products)
	case byElement(s.Node.Op):
		return WayElement
	}
	return WayRow
}

// byElement reports whether an operator is always elementwise.
func byElement(op *ir.Op) bool {
	if elementwise.Of(op) {
		return true
	}
	r := record.For(op)
	return r.Fused != nil && r.Flops == nil // and no product, as heads of more than one feature are
}

func opName(op *ir.Op) string {
	if ops.Newest(op) {
		return op.FullName()
	}
	return fmt.Sprintf("%s-%d", op.FullName(), op.Since)
}

// elems returns the element types of values as they are bound.
func (d *binding) elems(values []*lowering.Value) (names []string) {
	for _, v := range values {
		switch {
		case v == nil:
		case d.Shape(v) != nil && d.DType(v) != tensor.Invalid:
			names = append(names, d.DType(v).String())
		default:
			names = append(names, elemText(v.Type))
		}
	}
	return names
}

func declared(values []*ir.Value) (names []string) {
	for _, v := range values {
		if v != nil {
			names = append(names, elemText(v.Type))
		}
	}
	return names
}

// elemText returns the element type of t as text, with "seq(…)" around it for a sequence, and "?" after it for an
// optional.
func elemText(t ir.Type) string {
	switch t := t.(type) {
	case *ir.TensorType:
		return t.Elem.String()
	case *ir.SequenceType:
		return "seq(" + elemText(t.Elem) + ")"
	case *ir.OptionalType:
		return elemText(t.Elem) + "?"
	}
	return "unknown"
}

func typesText(in, out []string) string {
	once := func(names []string) string {
		var list []string
		for _, n := range names {
			if !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		return strings.Join(list, ",")
	}
	a, b := once(in), once(out)
	if a == b {
		return a
	}
	return a + ">" + b
}
