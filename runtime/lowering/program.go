package lowering

import (
	"context"
	"errors"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// Program is a graph as a flat list of steps. It is immutable: what its fields hold is read only.
type Program struct {
	// Config is what the graph was lowered with.
	Config runtime.Config
	// Graph is the graph that was lowered; of a program within a program, the subgraph.
	Graph *ir.Graph
	// Values are all values, by ID: constants, too.
	Values []*Value
	// Steps are in the order in which they run.
	Steps []*Step
	// Inputs and Outputs are those of the graph, in its order. A program within a program has what it captures as further inputs.
	Inputs, Outputs []*Value

	backend Backend
	facts   []ir.Fact // per value: how it lies along time; nil where the graph does not say
	nodes   *eval.Program
}

// Value is something that steps read and write. Aliases (the input of a Block's body, the output of an operator whose body was
// written out) are one value.
type Value struct {
	// ID is its place in Program.Values.
	ID int
	// Name is that of the graph, for messages; several values may have one name.
	Name string
	// Type is what the graph declares.
	Type ir.Type
	// Const is its content, where that is constant; nil otherwise.
	Const *tensor.Tensor
}

// Step is the application of one operator.
type Step struct {
	// Node is what is evaluated; its constants may have been computed here.
	Node *ir.Node
	// Source is the node of the graph that the step is, or is part of: what messages name.
	Source *ir.Node
	// In and Out are what it reads and writes; nil where absent.
	In, Out []*Value
	// Captures are the values that its subgraphs read besides.
	Captures []Capture
	// Group is the group that it belongs to: steps of different groups are not computed together. 0: none.
	Group int
	// Alone says how the first output follows from the inputs along time: the fact that it has where they look at one step.
	Alone ir.Fact
	// Rows says how it works on sequences as rows, where TimeMajor has made it; nil: as its operator does on its inputs.
	Rows *OnRows
	// Impl is what the backend keeps of the step. If it is a fmt.Stringer, printed programs show it.
	Impl any

	branches  *[2]*branch // of If: else and then
	body      *loopBody   // of Loop and Scan
	evaluated bool        // the backend has no implementation: it is evaluated as ops defines it
}

// Capture is a value that a subgraph of a step reads: within it, and outside.
type Capture struct {
	Inner *ir.Value
	Outer *Value
}

// Args are the inputs of the step's node; what is beyond them are other forms of these, for backends.
func (s *Step) Args() []*Value { return s.In[:len(s.Node.Inputs)] }

// Features splits a shape into rows and features per row.
func Features(shape []int) (rows, f int) {
	if len(shape) == 0 {
		return 1, 1
	}
	rows = 1
	for _, d := range shape[:len(shape)-1] {
		rows *= d
	}
	return rows, shape[len(shape)-1]
}

// SameRows reports whether a and b have the same leading dimensions.
func SameRows(a, b []int) bool {
	return len(a) == len(b) && len(a) > 0 && slices.Equal(a[:len(a)-1], b[:len(b)-1])
}

// Constant returns input i as float32 numbers, when it is a constant.
func (s *Step) Constant(i int) []float32 {
	if i >= len(s.In) || s.In[i] == nil || s.In[i].Const == nil {
		return nil
	}
	return float32s(s.In[i].Const)
}

// Constant64 returns input i as float64 numbers, when it is a constant.
func (s *Step) Constant64(i int) []float64 {
	if i >= len(s.In) || s.In[i] == nil || s.In[i].Const == nil {
		return nil
	}
	v, err := s.In[i].Const.Float64s()
	if err != nil {
		return nil
	}
	return v
}

// ConstShape returns the shape of input i, which is a constant.
func (s *Step) ConstShape(i int) []int { return s.In[i].Const.Shape() }

// Absent reports whether input i is not there.
func (s *Step) Absent(i int) bool { return i >= len(s.In) || s.In[i] == nil }

// float32s returns a tensor's elements as float32, never nil.
func float32s(t *tensor.Tensor) []float32 {
	if t.DType() == tensor.Float32 {
		if v := tensor.Data[float32](t); v != nil {
			return v
		}
		return []float32{}
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(x)
	}
	return w
}

// Float32Input reports whether input i is a float32 tensor.
func (s *Step) Float32Input(i int) bool {
	if s.Absent(i) {
		return false
	}
	v := s.In[i]
	return v.Const != nil && v.Const.DType() == tensor.Float32 || v.Const == nil && IsFloat32(v.Type)
}

// Runs splits a shape at an axis: how many runs, and how many numbers follow each place of the axis.
func Runs(shape []int, axis int) (outer, inner int) {
	outer, inner = 1, 1
	for _, d := range shape[:axis] {
		outer *= d
	}
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	return outer, inner
}

// IsFloat32 reports whether t is the type of a float32 tensor.
func IsFloat32(t ir.Type) bool {
	tt, ok := t.(*ir.TensorType)
	return ok && tt.Elem == tensor.Float32
}

// Failure returns err as a run returns it: as the error of the step's node, unless it names a node already, or the context has ended.
func (s *Step) Failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var node *runtime.NodeError // on the heap
	if !errors.As(err, &node) && ctx.Err() == nil {
		return &runtime.NodeError{Node: s.Source, Err: err}
	}
	return err
}
