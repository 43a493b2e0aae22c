package microsoft

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var nbitsTypes = []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}

// MatMulNBits multiplies by weights of few bits.
var MatMulNBits = ops.Register(&ir.Op{
	Domain: Domain, Name: "MatMulNBits",
	Doc: "A times the transpose of weights (N,K), plus bias. Weights are packed along K, low bits first, in blocks " +
		"of block_size: B is (N, blocks, block_size*bits/8) " +
		"bytes, and stands for (B-zero_point)*scale with one scale and zero point (default 2^(bits-1); packed like B " +
		"along the blocks, or of the type of A) per row and block, or per row and g_idx[k].",
	In:    ops.Sig("A:T1[...,K]", "B:uint8", "scales:T1", "zero_points:T3?", "g_idx:int32?", "bias:T1[_]?"),
	Out:   ops.Sig("Y:T1"),
	Elems: types{"T1": nbitsTypes, "T3": append([]tensor.DType{tensor.Uint8}, nbitsTypes...)},
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("K", nil, "size of the inner axis")),
		ops.Required(ops.IntSpec("N", nil, "number of columns of the result")),
		ops.IntSpec("bits", 4, "bits of a weight: 2, 4 or 8"),
		ops.Required(ops.IntSpec("block_size", nil, "weights per scale, a power of two from 16")),
		ops.IntSpec("accuracy_level", 0, "not used: sums are in double precision"),
		ops.IntSpec("weight_prepacked", 0, "must be 0")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		p, err := nbitsOf(n)
		if err != nil {
			return nil, err
		}
		t, _ := ir.AsTensor(n.In(0).Type)
		if t.NoRank {
			return []ir.Type{t}, nil
		}
		if k, ok := b.At("K").Known(); ok && k != int64(p.k) {
			return nil, fmt.Errorf("input 0 (A): expected a last axis of size %d, found %v", p.k, t)
		}
		out := ir.Shape{}
		out = append(append(out, t.Shape[:len(t.Shape)-1]...), ir.Const(int64(p.n)))
		return []ir.Type{&ir.TensorType{Elem: t.Elem, Shape: out}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		p, err := nbitsOf(c.Node)
		if err != nil {
			return nil, err
		}
		w, err := p.weights(c, in)
		if err != nil {
			return nil, err
		}
		a := ops.Tensor(in, 0)
		if a.Rank() < 1 || a.Dim(-1) != p.k {
			return nil, fmt.Errorf("input 0 (A): expected a last axis of size %d, found %s", p.k, a)
		}
		bias := ops.F64(c, in, 5)
		if bias != nil && len(bias) != p.n {
			return nil, fmt.Errorf("input 5 (bias): expected %d elements, found %d", p.n, len(bias))
		}
		v := ops.F64(c, in, 0)
		shape := append([]int{}, a.Shape()...)
		shape[len(shape)-1] = p.n
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		out := ops.Make[float64](c, size)
		for i := range len(out) {
			c.Step(1)
			x, row := v[i/p.n*p.k:], w[i%p.n*p.k:(i%p.n+1)*p.k]
			for k, y := range ops.All(c, row) {
				out[i] += x[k] * y
			}
			if bias != nil {
				out[i] += bias[i%p.n]
			}
		}
		return ops.One(ops.Real(c, a.DType(), out, shape...))
	},
	NoGradient: "reads quantized numbers, which are not trained",
	Linear:     ops.LinearIn([]int{0, 5}, []int{2, 5}),
	Along:      ops.AlongRows, Tol: ir.Summing,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ir.Work{Flops: 2 * ops.Count(n.In(0), bind) * ops.Int(n, "N"), Bytes: ops.BytesOf(n, bind)}
	},
})

// nbits is the layout of packed weights.
type nbits struct{ n, k, bits, block, blocks int }

