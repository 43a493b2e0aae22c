package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// lowering is a precision of dense products, as an option, with what arithmetic allows it.
type lowering struct {
	name, option string
	options      runtime.Options
	// unit bounds the relative error of rounding an operand; 0 for int8, whose operands have scales.
	unit float64
}

var lowerings = []lowering{
	{"precision-bfloat16", "Precision", runtime.Options{Precision: tensor.BFloat16}, 0x1p-9},
	{"precision-int8", "Precision", runtime.Options{Precision: tensor.Int8}, 0},
	{"tf32", "TF32", runtime.Options{TF32: true}, 0x1p-11},
}

// product is a dense product with a constant matrix of at least 32 × 32: y[r, o] = Σ x[r, k]·w[o, k] + b[o].
type product struct {
	name          string
	rows, outs, k int
	x, w, b       []float64
	graph         *ir.Graph
	in            Data
}

// products returns products of each operator that backends compute in low precision. Rows and outputs have magnitudes from
// 1e-3 to 1e3, so that a bound which has the scale of the largest would find nothing in the others.
func products(t testing.TB) []*product {
	t.Helper()
	r := rand.New(rand.NewPCG(21, 22))
	numbers := func(rows, k int) []float32 {
		v := make([]float32, rows*k)
		for i := range rows {
			scale := math.Pow(10, 6*r.Float64()-3)
			for j := range k {
				v[i*k+j] = float32(scale * r.NormFloat64())
			}
		}
		return v
	}
	var all []*product
	for _, op := range []string{"essm.Linear", "MatMul", "Gemm"} {
		for _, size := range [][2]int{{48, 67}, {33, 256}} {
			outs, k, rows := size[0], size[1], 70
			x, w, bias := numbers(rows, k), numbers(outs, k), numbers(1, outs)
			turned := make([]float32, len(w))
			for o := range outs {
				for j := range k {
					turned[j*outs+o] = w[o*k+j]
				}
			}
			b := ir.NewBuilder("product", ops.Default, ops.Opsets())
			var y *ir.Value
			p := &product{name: fmt.Sprintf("%s of %d × %d", op, outs, k), rows: rows, outs: outs, k: k,
				x: wide(x), w: wide(w), b: wide(bias)}
			switch op {
			case "essm.Linear":
				y = b.Op("essm", "Linear", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, 2, rows/2, k)),
					b.Const("w", tensor.FromSlice(w, outs, k)), b.Const("b", tensor.FromSlice(bias, outs))})
				p.in = Data{"x": tensor.FromSlice(x, 2, rows/2, k)}
			case "MatMul":
				y = b.Op("", "MatMul", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, rows, k)),
					b.Const("w", tensor.FromSlice(turned, k, outs))})
				p.in, p.b = Data{"x": tensor.FromSlice(x, rows, k)}, make([]float64, outs)
			case "Gemm":
				y = b.Op("", "Gemm", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, rows, k)),
					b.Const("w", tensor.FromSlice(w, outs, k)), b.Const("b", tensor.FromSlice(bias, outs))}, ir.A("transB", 1))
				p.in = Data{"x": tensor.FromSlice(x, rows, k)}
			}
			b.Output("y", y)
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			p.graph = g
			all = append(all, p)
		}
	}
	return all
}

func wide(x []float32) []float64 {
	v := make([]float64, len(x))
	for i := range x {
		v[i] = float64(x[i])
	}
	return v
}

// judge compares the elements of a product with what rounding its operands costs at most:
//
//	(2u + u²) · Σ|x·w|                          u = 2⁻⁹ in bfloat16, 2⁻¹¹ in TF32
//	Σ (|x|·d/2 + |w|·c/2 + c·d/4)               int8: c and d are 1/127 of the largest |x| of the row and |w| of the output
//
// and the sum's own error in float32, (k + 4)·2⁻²³ · (Σ|x·w| + |b|). far is the largest error of an element, as a part of
// its bound: a product in float32 has next to none.
func (p *product) judge(l lowering, y []float64) (far float64, wrong string) {
	largest := func(v []float64) float64 {
		most := 0.0
		for _, x := range v {
			most = max(most, math.Abs(x))
		}
		return most
	}
	for r := range p.rows {
		x := p.x[r*p.k:][:p.k]
		c := largest(x) / 127
		for o := range p.outs {
			w := p.w[o*p.k:][:p.k]
			d := largest(w) / 127
			sum, sizes, scaled := p.b[o], 0.0, 0.0
			for k := range w {
				sum += x[k] * w[k]
				sizes += math.Abs(x[k] * w[k])
				scaled += math.Abs(x[k])*d/2 + math.Abs(w[k])*c/2 + c*d/4
			}
			bound := (2*l.unit + l.unit*l.unit) * sizes
			if l.unit == 0 {
				bound = scaled
			}
			bound += float64(p.k+4) * 0x1p-23 * (sizes + math.Abs(p.b[o]))
			off := math.Abs(y[r*p.outs+o] - sum)
			if !(off <= bound) && wrong == "" {
				wrong = fmt.Sprintf("row %d, output %d: expected %v, found %v: off by %.3g, %.3g allowed", r, o, sum,
					y[r*p.outs+o], off, bound)
			}
			far = max(far, off/bound)
		}
	}
	return far, wrong
}

// effect is the part of its bound by which an element of a product in low precision is off at least, which shows that the
// option is not ignored: of some thousand elements, one is off by a tenth of the bound, and of float32 by a hundredth.
const effect = 1.0 / 32

// lowered checks dense products in the precisions that the backend offers.
func (s *suite) lowered(t *testing.T, l lowering, try func(t *testing.T, g *ir.Graph, name string, o runtime.Options) *runtime.Session) {
	for _, p := range products(t) {
		session := try(t, p.graph, l.option, l.options)
		if session == nil {
			return
		}
		y := s.mustRun(t, session, p.in)["y"].(*tensor.Tensor)
		far, wrong := p.judge(l, reals(y))
		if wrong != "" {
			t.Errorf("%s: %s", p.name, wrong)
		} else if far < effect {
			t.Errorf("%s: errors are at most %.2g of what %s costs: the option is ignored", p.name, far, l.name)
		}
		t.Logf("%s: at most %.2g of the bound", p.name, far)
	}
}
