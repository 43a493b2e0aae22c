package record

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// LowPrecision is how products in one precision round and multiply.
type LowPrecision struct {
	Name  string
	Most  int                                            // columns
	Words func(k int) int                                // float32 numbers that k rounded ones take
	Round func(dst, x []float32, n, k int)               // n vectors of k numbers
	Pack  func(w []float32, m, k, rs, cs int) LowWeights // a matrix
}

// LowWeights is a packed matrix; it multiplies rows of rounded numbers that lie ldx apart.
type LowWeights interface {
	Multiply(y []float32, ldy int, x []float32, ldx, rows int, bias []float32)
}

// LowStep is what a step says of its product, where low precision was asked for.
type LowStep struct {
	P       *LowPrecision
	Why     string // it stays in float32; empty where it does not
	M, K    int    // of each matrix
	Parts   int    // of k numbers each that the input has
	Input   int    // of the step: the rounded input
	Weights int64  // numbers
}

// Rounding is a step that computes the rounded form of x, for products of the node src.
func (l *LowStep) Rounding(x *lowering.Value, src *ir.Node, group int) *lowering.Step {
	in := x.Type.(*ir.TensorType)
	n := &ir.Node{Op: l.op(), Name: src.Name, Inputs: []*ir.Value{{Name: x.Name, Type: in}}}
	shape := append(slices.Clone(in.Shape[:len(in.Shape)-1]), ir.Const(int64(l.Parts*l.P.Words(l.K))))
	n.Outputs = []*ir.Value{{Name: x.Name + ":" + l.P.Name, Type: &ir.TensorType{Elem: tensor.Float32, Shape: shape}, Def: n}}
	return &lowering.Step{Node: n, Source: src, Group: group, In: []*lowering.Value{x}, Impl: &Kinds{Record: None, Row: func(in [][]int, out []int) *RowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != l.Parts*l.K {
			return nil
		}
		return &RowOp{Operands: First, Run: func(y []float32, x [][]float32, rows int) {
			l.P.Round(y, x[0], rows*l.Parts, l.K)
		}}
	}}}
}

// op is the operator of the step that rounds: its results are bit patterns of the kernels' own, in numbers of 32 bits.
func (l *LowStep) op() *ir.Op {
	width := l.Parts * l.P.Words(l.K)
	return &ir.Op{
		Domain: "essmc.cpu", Name: fmt.Sprintf("Round%s", l.P.Name), In: ops.Sig("x:f32[...,K]"), Out: ops.Sig("y:f32[...,W]"),
		Infer: func(n *ir.Node) ([]ir.Type, error) {
			s := slices.Clone(n.Inputs[0].Shape())
			if len(s) == 0 {
				return nil, fmt.Errorf("expected rows of %d features, found a scalar", l.Parts*l.K)
			}
			s[len(s)-1] = ir.Const(int64(width))
			return []ir.Type{&ir.TensorType{Elem: tensor.Float32, Shape: s}}, nil
		},
		Along: ops.AlongRows,
		Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.Tensor(in, 0)
			shape := slices.Clone(x.Shape())
			if len(shape) == 0 || shape[len(shape)-1] != l.Parts*l.K {
				return nil, fmt.Errorf("expected rows of %d features, found %s", l.Parts*l.K, tensor.ShapeString(shape))
			}
			shape[len(shape)-1] = width
			y := tensor.New(tensor.Float32, shape...)
			l.P.Round(tensor.Data[float32](y), tensor.Data[float32](x), x.Len()/(l.Parts*l.K)*l.Parts, l.K)
			return []tensor.Datum{y}, nil
		},
	}
}
