package ir

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
)

// Op describes an operator: what it takes and gives, what it means, and how it moves data. An Op is immutable once
// registered, and shared by all nodes that apply it. Parser, importer, interpreter, documentation and tests all work from
// this record, so an operator is added by adding one.
type Op struct {
	Domain string // "" for ai.onnx, "essm" for the state-space operators
	Name   string
	// Since is the first version of the domain's operator set in which the operator means this.
	Since int
	// Until is the first version in which it no longer does (deprecated and gone); 0: still there.
	Until int
	// Doc says in a sentence or two what it computes, with shapes and the source of the definition.
	Doc string

	In, Out []Param
	Attrs   []AttrSpec
	// Elems lists, per type variable of In and Out, the element types it may stand for; absent: float16, bfloat16,
	// float32, float64.
	Elems map[string][]tensor.DType

	// Infer gives the types of all declared outputs, from the node's inputs (types, and constants) and attributes.
	Infer func(n *Node) ([]Type, error)
	// Eval is the meaning: it computes the outputs, one per declared output (nil where the node does not want it). It may
	// be nil when Body is there. Inputs hold nil where absent; an absent trailing input may be missing.
	Eval func(c *EvalCtx, in []tensor.Datum) ([]tensor.Datum, error)
	// Body builds the operator from smaller ones; where it is set and Eval is not, it is the meaning.
	Body func(b *Builder, n *Node, in []*Value) []*Value
	// Along says how the operator moves data along one declared dimension (time, batch): the facts of its outputs from
	// those of its inputs. Nil means: every output element may depend on all steps.
	Along func(n *Node, in []Fact) []Fact
	// Cost counts the work of one evaluation; nil: one operation per output element.
	Cost func(n *Node, bind map[string]int64) Work
	// Tol is how far an implementation may be from Eval.
	Tol Tolerance
	// Random says that two evaluations may differ, so the operator is never folded or shared.
	Random bool
	// Commutative says that its two inputs may change places.
	Commutative bool
}

// FullName is "Gemm", or "essm.Scan" outside of ai.onnx.
func (o *Op) FullName() string {
	if o.Domain == "" {
		return o.Name
	}
	return o.Domain + "." + o.Name
}

// Param declares one input or output.
type Param struct {
	Name string
	// Elem is an element type ("float64") or a type variable ("T").
	Elem string
	// Dims is the shape as written in the signature; nil: any shape.
	Dims     []string
	Optional bool
	// Variadic says that any number may follow, each with the same declaration; only for the last one.
	Variadic bool
}

// AttrSpec declares one attribute.
type AttrSpec struct {
	Name     string
	Kind     AttrKind
	Required bool
	Default  any      // the value when it is absent; nil: none
	OneOf    []string // for strings: what is allowed; nil: anything
	Doc      string
}

// EvalCtx is what an evaluation needs besides its inputs.
type EvalCtx struct {
	Node *Node
	// Ctx tells long evaluations to stop.
	Ctx context.Context
	// Wide says that float32 is carried as float64 throughout.
	Wide bool
	// Kernel asks operators that have several forms for one: "scan", "chunked", "fft", "direct"; empty or "auto": theirs
	// to choose.
	Kernel string
	// Call runs a subgraph of the node.
	Call func(g *Graph, in []tensor.Datum) ([]tensor.Datum, error)
}

// Tolerance bounds the difference between an implementation's answer and the meaning's, computed in float64: at most
// Ulps·ε·scale, where ε is the rounding unit of the answer's type and scale is the larger of the answer's greatest absolute
// value and 1e-30. Zero stands for exact equality.
type Tolerance struct{ Ulps float64 }

// Tolerances that operators declare.
var (
	Exact    = Tolerance{0}    // integers, movement of data
	Rounding = Tolerance{8}    // a few roundings per element
	Summing  = Tolerance{256}  // long sums in another order
	Long     = Tolerance{4096} // recurrences and transforms over long sequences
)

// Work is what an evaluation costs.
type Work struct {
	Flops int64 // multiplications and additions, a fused one counted twice
	Bytes int64 // bytes read and written at least once
}

// Fact says how a value moves along one declared dimension, which a symbol names (time, usually L, or batch). The zero Fact
// is a value that does not vary along it.
type Fact struct {
	// Symbol is the dimension's name; empty when the value does not depend on it at all.
	Symbol string
	// Axis carries the dimension; -1 when the value depends on the dimension but no axis carries it any more (a mean over
	// time).
	Axis int
	// Stride is how many of the graph's steps one step of this value stands for.
	Stride int64
	// Back and Ahead are how many of the graph's steps before and after its own a step depends on, or Unbounded.
	Back, Ahead int64
	// Summary says that what lies behind is held in a state of fixed size (a scan, a running sum), so unbounded Back does
	// not need the past itself.
	Summary bool
	// State counts the scalars of that state, per sample, that the node computing this value adds.
	State int64
	// Global says that a step may depend on all steps in a way that no bounded state sums up.
	Global bool
	// Cause is the node that made Back or Ahead unbounded, or the value global.
	Cause *Node
}

// Unbounded is a lookback or lookahead without limit.
const Unbounded = int64(1) << 40

// Constant reports whether the value does not vary along the dimension.
func (f Fact) Constant() bool { return f.Symbol == "" }

// String writes a fact for people: "axis 1, back ∞ (state 64)".
func (f Fact) String() string {
	if f.Constant() {
		return "constant"
	}
	if f.Global {
		return "global"
	}
	s := "each step by itself"
	n := func(k int64) string {
		if k >= Unbounded {
			return "all"
		}
		return fmt.Sprint(k)
	}
	switch {
	case f.Back > 0 && f.Ahead > 0:
		s = "back " + n(f.Back) + ", ahead " + n(f.Ahead)
	case f.Back > 0:
		s = "back " + n(f.Back)
	case f.Ahead > 0:
		s = "ahead " + n(f.Ahead)
	}
	if f.Axis < 0 {
		s += ", summed up"
	} else {
		s += fmt.Sprintf(", axis %d", f.Axis)
	}
	if f.Stride > 1 {
		s += fmt.Sprintf(", every %d steps", f.Stride)
	}
	if f.State > 0 {
		s += fmt.Sprintf(", state %d", f.State)
	}
	return s
}

// Resolver finds operators by name and version of their domain's operator set.
type Resolver interface {
	// Resolve gives the operator as the given version of its domain defines it, or nil.
	Resolve(domain, name string, version int) *Op
}
