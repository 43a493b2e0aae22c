package ir

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
)

// Op describes an operator: its inputs and outputs, its meaning, and how it moves data. An Op is immutable once
// registered, and shared by all nodes that apply it. Parser, importer, interpreter, documentation and tests work from
// this record, so one more record is one more operator.
type Op struct {
	Domain string // "" for ai.onnx, "essm" for the state-space operators
	Name   string
	// Since is the first version of the domain's operator set with this definition.
	Since int
	// Until is the first version without it, where the operator was removed; 0: it is still there.
	Until int
	// Doc is a sentence or two on the result, with shapes and the source of the definition.
	Doc string

	In, Out []Param
	Attrs   []AttrSpec
	// Elems maps type variables of In and Out to the element types that they allow. A variable that is missing
	// allows float16, bfloat16, float32 and float64.
	Elems map[string][]tensor.DType

	// Infer gives the types of all declared outputs, from the node's inputs (types, and constants) and attributes.
	Infer func(n *Node) ([]Type, error)
	// Element defines an elementwise operator on floating types: an element of its only output as an expression of
	// the elements at the same place of the inputs. Inputs broadcast to each other, aligned at their last axes. x
	// has an expression for each input that the node has or the operator declares, the zero Expr for an absent one.
	// The result depends only on the node's attributes and on which inputs are present; the zero Expr means that
	// there is none. The result is rounded once, to the output's element type. Truth values are 0 and 1.
	Element func(n *Node, x []scalar.Expr) scalar.Expr
	// Eval computes the outputs, one per declared output (nil where the node does not want it), and so defines the
	// operator's meaning. It may be nil if Element or Body is set. An absent input is nil; an absent trailing one
	// may be missing.
	Eval func(c *EvalCtx, in []tensor.Datum) ([]tensor.Datum, error)
	// Body builds the operator from smaller ones. If Element and Eval are nil, Body defines the meaning. It accepts no
	// inputs that Eval refuses, once their shapes are known, so that backends may replace the operator by it.
	Body func(b *Builder, n *Node, in []*Value) []*Value
	// Along derives the facts of the outputs from the facts of the inputs, along one declared dimension (time,
	// batch). If it is nil, every output element may depend on all steps.
	Along func(n *Node, in []Fact) []Fact
	// Moves returns the pieces of inputs that the outputs consist of, for an operator that only moves elements. ok is
	// false if attributes, constant inputs and known dimensions do not determine them, or if other elements than zeros
	// are added. Operators that only move elements may have none.
	Moves func(n *Node) (pieces []Piece, ok bool)
	// Reshapes marks operators whose only result has the elements of the first input, in order, in another shape: it
	// may share the memory of that input.
	Reshapes bool
	// Sums returns the axis along which an operator sums up its first input. ok is false if constant inputs do not
	// determine it. It is nil for operators that do anything else.
	Sums func(n *Node) (sum RunningSum, ok bool)
	// Linear returns the sets of inputs, by index, in which the operator is jointly linear while all others are fixed:
	// f(ax+by) = af(x) + bf(y), up to rounding, where x and y stand for the inputs of a set. Gemm has {0, 2} and {1,
	// 2}. Sets are as large as possible, and may have absent inputs. Each output is linear in a set, or does not depend
	// on it. If it is nil, registration sets it from Element or, for operators without Eval, from Body; other operators
	// have no such set, or have graphs on which it depends. Raising reads it (ops.Linear).
	Linear func(n *Node) [][]int
	// Gradient adds nodes that compute the gradients of a scalar with respect to the inputs of n, in their order, from
	// those with respect to its outputs; nil: zero. dOut has a value for each output of the node, of the output's type,
	// and at least one that is not nil. A result has its input's element type; its shape may be one to which the input
	// broadcasts, as after an elementwise operator. Integers have none. Nodes may read inputs and outputs of n. If
	// Gradient is nil, the gradient follows from Element, Moves, Body or GradientBody (passes/grad). It may report that
	// attributes, types or present inputs have none by Builder.Fail.
	Gradient func(b *Builder, n *Node, dOut []*Value) []*Value
	// GradientBody builds an operator without Gradient and Body from smaller ones, for the sake of its gradient only.
	// It accepts what the operator accepts.
	GradientBody func(b *Builder, n *Node, in []*Value) []*Value
	// NoGradient is the reason why an operator has no gradient, for messages and documentation: the ending of a
	// sentence about it. Operators without floats among their inputs or outputs need none.
	NoGradient string
	// Cost counts the work of one evaluation. If it is nil, an output element takes one operation.
	Cost func(n *Node, bind map[string]int64) Work
	// OfShapes marks operators whose results follow from the shapes of their inputs and from attributes, and are small:
	// Shape, Size, Constant. They read no element. Lowering knows the results once shapes are bound; raising and
	// backends do not count such operators as readers of a value.
	OfShapes bool
	// SizedBy are the inputs of floats, by index, whose numbers determine shapes of outputs, such as the scales of
	// Resize. Integers may do so for any operator.
	SizedBy []int
	// Tol bounds the distance of an implementation from Eval. If it is Exact, the results need no rounding: they are
	// the same numbers if float16 inputs are given as float32.
	Tol Tolerance
	// Random marks operators whose evaluations may differ. They are never folded or shared.
	Random bool
	// Commutative marks operators whose two inputs may change places.
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
	// Dims is the shape as the signature writes it; nil: any shape.
	Dims     []string
	Optional bool
	// Variadic marks a last parameter that may be repeated any number of times.
	Variadic bool
}

