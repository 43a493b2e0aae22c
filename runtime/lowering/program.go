package lowering

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// Program is a graph as a flat list of steps. It is immutable: callers must not change its fields or their elements.
type Program struct {
	// Config is the configuration with which the graph was lowered.
	Config runtime.Config
	// Graph is the graph that was lowered: for a program within a program, the subgraph.
	Graph *ir.Graph
	// Values are all values by ID, including constants.
	Values []*Value
	// Steps are in the order in which they run.
	Steps []*Step
	// Inputs and Outputs are the graph's, in order. A program within a program has its captured values as additional
	// inputs.
	Inputs, Outputs []*Value

	backend Backend
	facts   []ir.Fact // per value, along time; nil if the graph does not declare its time
	nodes   *eval.Program
	bodies  []*expanded
	trial   *trial
}

// trial records when sizes are tried. It is shared by copies of a program.
type trial struct {
	bound atomic.Bool // the program was bound before
	once  sync.Once
	// fits has the results of steps. It is not a field of Step: backends add steps and copy them, also while another
	// binding tries sizes.
	fits map[*Step]fitting
}

// note records the result of trying sizes on s. Only tryDistinct calls it.
func (t *trial) note(s *Step, ok bool) {
	if t.fits == nil {
		t.fits = map[*Step]fitting{}
	}
	f := t.fits[s]
	f.note(ok)
	t.fits[s] = f
}

// certain reports whether the operator of s accepts all sizes, as far as they were tried.
func (t *trial) certain(s *Step) bool {
	f := t.fits[s]
	return f.certain()
}

// expanded is an application of an operator that was replaced by its body. The steps of the body need not refuse
// what the operator refuses.
type expanded struct {
	node, source *ir.Node
	in           []*Value
	fits         fitting
}

// fitting is the result of trying distinct sizes on a node: whether its operator accepts them. If it does, it
// accepts other sizes as well, except those that are too small or do not divide, which kernels and evaluations check
// themselves. If not, each binding must check with the operator.
type fitting struct{ tried, doubtful bool }

func (f *fitting) note(ok bool) { f.tried, f.doubtful = true, f.doubtful || !ok }

func (f *fitting) certain() bool { return f.tried && !f.doubtful }

// Value is a value that steps read and write. Aliases, such as the inputs of a Block and of its body, are one Value.
type Value struct {
	// ID is the index in Program.Values.
	ID int
	// Name is the name in the graph, for messages. Several values may have one name.
	Name string
	// Type is the type that the graph declares.
	Type ir.Type
	// Const is the content of a constant; nil for other values.
	Const *tensor.Tensor
	// Settled is the content of a value that follows from parameters, in memory that stays; nil for other values. It
	// changes between runs, so a backend decides nothing by it, and computes again what follows from it (Keep).
	Settled *tensor.Tensor

	updated bool           // a parameter that runs update
	of      *tensor.Tensor // has the memory of Settled in another shape; nil: Settled itself
}

// Fixed returns the tensor of a constant or settled value, whose memory and shape stay; nil for values that vary.
func (v *Value) Fixed() *tensor.Tensor {
	if v.Const != nil {
		return v.Const
	}
	return v.Settled
}

// Step is the application of one operator.
type Step struct {
	// Node is the computed node. Its constants may be results of constant folding.
	Node *ir.Node
	// Source is the node of the graph that this step computes, or to whose body it belongs. Messages name it.
	Source *ir.Node
	// In and Out are the values that it reads and writes; nil for absent ones.
	In, Out []*Value
	// Captures are the additional values that its subgraphs read.
	Captures []Capture
	// Group is the number of its group, or 0. Steps of different groups are not computed together.
	Group int
	// Alone is the step's own part of the fact of its first output: the fact that the output would have if the inputs
	// looked neither back nor ahead.
	Alone ir.Fact
	// Rows describes a step that TimeMajor has made, which works on sequences as rows. It is nil for steps that
	// apply their operator.
	Rows *OnRows
	// Impl belongs to the backend. If it is a fmt.Stringer, printed programs show it.
	Impl any

	branches  *[2]*branch // of If: else and then
	body      *loopBody   // of Loop and Scan
	evaluated bool        // the backend has no implementation: it is evaluated as package ops defines it
}