func nbitsOf(n *ir.Node) (nbits, error) {
	rows, cols, bits, block := ops.Int(n, "N"), ops.Int(n, "K"), ops.Int(n, "bits"), ops.Int(n, "block_size")
	switch {
	case ops.Int(n, "weight_prepacked") != 0:
		return nbits{}, fmt.Errorf("weight_prepacked: expected 0, found %d", ops.Int(n, "weight_prepacked"))
	case bits != 2 && bits != 4 && bits != 8:
		return nbits{}, fmt.Errorf("bits: expected 2, 4 or 8, found %d", bits)
	case block < 16 || block > 1<<20 || block&(block-1) != 0:
		return nbits{}, fmt.Errorf("block_size: expected a power of two from 16, found %d", block)
	case rows < 1 || cols < 1 || rows > ops.MaxElems || cols > ops.MaxElems:
		return nbits{}, fmt.Errorf("expected N and K of 1 or more, found %d and %d", rows, cols)
	}
	if _, err := ops.Elems([]int{int(rows), int(cols)}); err != nil {
		return nbits{}, err
	}
	return nbits{int(rows), int(cols), int(bits), int(block), int((cols + block - 1) / block)}, nil
}

// packed returns element i of row r, for rows of perRow elements, each padded to whole bytes.
func (p nbits) packed(b []byte, r, i, perRow int) float64 {
	stride := (perRow*p.bits + 7) / 8
	return float64(b[r*stride+i*p.bits/8] >> (i * p.bits % 8) & (1<<p.bits - 1))
}

// weights unpacks the matrix (N,K).
func (p nbits) weights(c *ir.EvalCtx, in []tensor.Datum) ([]float64, error) {
	b, scales := ops.Tensor(in, 1), ops.F64(c, in, 2)
	if b == nil || b.Len() != p.n*p.blocks*p.block*p.bits/8 {
		return nil, fmt.Errorf("input 1 (B): expected %d rows of %d blocks of %d bytes, found %s", p.n, p.blocks,
			p.block*p.bits/8, b)
	}
	if len(scales) != p.n*p.blocks {
		return nil, fmt.Errorf("input 2 (scales): expected %d for %d rows and %d blocks, found %d", p.n*p.blocks, p.n,
			p.blocks, len(scales))
	}
	zero := func(int, int) float64 { return float64(int(1) << (p.bits - 1)) }
	if z := ops.Tensor(in, 3); z != nil && z.DType() == tensor.Uint8 {
		if z.Len() != p.n*((p.blocks*p.bits+7)/8) {
			return nil, fmt.Errorf("input 3 (zero_points): expected %d rows of %d bytes, found %s", p.n,
				(p.blocks*p.bits+7)/8, z)
		}
		zero = func(r, g int) float64 { return p.packed(z.Bytes(), r, g, p.blocks) }
	} else if z != nil {
		v := ops.F64(c, in, 3)
		if len(v) != len(scales) {
			return nil, fmt.Errorf("input 3 (zero_points): expected %d as for scales, found %d", len(scales), len(v))
		}
		zero = func(r, g int) float64 { return v[r*p.blocks+g] }
	}
	group := func(k int) int { return k / p.block }
	if t := ops.Tensor(in, 4); t != nil {
		g, err := ops.Int64s(c, t)
		if err != nil {
			return nil, err
		}
		if len(g) < p.k {
			return nil, fmt.Errorf("input 4 (g_idx): expected %d elements, found %d", p.k, len(g))
		}
		for _, x := range ops.All(c, g[:p.k]) {
			if x < 0 || x >= int64(p.blocks) {
				return nil, fmt.Errorf("input 4 (g_idx): found group %d of %d", x, p.blocks)
			}
		}
		group = func(k int) int { return int(g[k]) }
	}
	w := ops.Make[float64](c, p.n*p.k)
	for r := range p.n {
		c.Step(1)
		for k := range ops.Each(c, p.k) {
			g := group(k)
			w[r*p.k+k] = (p.packed(b.Bytes(), r, k, p.blocks*p.block) - zero(r, g)) * scales[r*p.blocks+g]
		}
	}
	return w, nil
}
