package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Values of the 4-bit codes: in FP4, floats with 1 bit of sign, 2 of exponent and 1 of fraction; in NF4, quantiles
// of the normal distribution.
var (
	codesFP4 = []float32{0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25,
		0, -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25}
	codesNF4 = []float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}
)

// MatMulBnb4 multiplies by weights in one of the two codes of 4 bits of bitsandbytes.
var MatMulBnb4 = composed(&ir.Op{Name: "MatMulBnb4",
	Doc: "A times the transpose of weights (N,K), or with transB 0 times the weights. B holds the weights row by " +
		"row, two in a byte, the upper bits first. Each stands for the number of its code, times one of absmax for " +
		"each block_size weights; blocks go on over the ends of rows.",
	In: ops.Sig("A:T1", "B:uint8", "absmax:T1"), Out: ops.Sig("Y:T1"), Elems: types{"T1": nbitsTypes}, Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("K", nil, "columns of the weights")),
		ops.Required(ops.IntSpec("N", nil, "rows of the weights")),
		ops.Required(ops.IntSpec("block_size", nil, "weights per scale, a power of two from 16")),
		ops.Required(ops.IntSpec("quant_type", nil, "code of the weights: 0 FP4, 1 NF4")),
		ops.IntSpec("transB", 1, "whether the weights are transposed"),
		ops.IntSpec("training_mode", 0, "not used")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		rows, cols, block := ops.Int(n, "N"), ops.Int(n, "K"), ops.Int(n, "block_size")
		codes, code := [][]float32{codesFP4, codesNF4}, ops.Int(n, "quant_type")
		switch {
		case b.Err() != nil:
			return nil
		case rows < 1 || cols < 1 || rows > ops.MaxElems || cols > ops.MaxElems || rows*cols > ops.MaxElems:
			return fail(b, "expected N and K of 1 or more, of at most %d weights, found %d and %d", int64(ops.MaxElems),
				rows, cols)
		case block < 16 || block&(block-1) != 0 || block > ops.MaxElems:
			return fail(b, "block_size: expected a power of two from 16, found %d", block)
		case code != 0 && code != 1:
			return fail(b, "quant_type: expected 0 (FP4) or 1 (NF4), found %d", code)
		}
		count := rows * cols
		blocks := (count + block - 1) / block
		packed := std(b, "Reshape", x[1], b.Ints((count+1)/2))
		at := std(b, "Slice", unpacked(b, packed, 4, true), b.Ints(0), b.Ints(count), b.Ints(0))
		if rest := blocks*block - count; rest > 0 {
			at = std(b, "Pad", at, b.Ints(0, rest))
		}
		table := cast(b, b.Const("codes", tensor.FromSlice(codes[code], 16)), x[0].Elem())
		w := std(b, "Gather", table, cast(b, at, tensor.Int32))
		w = std(b, "Mul", std(b, "Reshape", w, b.Ints(blocks, block)), std(b, "Reshape", x[2], b.Ints(blocks, 1)))
		if blocks*block > count {
			w = std(b, "Slice", std(b, "Reshape", w, b.Ints(-1)), b.Ints(0), b.Ints(count), b.Ints(0))
		}
		w = std(b, "Reshape", w, b.Ints(rows, cols))
		if ops.Int(n, "transB") != 0 {
			w = swapLast(b, w, "B")
		}
		return vals(std(b, "MatMul", x[0], w))
	}})
