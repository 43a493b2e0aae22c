package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.HeadScale", Row: record.RowKind{Make: rowHeadScale, Constant: []int{1}},
		Fused: fusedScale})
}

// rowHeadScale multiplies each feature of each channel.
func rowHeadScale(s *lowering.Step) record.RowMaker {
	d := record.Numbers(s, 1)
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) {
			return nil
		}
		f := in[0][len(in[0])-1]
		if f == 0 || len(d)%f != 0 || out[len(out)-1] != len(d) {
			return nil
		}
		return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			scale(c, y, x[0], rows, d, f)
		}}
	}
}

// fusedScale multiplies each feature, for channels that do not share their input, and for heads of one feature.
func fusedScale(d *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	w := record.Numbers(s, 1)
	_, f := lowering.Features(d.Shape(s.In[0]))
	rounded := record.Of(s).Lowered != nil && record.Of(s).Lowered.Why == "" // it reads another form of its input
	return kernel.FusedStep{Op: kernel.FusedMul, X: -1, A: w}, at == 0 && !rounded && len(w) == width && f == width
}

// scale is kernel.Scale, in parts for long rows.
func scale(c *ir.EvalCtx, y, x []float32, rows int, d []float32, f int) {
	if len(d) <= record.RowBlock {
		kernel.Scale(y, x, rows, d, f)
		return
	}
	for r := range rows {
		y, x := y[r*len(d):(r+1)*len(d)], x[r*f:(r+1)*f]
		if f <= record.RowBlock {
			for lo, hi := range ops.Blocks(c, len(d), record.RowBlock/f*f) {
				kernel.Scale(y[lo:hi], x, 1, d[lo:hi], f)
			}
			continue
		}
		for at := 0; at < len(d); at += f {
			for lo, hi := range ops.Blocks(c, f, record.RowBlock) {
				kernel.Mul(y[at+lo:at+hi], d[at+lo:at+hi], x[lo:hi])
			}
		}
	}
}
