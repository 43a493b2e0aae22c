package ops

import (
	"iter"

	"github.com/essmc/essmc/ir"
)

// The functions of this file divide the work of an evaluation, and check its context in between: they panic with an
// *ir.Ended when it is done (ir.EvalCtx.Step). A nil context never is. Loops over them are inlined, and as fast as
// plain ones, but for some nanoseconds when they begin.

// Each yields the numbers from 0 to n-1. Each step of the loop is an operation.
func Each(c *ir.EvalCtx, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n; {
			hi := min(n, i+ir.Pace)
			c.Step(hi - i)
			for ; i < hi; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// All yields the elements of v, with their indices. Each step of the loop is an operation.
func All[T any](c *ir.EvalCtx, v []T) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := 0; i < len(v); {
			hi := min(len(v), i+ir.Pace)
			c.Step(hi - i)
			for ; i < hi; i++ {
				if !yield(i, v[i]) {
					return
				}
			}
		}
	}
}

// Costly is Each, where each step of the loop is so many operations, all of those in loops inside of it that are plain.
func Costly(c *ir.EvalCtx, n, operations int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if c.Step(operations); !yield(i) {
				return
			}
		}
	}
}

// Parts yields the bounds of parts of 0 to n-1. Each number is an operation.
func Parts(c *ir.EvalCtx, n int) iter.Seq2[int, int] { return Blocks(c, n, ir.Pace) }

// Blocks is Parts with parts of another size, for kernels that compute many elements at a time.
func Blocks(c *ir.EvalCtx, n, size int) iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		for lo := 0; lo < n; lo += size {
			hi := min(n, lo+size)
			if c.Step(hi - lo); !yield(lo, hi) {
				return
			}
		}
	}
}

// Put is copy(dst, src).
func Put[T any](c *ir.EvalCtx, dst, src []T) int {
	n := min(len(dst), len(src))
	if n <= ir.Pace { // most calls
		c.Step(n)
		return copy(dst, src)
	}
	for lo := 0; lo < n; lo += ir.Pace {
		hi := min(n, lo+ir.Pace)
		c.Step(hi - lo)
		copy(dst[lo:hi], src[lo:hi])
	}
	return n
}

// Fill sets the elements of v to x.
func Fill[T any](c *ir.EvalCtx, v []T, x T) {
	for lo, hi := range Parts(c, len(v)) {
		for i := range v[lo:hi] {
			v[lo+i] = x
		}
	}
}
