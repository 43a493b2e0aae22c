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

// Program is a graph as a flat list of steps, in the order in which they run.
type Program struct {
	Config  runtime.Config
	backend Backend
	Facts   []ir.Fact // per value: how it lies along time; nil where the graph does not say
	Graph   *ir.Graph
	Values  []*Value
	Steps   []*Step
	Inputs  []*Value
	Outputs []*Value
	nodes   *eval.Program
}

// Value is something that steps read and write. Aliases (the input of a Block's body, the output of an operator whose body was
// written out) are one value.
type Value struct {
	ID    int // its place in Program.Values
	Name  string
	Type  ir.Type
	Const *tensor.Tensor // its content, where that is constant
}

// Step is the application of one operator.
type Step struct {
	Node      *ir.Node // what is evaluated; its constants may have been computed here
	Source    *ir.Node // the node of the graph that it is, or is part of: what messages name
	In, Out   []*Value // nil where absent
	Captures  []Capture
	Group     int         // steps of different groups (Blocks) do not share a region
	Branches  *[2]*Branch // of If: else and then
	Body      *LoopBody   // of Loop and Scan
	Alone     ir.Fact     // of the first output along time, were it not for the steps before
	evaluated bool        // the backend has no implementation: it is evaluated as ops defines it
	Impl      any         // what the backend keeps of the step
}

// Capture is a value of the main graph that a subgraph of the step reads.
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

// Constant gives input i as float32 numbers, when it is a constant.
func (s *Step) Constant(i int) []float32 {
	if i >= len(s.In) || s.In[i] == nil || s.In[i].Const == nil {
		return nil
	}
	return float32s(s.In[i].Const)
}

// Constant64 gives input i as float64 numbers, when it is a constant.
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

func (s *Step) ConstShape(i int) []int { return s.In[i].Const.Shape() }

// Absent reports whether input i is not there.
func (s *Step) Absent(i int) bool { return i >= len(s.In) || s.In[i] == nil }

// float32s gives a tensor's elements as float32, never nil.
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

func IsFloat32(t ir.Type) bool {
	tt, ok := t.(*ir.TensorType)
	return ok && tt.Elem == tensor.Float32
}

// Failure gives err as a run returns it: as the error of the step's node, unless it names a node already, or the context has ended.
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
