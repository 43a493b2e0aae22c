package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Windows for spectra, as sums of cosines.
var (
	HannWindow     = cosineWindow("HannWindow", "½ - ½·cos(2πn/N)", 0.5, 0.5, 0)
	HammingWindow  = cosineWindow("HammingWindow", "25/46 - 21/46·cos(2πn/N)", 25.0/46, 21.0/46, 0)
	BlackmanWindow = cosineWindow("BlackmanWindow", "0.42 - 0.5·cos(2πn/N) + 0.08·cos(4πn/N)", 0.42, 0.5, 0.08)
)

// numberType is the attribute for the element type of the result.
var numberType = intAttr("output_datatype", int(tensor.Float32), "element type, as ONNX numbers them")

func typeOfOutput(n *ir.Node) (tensor.DType, error) {
	d := tensor.DType(getInt(n, "output_datatype"))
	for _, t := range ops.Numbers {
		if t == d {
			return d, nil
		}
	}
	return 0, fmt.Errorf("output_datatype: expected a numeric type, found %d", int64(d))
}

func cosineWindow(name, formula string, a0, a1, a2 float64) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: 17, Doc: formula + " for n = 0 … size-1; N is size if periodic is set, else size-1.",
		In: ops.Sig("size:T1[]"), Out: ops.Sig("output:T2"), Elems: map[string][]tensor.DType{"T1": indexTypes},
		Attrs: []ir.AttrSpec{numberType, intAttr("periodic", 1, "whether the window continues periodically")},
		Infer: func(n *ir.Node) ([]ir.Type, error) {
			if _, err := ops.Bind(n); err != nil {
				return nil, err
			}
			d, err := typeOfOutput(n)
			if err != nil {
				return nil, err
			}
			size := unknownShape(1)
			if s, ok := ops.DimsOf(n.In(0)); ok && len(s) == 1 {
				size = s
			}
			return one(typed(d, size))
		},
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			d, err := typeOfOutput(c.Node)
			if err != nil {
				return nil, err
			}
			size, err := scalarInt(c, in, 0, "size")
			if err != nil {
				return nil, err
			}
			if size < 0 || size > ops.MaxElems {
				return nil, fmt.Errorf("size is %d, expected 0 to %d", size, ops.MaxElems)
			}
			period := float64(size)
			if getInt(c.Node, "periodic") == 0 {
				period--
			}
			v := ops.Make[float64](c, int(size))
			for i := range ops.Each(c, len(v)) {
				turn := 2 * math.Pi * float64(i) / period
				v[i] = a0 - a1*math.Cos(turn) + a2*math.Cos(2*turn)
			}
			return ops.One(ops.Real(c, d, v, len(v)))
		},
		Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			float := func(x float64) *ir.Value { return b.Const("c", tensor.Scalar(float32(x))) }
			size := attr(b, "Cast", in[:1], ir.A("to", int(tensor.Float32)))
			period := size
			if getInt(n, "periodic") == 0 {
				period = op(b, "Sub", size, float(1))
			}
			// Range is empty for a negative size, which Expand refuses.
			at := op(b, "Expand", op(b, "Range", float(0), size, float(1)),
				op(b, "Reshape", attr(b, "Cast", in[:1], ir.A("to", int(tensor.Int64))), b.Ints(1)))
			turn := op(b, "Div", op(b, "Mul", at, float(2*math.Pi)), period)
			y := op(b, "Sub", float(a0), op(b, "Mul", op(b, "Cos", turn), float(a1)))
			if a2 != 0 {
				y = op(b, "Add", y, op(b, "Mul", op(b, "Cos", op(b, "Mul", turn, float(2))), float(a2)))
			}
			return []*ir.Value{attr(b, "Cast", []*ir.Value{y}, ir.A("to", getInt(n, "output_datatype")))}
		},
		Tol: ir.Rounding,
	})
}

// MelWeightMatrix maps spectra to bands of the mel scale.
var MelWeightMatrix = ops.Register(&ir.Op{
	Name: "MelWeightMatrix", Since: 17,
	Doc: "(dft_length/2+1, num_mel_bins): triangles over the bins of a spectrum, evenly spaced in mel = " +
		"2595·log10(1+f/700) between two frequencies, as multiples of whole bins.",
	In: ops.Sig("num_mel_bins:T1[]", "dft_length:T1[]", "sample_rate:T1[]", "lower_edge_hertz:T2[]",
		"upper_edge_hertz:T2[]"), Out: ops.Sig("output:T3"),
	Elems: map[string][]tensor.DType{"T1": indexTypes}, Attrs: []ir.AttrSpec{numberType},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		d, err := typeOfOutput(n)
		if err != nil {
			return nil, err
		}
		shape := unknownShape(2)
		if s, ok := ops.DimsOf(n.In(1)); ok && len(s) == 1 {
			shape[0] = s[0].FloorDiv(ir.Const(2)).Add(ir.Const(1))
		}
		if s, ok := ops.DimsOf(n.In(0)); ok && len(s) == 1 {
			shape[1] = s[0]
		}
		return one(typed(d, shape))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		d, err := typeOfOutput(c.Node)
		if err != nil {
			return nil, err
		}
		var whole [3]int64
		for i := range whole {
			if whole[i], err = scalarInt(c, in, i, c.Node.Op.In[i].Name); err != nil {
				return nil, err
			}
			if whole[i] < 1 || whole[i] > ops.MaxElems {
				return nil, fmt.Errorf("%s is %d, expected 1 to %d", c.Node.Op.In[i].Name, whole[i], ops.MaxElems)
			}
		}
		low, high := ops.F64(c, in, 3), ops.F64(c, in, 4)
		if len(low) != 1 || len(high) != 1 {
			return nil, fmt.Errorf("lower_edge_hertz and upper_edge_hertz: expected one number each")
		}
		bands, rows := int(whole[0]), int(whole[1])/2+1
		if _, err := ops.Elems([]int{rows, bands}); err != nil {
			return nil, err
		}
		mel := func(f float64) float64 { return 2595 * math.Log1p(f/700) / math.Ln10 }
		from := mel(low[0])
		step := (mel(high[0]) - from) / float64(bands+2)
		edges := ops.Make[int](c, bands+2)
		for i := range len(edges) {
			c.Step(1)
			f := 700 * math.Expm1((from+float64(i)*step)/2595*math.Ln10)
			bin := math.Floor(float64(whole[1]+1) * f / float64(whole[2]))
			if !(bin >= 0 && bin < float64(rows)) {
				return nil, fmt.Errorf("edge %d of the bands is bin %v of %d", i, bin, rows)
			}
			edges[i] = int(bin)
		}
		v := ops.Make[float64](c, rows*bands)
		for i := range bands {
			c.Step(1)
			lo, mid, hi := edges[i], edges[i+1], edges[i+2]
			if lo == mid {
				v[mid*bands+i] = 1
			}
			for j := lo; j <= mid && lo < mid; j++ {
				c.Step(1)
				v[j*bands+i] = float64(j-lo) / float64(mid-lo)
			}
			for j := mid; j < hi; j++ {
				c.Step(1)
				v[j*bands+i] = float64(hi-j) / float64(hi-mid)
			}
		}
		return ops.One(ops.Real(c, d, v, rows, bands))
	},
	Gradient: ops.GradientZero,
	Tol:      ir.Rounding,
})
