package microsoft

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GatherBlockQuantized gathers rows of a quantized table, such as one of embeddings.
var GatherBlockQuantized = composed(&ir.Op{Name: "GatherBlockQuantized",
	Doc: "Gather of the dequantized data: (data-zero_points)*scales, with a scale for each block_size numbers along " +
		"quantize_axis. Bytes hold numbers of 4 or 8 bits along the last axis, lower bits first, whose zero point is " +
		"8 or 128 by default.",
	In: ops.Sig("data:T1", "indices:I", "scales:T2", "zero_points:T1?"), Out: ops.Sig("output:T2"),
	Elems: types{"T1": {tensor.Int4, tensor.Uint4, tensor.Uint8}, "I": {tensor.Int32, tensor.Int64},
		"T2": half16}, Tol: ir.Rounding,
	Attrs: []ir.AttrSpec{ops.IntSpec("bits", 4, "bits of a number in bytes"),
		ops.IntSpec("block_size", 128, "numbers with one scale: a power of two from 16"),
		ops.IntSpec("gather_axis", 0, "axis of the indices"), ops.IntSpec("quantize_axis", 1, "axis of the blocks")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		r := rank(b, x[0], "data")
		gather, err := ops.Axis(ops.Int(n, "gather_axis"), r)
		if err != nil && b.Err() == nil {
			return fail(b, "gather_axis: %v", err)
		}
		blocks, err := ops.Axis(ops.Int(n, "quantize_axis"), r)
		if err != nil && b.Err() == nil {
			return fail(b, "quantize_axis: %v", err)
		}
		size, bits := ops.Int(n, "block_size"), ops.Int(n, "bits")
		bytes := x[0].Elem() == tensor.Uint8
		switch {
		case b.Err() != nil:
			return nil
		case size < 16 || size&(size-1) != 0 || size > ops.MaxElems:
			return fail(b, "block_size: expected a power of two from 16, found %d", size)
		case bits != 4 && (bits != 8 || !bytes):
			return fail(b, "bits: expected 4, or 8 in bytes, found %d", bits)
		case gather == blocks:
			return fail(b, "gather_axis and quantize_axis: expected two axes, found %d twice", gather)
		case bytes && bits == 4 && gather == r-1:
			return fail(b, "gather_axis: expected another axis than the last, whose bytes hold two numbers")
		}
		pick := func(v *ir.Value) *ir.Value {
			if v == nil {
				return nil
			}
			return with(b, "Gather", vals(v, x[1]), ir.A("axis", gather))
		}
		data, scales, zero := pick(x[0]), pick(x[2]), pick(in(x, 3))
		if bytes && bits == 4 {
			data = nibbles(b, data)
			if zero != nil {
				zero = nibbles(b, zero)
			}
			if b.Err() == nil && zero != nil { // a last byte may be half full
				last := rank(b, scales, "scales") - 1
				zero = std(b, "Slice", zero, b.Ints(0), with(b, "Shape", vals(scales), ir.A("start", last)),
					b.Ints(int64(last)))
			}
		}
		if bytes && zero == nil {
			zero = std(b, "Expand", constLike(b, data, float64(int64(1)<<(bits-1))), std(b, "Shape", scales))
		}
		if blocks > gather { // behind the axes of the indices
			blocks += rank(b, x[1], "indices") - 1
		}
		args := vals(data, scales, zero)
		if zero == nil {
			args = args[:2]
		}
		return vals(with(b, "DequantizeLinear", args, ir.A("axis", blocks), ir.A("block_size", size)))
	}})

// nibbles returns the halves of each byte side by side, the lower ones first.
func nibbles(b *ir.Builder, v *ir.Value) *ir.Value { return unpacked(b, v, 4, false) }

// unpacked returns the numbers of 2, 4 or 8 bits in bytes side by side: of each byte the lowest bits first, or
// the highest.
func unpacked(b *ir.Builder, v *ir.Value, bits int64, highest bool) *ir.Value {
	if b.Err() != nil || bits == 8 {
		return v
	}
	r := rank(b, v, "packed numbers")
	if b.Err() != nil {
		return nil
	}
	var parts []*ir.Value
	for at := int64(0); at < 8; at += bits {
		p := v
		if at > 0 {
			p = with(b, "BitShift", vals(p, constLike(b, v, float64(at))), ir.A("direction", "RIGHT"))
		}
		if at+bits < 8 {
			p = std(b, "BitwiseAnd", p, constLike(b, v, float64(int64(1)<<bits-1)))
		}
		parts = append(parts, std(b, "Unsqueeze", p, b.Ints(int64(r))))
	}
	if highest {
		slices.Reverse(parts)
	}
	shape := make([]int64, r) // 0 keeps a size
	shape[r-1] = -1
	return std(b, "Reshape", with(b, "Concat", parts, ir.A("axis", r)), b.Ints(shape...))
}
