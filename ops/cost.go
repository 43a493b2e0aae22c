package ops

import (
	"math"

	"github.com/essmc/essmc/ir"
)

// Count returns the number of elements of v for given symbols. Unknown dimensions count as 1.
func Count(v *ir.Value, bind map[string]int64) int64 {
	if v == nil {
		return 0
	}
	n := int64(1)
	for i := range v.Shape() {
		n *= DimAt(v, i, bind)
	}
	return n
}

// DimAt returns dimension i of v for given symbols, or 1 if it is unknown. A negative i counts from the end.
func DimAt(v *ir.Value, i int, bind map[string]int64) int64 {
	s := v.Shape()
	if i < 0 {
		i += len(s)
	}
	if i < 0 || i >= len(s) {
		return 1
	}
	n, err := s[i].Eval(bind)
	if err != nil {
		return 1
	}
	return n
}

// Product returns the product of numbers that are not negative, or the largest number if that is less.
func Product(v ...int64) int64 {
	out := int64(1)
	for _, n := range v {
		if n > 0 && out > math.MaxInt64/n {
			return math.MaxInt64
		}
		out *= n
	}
	return out
}

// Stated returns the cost of a given number of operations, plus what the node reads and writes.
func Stated(n *ir.Node, bind map[string]int64, operations int64) ir.Work {
	return ir.Work{Flops: operations, Bytes: BytesOf(n, bind)}
}

// BytesOf returns the size of everything that the node reads and writes, each once.
func BytesOf(n *ir.Node, bind map[string]int64) int64 {
	var sum int64
	for _, vs := range [][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if n.Step(1); v != nil {
				sum += (Count(v, bind)*int64(v.Elem().Bits()) + 7) / 8
			}
		}
	}
	return sum
}

// WorkOf returns the cost of one evaluation of the node: its operator's Cost, or one operation per output element.
func WorkOf(n *ir.Node, bind map[string]int64) ir.Work {
	if n.Op.Cost != nil {
		return n.Op.Cost(n, bind)
	}
	w := ir.Work{Bytes: BytesOf(n, bind)}
	for _, v := range n.Outputs {
		n.Step(1)
		w.Flops += Count(v, bind)
	}
	return w
}
