package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// matmul adds the product of a (m,k) and b (k,n) to out (m,n).
func matmul[T float64 | int64](c *ir.EvalCtx, out, a, b []T, m, k, n int) {
	for i := range m {
		c.Step(1)
		row := out[i*n : (i+1)*n]
		for j := range k {
			c.Step(1)
			x := a[i*k+j]
			for l, y := range ops.All(c, b[j*n:(j+1)*n]) {
				row[l] += x * y
			}
		}
	}
}

// MatMul is numpy's matmul.
var MatMul = ops.Register(&ir.Op{
	Name: "MatMul", Since: 13,
	Doc: "Matrix product as numpy's matmul: (…,m,k) by (…,k,n) gives (…,m,n), leading dimensions broadcast; a vector " +
		"counts as a row on the left and a column on the right.",
	In: ops.Sig("A:T", "B:T"), Out: ops.Sig("Y:T"), Elems: elems("T", sumTypes),
	Infer: inferMatMul, Eval: evalMatMul, Along: alongMatMul,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		s := n.In(0).Shape()
		if len(s) == 0 {
			return workOf(n, bind, 0)
		}
		return workOf(n, bind, 2*sizeOf(n.Outputs[0].Shape(), bind)*sizeOf(s[len(s)-1:], bind))
	},
	Gradient: gradMatMul,
	Linear:   ops.LinearEach,
	Tol:      ir.Summing,
})

func inferMatMul(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	a, b := tensorIn(n, 0), tensorIn(n, 1)
	if a.NoRank || b.NoRank {
		return one(noRank(a.Elem))
	}
	x, y := a.Shape, b.Shape
	if len(x) == 0 || len(y) == 0 {
		return nil, fmt.Errorf("shapes %v and %v: a scalar has no matrix product", x, y)
	}
	row, col := len(x) == 1, len(y) == 1
	if row {
		x = ir.Shape{ir.Const(1), x[0]}
	}
	if col {
		y = ir.Shape{y[0], ir.Const(1)}
	}
	p, okP := x[len(x)-1].Known()
	q, okQ := y[len(y)-2].Known()
	if okP && okQ && p != q {
		return nil, fmt.Errorf("shapes %v and %v: inner dimensions %d and %d differ", a.Shape, b.Shape, p, q)
	}
	out, err := ops.BroadcastShape(x[:len(x)-2], y[:len(y)-2])
	if err != nil {
		return nil, err
	}
	if !row {
		out = append(out, x[len(x)-2])
	}
	if !col {
		out = append(out, y[len(y)-1])
	}
	return one(typed(a.Elem, out))
}

func evalMatMul(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	a, err := need(in, 0, "A")
	if err != nil {
		return nil, err
	}
	b, err := need(in, 1, "B")
	if err != nil {
		return nil, err
	}
	if err := sameElem(a, b); err != nil {
		return nil, err
	}
	x, y := a.Shape(), b.Shape()
	if len(x) == 0 || len(y) == 0 {
		return nil, fmt.Errorf("shapes %v and %v: a scalar has no matrix product", x, y)
	}
	row, col := len(x) == 1, len(y) == 1
	if row {
		x = []int{1, x[0]}
	}
	if col {
		y = []int{y[0], 1}
	}
	m, k, p := x[len(x)-2], x[len(x)-1], y[len(y)-1]
	if y[len(y)-2] != k {
		return nil, fmt.Errorf("shapes %v and %v: inner dimensions %d and %d differ", a.Shape(), b.Shape(), k,
			y[len(y)-2])
	}
	batch, err := ops.Broadcast(x[:len(x)-2], y[:len(y)-2])
	if err != nil {
		return nil, err
	}
	shape := append([]int{}, batch...)
	if !row {
		shape = append(shape, m)
	}
	if !col {
		shape = append(shape, p)
	}
	size, err := ops.Elems(shape)
	if err != nil {
		return nil, err
	}
	places := func(shape []int, size int) []int {
		list := offsets(c, ops.Make[int](c, product(batch)), batch, ops.BroadcastStrides(shape[:len(shape)-2], batch),
			0)
		for i := range ops.Each(c, len(list)) {
			list[i] *= size
		}
		return list
	}
	if _, err := ops.Elems(batch); err != nil {
		return nil, err
	}
	offA, offB := places(x, m*k), places(y, k*p)
	if a.DType().IsInt() {
		u, err := ops.Int64s(c, a)
		if err != nil {
			return nil, err
		}
		v, err := ops.Int64s(c, b)
		if err != nil {
			return nil, err
		}
		out := ops.Make[int64](c, size)
		for i := range ops.Each(c, len(offA)) {
			matmul(c, out[i*m*p:], u[offA[i]:], v[offB[i]:], m, k, p)
		}
		return ops.One(fromInts(c, a.DType(), out, shape...))
	}
	u, v := ops.F64(c, in, 0), ops.F64(c, in, 1)
	out := ops.Make[float64](c, size)
	for i := range ops.Each(c, len(offA)) {
		matmul(c, out[i*m*p:], u[offA[i]:], v[offB[i]:], m, k, p)
	}
	return ops.One(ops.Real(c, a.DType(), out, shape...))
}

// alongMatMul keeps the axis if it is a row of A, a column of B, or a leading dimension.
func alongMatMul(n *ir.Node, in []ir.Fact) []ir.Fact {
	ra, rb := len(n.In(0).Shape()), len(n.In(1).Shape())
	out := len(n.Outputs[0].Shape())
	if ra == 0 || rb == 0 {
		return spread(n, ops.Global(n, in))
	}
	// From axes of the inputs to axes of the output; -1 for those that are summed over.
	axisA := func(a int) int {
		switch {
		case a == ra-1:
			return -1
		case rb == 1:
			return a + out - (ra - 1)
		}
		return a + out - ra
	}
	axisB := func(a int) int {
		switch {
		case a == max(rb-2, 0):
			return -1
		case ra == 1 && a == rb-1:
			return out - 1
		case ra == 1:
			return a + out - (rb - 1)
		}
		return a + out - rb
	}
	facts := make([]ir.Fact, 2)
	ranks := []int{out, out}
	for i, axis := range []func(int) int{axisA, axisB} {
		f := in[i]
		if !f.Constant() && !f.Global && f.Axis >= 0 {
			if f.Axis = axis(f.Axis); f.Axis < 0 {
				return spread(n, ops.Global(n, in))
			}
		}
		facts[i] = f
	}
	return spread(n, ops.Join(n, facts, ranks, out))
}
