package rows

import (
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
	d := s.Constant(1)
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) {
			return nil
		}
		f := in[0][len(in[0])-1]
		if f == 0 || len(d)%f != 0 || out[len(out)-1] != len(d) {
			return nil
		}
		return &record.RowOp{Operands: record.First, Run: func(y []float32, x [][]float32, rows int) {
			kernel.Scale(y, x[0], rows, d, f)
		}}
	}
}

// fusedScale multiplies each feature, for channels that do not share their input, and for heads of one feature.
func fusedScale(d *lowering.Binding, s *lowering.Step, at, _, width int) (kernel.FusedStep, bool) {
	w := s.Constant(1)
	_, f := lowering.Features(d.Shape(s.In[0]))
	rounded := record.Of(s).Lowered != nil && record.Of(s).Lowered.Why == "" // it reads another form of its input
	return kernel.FusedStep{Op: kernel.FusedMul, X: -1, A: w}, at == 0 && !rounded && len(w) == width && f == width
}