// AttrSpec declares one attribute.
type AttrSpec struct {
	Name     string
	Kind     AttrKind
	Required bool
	Default  any      // the value of an absent attribute; nil: none
	OneOf    []string // the allowed strings; nil: any
	Doc      string
}

// EvalCtx holds the arguments of an evaluation besides its inputs.
type EvalCtx struct {
	Node *Node
	// Ctx ends the evaluation when it is done (Step); nil: never.
	Ctx context.Context
	// Wide requests float64 instead of float32 throughout.
	Wide bool
	// Kernel selects the form of operators that have several: "scan", "chunked", "fft", "direct". With "auto" or an
	// empty string they choose.
	Kernel string
	// Call runs a subgraph of the node.
	Call func(g *Graph, in []tensor.Datum) ([]tensor.Datum, error)
	// Budget bounds the memory of the evaluation; nil: no bound. Evaluations allocate by the functions of package ops
	// that take the context (ops.Make, ops.New, …).
	Budget *Budget

	charged int64 // bytes
	paced   int   // operations since the last check of Ctx
}

// Tolerance limits the difference between an implementation's answer and the operator's evaluation in float64. It is
// at most Ulps·ε·scale, where ε is the rounding unit of the answer's type and scale is the larger of the
// answer's greatest absolute value and 1e-30. Zero means exact equality. The tests of backends hold elementwise
// operators to more: to a bound for each element.
type Tolerance struct{ Ulps float64 }

// Tolerances that operators declare.
var (
	Exact      = Tolerance{0}    // integers, movement of data
	Rounding   = Tolerance{8}    // a few roundings per element
	Summing    = Tolerance{256}  // long sums in another order
	Cancelling = Tolerance{256}  // sums that may cancel: 1 + erf x has few digits left below −2
	Long       = Tolerance{4096} // recurrences and transforms over long sequences
)

// Work is the cost of an evaluation.
type Work struct {
	Flops int64 // multiplications and additions; a fused multiply-add is two
	Bytes int64 // bytes read and written, each counted once
}

// Fact describes how a value moves along one declared dimension: time, usually with the symbol L, or batch. The zero
// Fact describes a value that does not vary along it.
type Fact struct {
	// Symbol is the dimension's name; empty when the value does not depend on it at all.
	Symbol string
	// Axis is the axis that carries the dimension. It is -1 if the value depends on the dimension but no axis
	// carries it, as with a mean over time.
	Axis int
	// Stride is the number of the graph's steps per step of this value.
	Stride int64
	// Back and Ahead are the numbers of the graph's steps before and after its own that a step depends on, or
	// Unbounded.
	Back, Ahead int64
	// Summary is set if a state of fixed size represents the past, as in a scan or a running sum. Unbounded Back
	// then needs no past steps.
	Summary bool
	// State is the number of scalars, per sample, that the node which computes this value adds to that state.
	State int64
	// Global is set if a step may depend on all steps, and no state of fixed size represents them.
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
	// Resolve returns the operator as the given version of its domain defines it, or nil.
	Resolve(domain, name string, version int) *Op
}
