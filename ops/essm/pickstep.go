package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// PickStep is Pick, chunk by chunk.
var PickStep = ops.Register(&ir.Op{
	Domain: "essm", Name: "PickStep",
	Doc: `Pick over all steps up to the end of the chunk x. sum is the sum of the earlier steps that count, or with last and
first the one step. count holds the number of earlier steps of x, and the length of the sequence, 0 if it is unknown. The
length comes from lengths, in steps of x, or from end, in steps of the input, with this chunk or an earlier one. It must
not be below the number of steps that have counted. y is 0 if no step counts.`,
	In:  ops.Sig("x:T[B,L,H]", "sum:float64[B,H]", "count:int64[B,2]", "lengths:int64[B]?", "end:int64[B]?"),
	Out: ops.Sig("y:T[B,H]", "sum_out:float64[B,H]", "count_out:int64[B,2]"),
	Attrs: append([]ir.AttrSpec{
		{Name: "mode", Kind: ir.AttrString, Required: true, OneOf: []string{"pool", "last", "first", "sum"},
			Doc: "the vector, as with Pick"},
	}, stepAttrs...),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if _, err := paceOf(n); err != nil {
			return nil, err
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		batch, l, h := t.Dim(0), t.Dim(1), t.Dim(2)
		sum, count := ops.F64(c, in, 1), ops.Tensor(in, 2)
		if len(sum) != batch*h || count.Len() != 2*batch {
			return nil, fmt.Errorf("x %s: expected a sum of %d numbers and a count of %d, found %d and %d", t, batch*h,
				2*batch, len(sum), count.Len())
		}
		kept, err := ops.Int64s(c, count)
		if err != nil {
			return nil, err
		}
		spans := ops.Make[Span](c, batch)
		if err := PickSpans(c.Node, samplesOf(in, 3), samplesOf(in, 4), kept, l, spans); err != nil {
			return nil, err
		}
		mode := c.Node.Attrs.Str("mode", "")
		x, y := ops.F64(c, in, 0), ops.Make[float64](c, batch*h)
		for b, s := range spans {
			c.Step(1)
			acc := sum[b*h : (b+1)*h]
			for k := s.From; k < s.To; k++ {
				row := x[(b*l+k)*h : (b*l+k+1)*h]
				c.Step(1)
				for lo, hi := range ops.Parts(c, h) {
					PickRow(mode, acc[lo:hi], row[lo:hi], s.Before == 0 && k == s.From)
				}
			}
			for j, v := range ops.All(c, acc) {
				if n := s.Before + int64(s.To-s.From); mode == "pool" && n > 0 {
					v /= float64(n)
				}
				y[b*h+j] = v
			}
		}
		out, err := ops.Real(c, t.DType(), y, batch, h)
		if err != nil {
			return nil, err
		}
		return []tensor.Datum{out, tensor.FromSlice(sum, batch, h), tensor.FromSlice(kept, batch, 2)}, nil
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := perSampleFact(n, in, 0)
		return []ir.Fact{f, f, f}
	},
	NoGradient: "belongs to step graphs, which are not trained",
	Linear:     ops.LinearIn([]int{0, 1}),
	Tol:        ir.Summing,
})

// Span is the steps of a chunk that count, from From to To-1. Before is the number of earlier steps that counted.
type Span struct {
	Before   int64
	From, To int
}

// PickRow adds one step to the sum, or replaces the sum by it, depending on mode.
func PickRow[T float32 | float64](mode string, sum []float64, row []T, first bool) {
	switch {
	case mode == "last", mode == "first" && first:
		for j, v := range row {
			sum[j] = float64(v)
		}
	case mode != "first":
		for j, v := range row {
			sum[j] += float64(v)
		}
	}
}

// PickSpans sets out to the steps, among the l of a chunk, that count for each sample in PickStep n. The inputs lengths
// and end have a number per sample, or one for all; they are nil where absent. It updates count.
func PickSpans(n *ir.Node, lengths, end, count []int64, l int, out []Span) error {
	p, err := paceOf(n)
	if err != nil {
		return err
	}
	inputs, names := [...]perSample{lengths, end}, [...]string{"lengths", "end"}
	for i, v := range inputs {
		if err := v.check(names[i], len(out)); err != nil {
			return err
		}
	}
	for b := range out {
		seen, length := count[2*b], count[2*b+1]
		if seen < 0 || length < 0 {
			return fmt.Errorf("count[%d]: expected 0 or more, found %d and %d", b, seen, length)
		}
		counted := max(0, seen-p.delay)
		if length > 0 {
			counted = min(counted, length)
		}
		for i, given := range inputs {
			if given == nil {
				continue
			}
			k := given.of(b)
			if i == 1 {
				k = p.steps(k)
			}
			switch name := names[i]; {
			case k < 1:
				return fmt.Errorf("%s[%d]: length %d is below 1", name, b, k)
			case k < counted:
				return fmt.Errorf("%s[%d]: length %d is below the %d steps that came before and counted", name, b, k,
					counted)
			case length == 0 || k < length:
				length = k
			}
		}
		last := max(0, seen+int64(l)-p.delay)
		if length > 0 {
			last = min(last, length)
		}
		s := &out[b]
		s.Before = counted
		s.From = int(min(max(0, p.delay-seen), int64(l)))
		s.To = s.From + int(last-counted)
		count[2*b], count[2*b+1] = seen+int64(l), length
	}
	return nil
}
