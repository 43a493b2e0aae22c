// Package acme extends essmc by the operator acme.Center with a kernel (this file), a pass that finds it in graphs
// (pass.go), and a family of models that has it (family.go).
package acme

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernels"
)

// Center subtracts its mean from each row.
var Center = ops.Register(&ir.Op{
	Domain: "acme", Name: "Center",
	Doc: "x − mean(x), along the last axis.",
	In:  ops.Sig("x:T[...,N]"), Out: ops.Sig("y:T[...,N]"),
	// How data moves along time and batch: each row by itself. Streams and tiles follow from that.
	Along: ops.AlongRows,
	// What the operator computes. Everything else is tested against this.
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		y := ops.Clone(c, ops.F64(c, in, 0)) // memory is charged to a budget
		n := x.Dim(x.Rank() - 1)
		for at := 0; at < len(y); at += n {
			c.Step(n) // ends long work when the context is done
			row := y[at : at+n]
			mean := sum(row) / float64(n)
			for i := range row {
				row[i] -= mean
			}
		}
		return ops.One(ops.Real(c, x.DType(), y, x.Shape()...))
	},
	Linear: ops.LinearIn([]int{0}),
	Tol:    ir.Summing,
})

func sum(row []float64) (s float64) {
	for _, v := range row {
		s += v
	}
	return s
}

func init() {
	kernels.MustRow(Center, kernels.Row{Make: func(n *kernels.Node) (kernels.RowFunc, error) {
		shape := n.In(0)
		width := float64(shape[len(shape)-1])
		return func(y []float32, x [][]float32, _ []float32) error {
			total := 0.0
			for _, v := range x[0] {
				total += float64(v)
			}
			mean := total / width
			for i, v := range x[0] {
				y[i] = float32(float64(v) - mean)
			}
			return nil
		}, nil
	}})
}
