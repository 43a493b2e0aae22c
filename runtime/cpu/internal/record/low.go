package record

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// LowPrecision holds the functions of products in one precision.
type LowPrecision struct {
	Name  string
	Most  int                              // most columns that a matrix may have
	Words func(k int) int                  // size of k rounded numbers, in float32
	Round func(dst, x []float32, n, k int) // rounds n vectors of k numbers
	Make  func(m, k int) LowWeights        // memory for a packed matrix of m × k
}

// LowWeights is a packed matrix. Fill packs its numbers; element (i, j) is at i*rs+j*cs. Multiply multiplies rows of rounded numbers, with stride ldx in float32, and writes
// rows with stride ldy.
type LowWeights interface {
	Fill(w []float32, rs, cs int)
	Multiply(y []float32, ldy int, x []float32, ldx, rows int, bias []float32)
}

// LowStep describes a step with a product for which low precision was asked.
type LowStep struct {
	P       *LowPrecision
	Why     string // reason to stay in float32; "" for a product in low precision
	M, K    int    // of each matrix
	Parts   int    // number of parts of K numbers in the input
	Input   int    // index of the rounded input
	Weights int64  // number of weights
}

// Rounding returns a step that computes the rounded form of x, for products of the node src.
func (l *LowStep) Rounding(x *lowering.Value, src *ir.Node, group int) *lowering.Step {
	in := x.Type.(*ir.TensorType)
	n := &ir.Node{Op: l.op(), Name: src.Name, Inputs: []*ir.Value{{Name: x.Name, Type: in}}}
	shape := append(slices.Clone(in.Shape[:len(in.Shape)-1]), ir.Const(int64(l.Parts*l.P.Words(l.K))))
	n.Outputs = []*ir.Value{{Name: x.Name + ":" + l.P.Name, Type: &ir.TensorType{Elem: tensor.Float32, Shape: shape},
		Def: n}}
	return &lowering.Step{Node: n, Source: src, Group: group, In: []*lowering.Value{x},
		Impl: &Kinds{Record: None, Row: func(in [][]int, out []int) *RowOp {
			if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != l.Parts*l.K {
				return nil
			}
			return &RowOp{Operands: First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				l.P.Round(y, x[0], rows*l.Parts, l.K)
			}}
		}}}
}

// op returns the operator of the step that rounds. Its float32 results hold bit patterns that only the kernels read.
func (l *LowStep) op() *ir.Op {
	width := l.Parts * l.P.Words(l.K)
	return &ir.Op{
		Domain: "essmc.cpu", Name: fmt.Sprintf("Round%s", l.P.Name), In: ops.Sig("x:f32[...,K]"),
		Out: ops.Sig("y:f32[...,W]"),
		Infer: func(n *ir.Node) ([]ir.Type, error) {
			s := slices.Clone(n.Inputs[0].Shape())
			if len(s) == 0 {
				return nil, fmt.Errorf("expected rows of %d features, found a scalar", l.Parts*l.K)
			}
			s[len(s)-1] = ir.Const(int64(width))
			return []ir.Type{&ir.TensorType{Elem: tensor.Float32, Shape: s}}, nil
		},
		Along: ops.AlongRows,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.Tensor(in, 0)
			shape := slices.Clone(x.Shape())
			if len(shape) == 0 || shape[len(shape)-1] != l.Parts*l.K {
				return nil, fmt.Errorf("expected rows of %d features, found %s", l.Parts*l.K, tensor.ShapeString(shape))
			}
			shape[len(shape)-1] = width
			y := ops.New(c, tensor.Float32, shape...)
			l.P.Round(tensor.Data[float32](y), tensor.Data[float32](x), x.Len()/(l.Parts*l.K)*l.Parts, l.K)
			return []tensor.Datum{y}, nil
		},
	}
}
