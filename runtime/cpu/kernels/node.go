package kernels

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Node is an application of an operator with shapes: what a kernel is made for. It is valid while Make runs.
type Node struct {
	// Attrs are the attributes. Absent ones have the default that the caller of Int, Float or String gives.
	Attrs ir.Attrs

	step    *lowering.Step
	in, out [][]int
	scratch int

	// Of tensor kernels only.
	d      *lowering.Binding
	temp   int
	misfit bool
	asked  []bool // per output: whether the kernel has its slot
}

// In returns the shape of input i, or nil if the input is absent.
func (n *Node) In(i int) []int { return at(n.in, i) }

// Out returns the shape of output i, or nil if nobody wants it.
func (n *Node) Out(i int) []int { return at(n.out, i) }

func at(shapes [][]int, i int) []int {
	if i >= len(shapes) {
		return nil
	}
	return slices.Clone(shapes[i])
}

// Numbers returns the elements of an input in Constant as float32; nil if the input is absent or varies. A kernel may
// keep the slice, and must not write to it.
//
// If the input follows from a parameter, its content may be replaced between runs. Make is called again then, and must
// make a kernel with the same scratch.
func (n *Node) Numbers(i int) []float32 { return record.Numbers(n.step, i) }

// Tensor returns an input in Constant; nil if it is absent or varies.
func (n *Node) Tensor(i int) *tensor.Tensor { return n.step.Fixed(i) }

// Scratch asks for working memory: so many float32 numbers for each worker, with any content at the beginning of each
// call. The memory is charged to the session's limit (runtime.Options.MaxMemory). What Make allocates itself is not:
// keep it to about the size of the constants.
func (n *Node) Scratch(numbers int) { n.scratch = n.sized("Scratch", numbers) }

// Temp asks for working memory of a tensor kernel as a whole: Run.Temp.
func (n *Node) Temp(numbers int) { n.temp = n.sized("Temp", numbers) }

// maxNumbers keeps sizes in bytes within int on all machines.
const maxNumbers = 1 << 28

func (n *Node) sized(what string, numbers int) int {
	if numbers < 0 || numbers > maxNumbers {
		panic(fmt.Sprintf("%s(%d): expected 0 to %d numbers", what, numbers, maxNumbers))
	}
	return numbers
}

// settled reports whether an input that Make may have read follows from a parameter.
func settled(s *lowering.Step, constant []int) bool {
	return slices.ContainsFunc(constant, func(i int) bool { return !s.Absent(i) && s.In[i].Settled != nil })
}
