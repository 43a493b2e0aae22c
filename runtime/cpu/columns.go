package cpu

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Gated layers split the result of one wide product in halves. A Split along features whose parts are read by
// elementwise steps becomes a row kernel for each part, so that it does not end a region. Fused kernels read the parts
// in place.

// columns replaces such Splits of the program.
func (p *program) columns(c *ir.EvalCtx) {
	pace := ir.NewPacer(c.Pause)
	defer pace.Stop()                  // the program keeps nodes
	read := map[*lowering.Value]bool{} // by steps that can be fused
	for _, s := range p.Steps {
		c.Step(64)
		if record.Of(s).Fuses() {
			for _, v := range s.In {
				c.Step(64)
				read[v] = true
			}
		}
	}
	var steps []*lowering.Step
	for _, s := range p.Steps {
		c.Step(64)
		if parts := p.split(s, read, pace); parts != nil {
			steps = append(steps, parts...)
		} else {
			steps = append(steps, s)
		}
	}
	p.Steps = steps
}

// split returns steps that compute the outputs of s one by one, if s cuts rows of float32 along features and one of its
// outputs is in read; otherwise nil.
func (p *program) split(s *lowering.Step, read map[*lowering.Value]bool, pace *ir.Pacer) (parts []*lowering.Step) {
	isRead := func(v *lowering.Value) bool { pace.Step(1); return v != nil && read[v] }
	if s.Node.Op.Moves == nil || len(s.Out) < 2 || s.In[0].Const != nil || !slices.ContainsFunc(s.Out, isRead) {
		return nil
	}
	x := s.In[0]
	width, ok := columnsOf(x)
	if !ok {
		return nil
	}
	last := len(x.Type.(*ir.TensorType).Shape) - 1
	pieces, ok := ops.Moves(s.Node.Paced(pace))
	if !ok || len(pieces) != len(s.Out) || p.Fact(x).Axis == last && !p.Fact(x).Constant() {
		return nil
	}
	for i, piece := range pieces {
		pace.Step(8)
		from, ok := piece.Along(last)
		if !ok || piece.Output != i || piece.Input != 0 {
			return nil
		}
		n, ok := columnsOf(s.Out[i])
		if !ok || from < 0 || from+n > width {
			return nil
		}
		node := &ir.Node{Op: columnsOp(from, n), Name: s.Node.Name, Inputs: s.Node.Inputs[:1],
			Outputs: s.Node.Outputs[i : i+1]}
		parts = append(parts, &lowering.Step{Node: node, Source: s.Source, Group: s.Group, In: s.In[:1],
			Out: s.Out[i : i+1],
			Impl: &record.Kinds{Record: record.None, Shared: record.Of(s).Shared, Row: rowColumns(from),
				Columns: &record.Columns{From: from}}})
	}
	return parts
}

// rowColumns copies consecutive features, from feature from on.
func rowColumns(from int) record.RowMaker {
	return func(in [][]int, out []int) *record.RowOp {
		_, wide := lowering.Features(in[0])
		_, width := lowering.Features(out)
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			for r := range rows {
				ops.Put(c, y[r*width:(r+1)*width], x[0][r*wide+from:])
			}
		}}
	}
}

// rowJoin concatenates features.
func rowJoin(in [][]int, out []int) *record.RowOp {
	op := &record.RowOp{}
	widths := make([]int, len(in))
	for i, shape := range in {
		_, widths[i] = lowering.Features(shape)
		op.Operands = append(op.Operands, i)
	}
	op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
		for r := range rows {
			for i, n := range widths {
				y = y[ops.Put(c, y, x[i][r*n:(r+1)*n]):]
			}
		}
	}
	return op
}

// columnsOf returns the number of features of v, if it is a float32 tensor with a known last axis.
func columnsOf(v *lowering.Value) (int, bool) {
	t, ok := v.Type.(*ir.TensorType)
	if !ok || t.Elem != tensor.Float32 || t.NoRank || len(t.Shape) == 0 {
		return 0, false
	}
	n, ok := t.Shape[len(t.Shape)-1].Known()
	return int(n), ok && n > 0
}

// columnsOp returns the operator of a step that copies n features, from feature from on.
func columnsOp(from, n int) *ir.Op {
	return &ir.Op{
		Domain: "essmc.cpu", Name: "Columns", In: ops.Sig("x:f32[...,K]"), Out: ops.Sig("y:f32[...,N]"),
		Infer: func(node *ir.Node) ([]ir.Type, error) {
			s := slices.Clone(node.Inputs[0].Shape())
			if len(s) == 0 {
				return nil, fmt.Errorf("expected rows, found a scalar")
			}
			s[len(s)-1] = ir.Const(int64(n))
			return []ir.Type{&ir.TensorType{Elem: tensor.Float32, Shape: s}}, nil
		},
		Along: ops.AlongRows,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x := ops.Tensor(in, 0)
			shape := slices.Clone(x.Shape())
			if len(shape) == 0 || shape[len(shape)-1] < from+n {
				return nil, fmt.Errorf("expected rows of at least %d features, found %s", from+n,
					tensor.ShapeString(shape))
			}
			out := slices.Clone(shape)
			out[len(out)-1] = n
			y := ops.New(c, tensor.Float32, out...)
			rows, _ := lowering.Features(shape)
			rowColumns(from)([][]int{shape}, out).Run(c, tensor.Data[float32](y), [][]float32{tensor.Data[float32](x)},
				rows)
			return []tensor.Datum{y}, nil
		},
	}
}
