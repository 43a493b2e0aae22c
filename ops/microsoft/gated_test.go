package microsoft

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

func TestGates(t *testing.T) { opstest.Cases(t, "testdata/gated.json") }

// TestGemmFastGelu compares with plain Go, since the oracle has no kernel.
func TestGemmFastGelu(t *testing.T) {
	x, w, bias := normal(5, 3), normal(3, 4), normal(4)
	got := float64s(t, run(t, GemmFastGelu, of(x, w, bias)))
	xs, ws, bs := float64s(t, x), float64s(t, w), float64s(t, bias)
	for i := range 5 {
		for j := range 4 {
			v := bs[j]
			for k := range 3 {
				v += xs[3*i+k] * ws[4*k+j]
			}
			want := 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			if d := math.Abs(got[4*i+j] - want); !(d <= 1e-5) {
				t.Errorf("row %d, column %d: found %v, expected %v", i, j, got[4*i+j], want)
			}
		}
	}
}

// TestGatedRelativePositionBias compares with plain Go, since the oracle has no kernel.
func TestGatedRelativePositionBias(t *testing.T) {
	const batch, steps, count, size, width = 2, 5, 3, 4, 6
	in := []tensor.Datum{normal(batch, steps, count*size), normal(count * size), normal(1, count, steps, steps),
		normal(size, width), normal(width), normal(1, count, 1, 1)}
	got := float64s(t, run(t, GatedRelativePositionBias, of(in...).With(ir.A("num_heads", count))))
	v := make([][]float64, len(in))
	for i, d := range in {
		v[i] = float64s(t, d)
	}
	for b := range batch {
		for h := range count {
			for q := range steps {
				var sums [2]float64
				for j := range width {
					y := v[4][j]
					for k := range size {
						f := h*size + k
						y += (v[0][(b*steps+q)*count*size+f] + v[1][f]) * v[3][k*width+j]
					}
					sums[j/(width/2)] += y
				}
				u, r := 1/(1+math.Exp(-sums[0])), 1/(1+math.Exp(-sums[1]))
				gate := u*(r*v[5][h]-1) + 2
				for k := range steps {
					want := gate * v[2][(h*steps+q)*steps+k]
					if d := math.Abs(got[((b*count+h)*steps+q)*steps+k] - want); !(d <= 1e-5) {
						t.Fatalf("sample %d, head %d, query %d, key %d: off by %v", b, h, q, k, d)
					}
				}
			}
		}
	}
}

// TestGatesRefused checks the errors for forms without support.
func TestGatesRefused(t *testing.T) {
	heads := ir.A("num_heads", 2)
	for _, c := range []struct {
		op   *ir.Op
		s    opstest.Sample
		want string
	}{
		{GatedAdd, of(normal(2, 3), normal(2, 3), normal(2, 4), normal(4, 1)), "gate_weight"},
		{GatedAdd, of(normal(2, 3), normal(2, 3), normal(2, 3)), "1 number for each row"},
		{GatedRMSNorm, of(normal(2, 5), normal(3), normal(2, 5)), "a multiple"},
		{LinearAttentionGate, of(normal(1, 2, 3), normal(3), normal(3)).Gives(2), "expected if the output beta is present"},
		{GatedRelativePositionBias, of(normal(1, 5, 6), normal(6), normal(1, 2, 5, 5), normal(3, 7), normal(7),
			normal(1, 2, 1, 1)).With(heads), "an even number"},
		{GatedRelativePositionBias, of(normal(1, 5, 6), normal(6), normal(1, 2, 5, 5), normal(3, 8), normal(8),
			normal(1, 2, 1, 1), tensor.FromSlice(make([]int32, 5), 1, 5)).With(heads), "token_offset"},
	} {
		n := &ir.Node{Op: c.op, Attrs: ir.NewAttrs(c.s.Attrs...)}
		for _, d := range c.s.In {
			n.Inputs = append(n.Inputs, &ir.Value{Name: "x", Type: ir.Of(d.(*tensor.Tensor))})
		}
		for range c.s.Outs {
			n.Outputs = append(n.Outputs, &ir.Value{Name: "y", Def: n})
		}
		if err := ir.InferNode(n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected an error about %q, found %v", c.op.Name, c.want, err)
		}
	}
}
