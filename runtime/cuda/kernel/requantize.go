package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// Requantization turns a sum of integers into an 8-bit number: the sum in float32, times ScaleA·ScaleB/ScaleY,
// rounded to nearest even, plus Zero, clamped to the range of the type; NaN gives 0. Each operation is rounded to
// float32.
type Requantization struct {
	A, B Scales
	Y    Scales // a single scale
	Zero Buffer // a number in the type of the result
	// Rows is the number of rows of a matrix of the batch.
	Rows   int
	Signed bool
}

// Scales are numbers of type SumF32, SumF16 or SumBF16: a single one, or with Each one per row of A or of B.
type Scales struct {
	Buffer Buffer
	Type   SumType
	Each   bool
}

// requantizer computes the number of a row and a column.
type requantizer func(row, col, sum ptx.U32) ptx.U32

func (r *Requantization) args() []Arg {
	return []Arg{Ptr(r.A.Buffer), Ptr(r.B.Buffer), Ptr(r.Y.Buffer), Ptr(r.Zero), U32(r.Rows)}
}

// load reads the number of an index.
func (s Scales) load(from ptx.Addr, i ptx.U32) ptx.F32 {
	if s.Each {
		from = from.Index(i, s.Type.Size())
	}
	return (&productForm{result: s.Type}).loadResult(from)
}

// params adds the parameters. first is the number of rows of the previous matrices.
func (r *Requantization) params(k *ptx.Kernel, first ptx.U32) requantizer {
	a, b, y := k.PtrParam("scale_a"), k.PtrParam("scale_b"), k.PtrParam("scale_y")
	zero, rows := k.PtrParam("zero_y"), k.U32Param("rows")
	return func(row, col, sum ptx.U32) ptx.U32 {
		scale := r.A.load(a, row.Add(first).Rem(rows)).Mul(r.B.load(b, col)).Div(r.Y.load(y, ptx.U32{}))
		z := sum.S32().ToF32().Mul(scale)
		point, low, high := zero.LoadU8(0), float32(0), float32(255)
		if r.Signed {
			point, low, high = point.Shl(ptx.U(24)).S32().Shr(ptx.U(24)).U32(), -128, 127
		}
		// Numbers beyond ±512 are out of range with any zero point.
		whole := z.Min(ptx.F(512)).Max(ptx.F(-512)).RoundEven().Add(point.S32().ToF32())
		y := whole.Max(ptx.F(low)).Min(ptx.F(high)).S32().U32()
		return z.IsNaN().SelectU32(ptx.U(0), y)
	}
}
