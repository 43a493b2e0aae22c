package essm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/internal/philox"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Dropout clears random elements in training, by numbers that follow from a key, so that a step can be repeated to the
// bit.
var Dropout = ops.Register(&ir.Op{
	Domain: "essm", Name: "Dropout",
	Doc: `x/(1 - rate), or 0 with probability rate. key is (seed, step, sample): samples along axis 0 count from the last
one. Element i of a sample, in row-major order, is cleared if word i mod 4 of the Philox4x32-10 block with counter (i div 4,
sample, site, step) and key (seed mod 2^32, seed div 2^32) is below rate·2^32. With tied set, all steps (axis 1) have the
mask of the first.`,
	In:  ops.Sig("x:T[...]", "key:int64[3]"),
	Out: ops.Sig("y:T[...]"),
	Attrs: []ir.AttrSpec{
		{Name: "rate", Kind: ir.AttrFloat, Required: true, Doc: "the probability, from 0 to below 1"},
		{Name: "site", Kind: ir.AttrInt, Default: int64(0), Doc: "tells the masks of one step apart"},
		{Name: "tied", Kind: ir.AttrInt, Default: int64(0), Doc: "1: one mask for all steps"},
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if r := ops.Float(n, "rate"); !(r >= 0 && r < 1) {
			return nil, fmt.Errorf("rate: expected a number from 0 to below 1, found %g", r)
		}
		if t, ok := n.In(0).TensorType(); ok && !t.NoRank {
			if err := dropoutRank(n, len(t.Shape)); err != nil {
				return nil, err
			}
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		if err := dropoutRank(c.Node, t.Rank()); err != nil {
			return nil, err
		}
		x, key := ops.F64(c, in, 0), tensor.Data[int64](ops.Tensor(in, 1))
		rate := ops.Float(c.Node, "rate")
		m := mask{seed: [2]uint32{uint32(key[0]), uint32(key[0] >> 32)}, step: uint32(key[1]),
			site: uint32(ops.Int(c.Node, "site")), below: uint64(math.Round(rate * (1 << 32)))}
		size, steps := 1, 1
		for _, d := range t.Shape()[1:] {
			size *= d
		}
		if ops.Int(c.Node, "tied") != 0 {
			steps = t.Dim(1)
		}
		for b := range t.Dim(0) {
			c.Step(1)
			m.at, m.sample = 0, uint32(key[2]+int64(b))
			row := x[b*size : (b+1)*size]
			each := 0
			if steps > 0 {
				each = size / steps
			}
			for i := range ops.Each(c, len(row)) {
				k := i
				if steps > 1 {
					k = i % each
				}
				if m.clears(k) {
					row[i] = 0
				} else {
					row[i] /= 1 - rate
				}
			}
		}
		return ops.One(ops.Real(c, t.DType(), x, t.Shape()...))
	},
	Along:  func(n *ir.Node, in []ir.Fact) []ir.Fact { return []ir.Fact{ops.Global(n, in)} },
	Linear: ops.LinearIn([]int{0}),
	Gradient: func(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
		return []*ir.Value{b.Apply(n.Op, 1, []*ir.Value{dOut[0], n.In(1)}, n.Attrs)[0], nil}
	},
	Tol: ir.Rounding,
})

// dropoutRank checks the rank of a Dropout's input.
func dropoutRank(n *ir.Node, rank int) error {
	want := 1
	if ops.Int(n, "tied") != 0 {
		want = 2
	}
	if rank < want {
		return fmt.Errorf("x: expected rank %d or more, found %d", want, rank)
	}
	return nil
}

// mask tells which elements of a sample a Dropout clears.
type mask struct {
	seed               [2]uint32
	sample, site, step uint32
	below              uint64

	at    int // the block in words, plus 1; 0: none
	words [4]uint32
}

func (m *mask) clears(i int) bool {
	if block := i/4 + 1; block != m.at {
		m.at, m.words = block, philox.Block([4]uint32{uint32(i / 4), m.sample, m.site, m.step}, m.seed)
	}
	return uint64(m.words[i%4]) < m.below
}
