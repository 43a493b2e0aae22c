package rows

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "com.microsoft.MatMulNBits",
		Row: record.RowKind{Make: rowMatMulNBits, Constant: []int{1, 2, 3, 5}}})
}

// rowMatMulNBits computes x Wᵀ + b for a constant W (N, K) of integers of 2, 4 or 8 bits, packed along K in blocks that
// share a scale and a zero point. W is unpacked to float32 by Compile.
func rowMatMulNBits(s *lowering.Step) record.RowMaker {
	a := s.Node.Attrs
	n, k, bits, block := int(a.Int("N", 0)), int(a.Int("K", 0)), int(a.Int("bits", 4)), int(a.Int("block_size", 0))
	scale, bias := record.Numbers64(s, 2), record.Numbers(s, 5)
	if !s.Float32Input(0) || !record.ByteTyped(s, 1) || !s.Absent(4) ||
		n < 1 || k < 1 || bits != 2 && bits != 4 && bits != 8 || block < 16 || bias != nil && len(bias) != n {
		return nil
	}
	blocks := (k + block - 1) / block
	if s.Fixed(1).Len() != n*blocks*block*bits/8 || len(scale) != n*blocks {
		return nil // refused when it is evaluated
	}
	element := func(b []byte, row, i, perRow int) float64 { // rows are padded to whole bytes
		return float64(b[row*((perRow*bits+7)/8)+i*bits/8] >> (i * bits % 8) & (1<<bits - 1))
	}
	zero := func(int, int) float64 { return float64(int(1) << (bits - 1)) }
	if !s.Absent(3) {
		z := s.Fixed(3)
		switch {
		case z.DType() == tensor.Uint8:
			if z.Len() != n*((blocks*bits+7)/8) {
				return nil
			}
			zero = func(row, g int) float64 { return element(z.Bytes(), row, g, blocks) }
		default:
			v := record.Numbers64(s, 3)
			if len(v) != len(scale) {
				return nil
			}
			zero = func(row, g int) float64 { return v[row*blocks+g] }
		}
	}
	unpacked := func() []float32 {
		w, packed := make([]float32, n*k), s.Fixed(1).Bytes()
		for row := range n {
			for i := range k {
				g := i / block
				w[row*k+i] = float32((element(packed, row, i, blocks*block) - zero(row, g)) * scale[row*blocks+g])
			}
		}
		return w
	}
	w := matrix{alpha: 1, unpack: unpacked, inputs: []int{2, 3}, also: [2]*tensor.Tensor{s.Fixed(2), s.Fixed(3)}}
	return productOf(s, w, n, k, k, 1, bias)
}