// Sources returns the names of the first outputs of the nodes that steps come from, each once, for profiles.
func Sources(steps []*Step) (names []string) {
	for _, s := range steps {
		if s.Source == nil || s.Source.Out(0) == nil || slices.Contains(names, s.Source.Out(0).Name) {
			continue
		}
		names = append(names, s.Source.Out(0).Name)
	}
	return names
}

// Capture is a value that a subgraph reads from outside: Inner in the subgraph, and Outer in the program around it.
type Capture struct {
	Inner *ir.Value
	Outer *Value
}

// Args returns the inputs of the step's node. Further inputs are other forms of these, added by backends.
func (s *Step) Args() []*Value { return s.In[:len(s.Node.Inputs)] }

// Reads visits the values that the step reads, also by its subgraphs, until visit returns false. A value that it reads
// twice is visited twice.
func (s *Step) Reads(visit func(v *Value) bool) {
	for _, v := range s.In {
		if v != nil && !visit(v) {
			return
		}
	}
	for _, c := range s.Captures {
		if !visit(c.Outer) {
			return
		}
	}
}

// Features returns the number of rows of a shape, and of features per row, which are the last axis.
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

// Constant returns the elements of input i as float32, or nil if it is not a constant.
func (s *Step) Constant(i int) []float32 {
	if i >= len(s.In) || s.In[i] == nil || s.In[i].Const == nil {
		return nil
	}
	return float32s(s.In[i].Const)
}

// Release releases the elements of constant input i for now, because the backend keeps them in another form. Those of a
// settled one stay.
func (s *Step) Release(i int) {
	if t := s.In[i].Const; t != nil {
		t.Release()
	}
}

// Constant64 returns the elements of input i as float64, or nil if it is not a constant.
func (s *Step) Constant64(i int) []float64 {
	if i >= len(s.In) || s.In[i] == nil || s.In[i].Const == nil {
		return nil
	}
	return float64s(s.In[i].Const)
}

// ConstShape returns the shape of input i, which must be constant or settled.
func (s *Step) ConstShape(i int) []int { return s.In[i].Fixed().Shape() }

// Fixed returns the tensor of input i if it is constant or settled, and nil otherwise.
func (s *Step) Fixed(i int) *tensor.Tensor {
	if s.Absent(i) {
		return nil
	}
	return s.In[i].Fixed()
}

// Absent reports whether input i is absent.
func (s *Step) Absent(i int) bool { return i >= len(s.In) || s.In[i] == nil }

// Gives reports whether output i is present.
func (s *Step) Gives(i int) bool { return i < len(s.Out) && s.Out[i] != nil }

// float32s returns a tensor's elements as float32, never nil.
func float32s(t *tensor.Tensor) []float32 {
	v, err := t.Float32s()
	switch {
	case err != nil:
		return nil
	case v == nil:
		return []float32{}
	}
	return v
}

// Float32Input reports whether input i is a float32 tensor.
func (s *Step) Float32Input(i int) bool {
	if s.Absent(i) {
		return false
	}
	v := s.In[i]
	if t := v.Fixed(); t != nil {
		return t.DType() == tensor.Float32
	}
	return IsFloat32(v.Type)
}

// Runs returns the product of the dimensions before an axis, and of those after it.
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

// Failure returns err as the error of the step's node, unless it already names a node or ctx is done; nil for nil.
func (s *Step) Failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var node *runtime.NodeError // escapes to the heap, so it is declared after the return above
	if !errors.As(err, &node) && ctx.Err() == nil {
		return &runtime.NodeError{Node: s.Source, Err: err}
	}
	return err
}
