package convolution

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// The response that is read from the weights of a Conv is the one that runs of it show, as far as their transforms are
// exact. Other convolutions are run.
func TestDirect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		x, attrs string
		weights  func(c, j int) float64 // nil: random
		k, bias  int
		direct   bool
	}{
		{"float[B,6,L] x", "pads: ints = [15, 15]", nil, 31, 0, true},
		{"float[B,6,L] x", "pads: ints = [20, 10]", nil, 31, 0, true},
		{"float[B,6,L] x", "pads: ints = [30, 0]", nil, 31, 6, true},
		{"float[B,6,L] x", "pads: ints = [0, 30]", nil, 31, 0, true},
		{"float[B,6,L] x", `auto_pad: string = "SAME_UPPER"`, nil, 32, 0, true},
		{"float[B,6,L] x", "pads: ints = [48, 45], dilations: ints = [3]", nil, 32, 6, true},
		{"float[1,6,100] x", "pads: ints = [15, 15]", nil, 31, 6, true},
		{"float[3,6,100] x", "pads: ints = [15, 15]", nil, 31, 0, true},
		{"float[B,6,60] x", "pads: ints = [15, 15]", nil, 31, 0, false},      // taps beyond the ends
		{"float[B,6,L] x", "pads: ints = [16, 15]", nil, 31, 0, false},       // another number of steps
		{"float[B,6,L] x", "pads: ints = [15, 15]", equalTaps, 31, 0, false}, // channels are no channels
		{"float[B,6,L] x", "pads: ints = [15, 15]", singleTap, 31, 0, false}, // one step
		{"float[B,1,L] x", "pads: ints = [15, 15]", nil, 31, 0, false},
	} {
		what := fmt.Sprintf("%s %s, %d taps, bias %d", c.x, c.attrs, c.k, c.bias)
		channels := 6
		if c.x == "float[B,1,L] x" {
			channels = 1
		}
		in, bias := "", ""
		if c.bias > 0 {
			in, bias = fmt.Sprintf(", float[%d] b", c.bias), ", b"
		}
		g, err := irtext.Parse([]byte(fmt.Sprintf("g (%s, float[%d,1,%d] w%s) => (y) { y = Conv <group: int = %d, %s> (x, w%s) }",
			c.x, channels, c.k, in, channels, c.attrs, bias)), "text", ops.Default, irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Inputs[1:] {
			k := tensor.New(tensor.Float32, shapeOf(v)...)
			for i := range tensor.Data[float32](k) {
				x := r.NormFloat64()
				if c.weights != nil && v.Name == "w" {
					x = c.weights(i/c.k, i%c.k)
				}
				tensor.Data[float32](k)[i] = float32(x)
			}
			g.ReplaceAll(map[*ir.Value]*ir.Value{v: ir.NewConst(v.Name, k)})
		}
		g.Inputs = g.Inputs[:1]
		p := &passes.Pass{Name: "test", Run: func(ctx *passes.Context, g *ir.Graph) (int, error) {
			ix := regions.NewIndex(ctx, g)
			n := g.Nodes[0]
			region := &regions.Region{Source: n.In(0), Sink: n.Outputs[0], Nodes: g.Nodes}
			ix.Memory = regions.Memory(ctx)
			got := directResponse(ix, region)
			if (got != nil) != c.direct {
				t.Errorf("%s: direct %v, expected %v", what, got != nil, c.direct)
			}
			if got == nil {
				return 0, nil
			}
			want, m := probeByRuns(ix, region)
			if m != nil {
				t.Errorf("%s: %s", what, m.why)
				return 0, nil
			}
			sameResponses(t, what, got, want)
			return 0, nil
		}}
		if err := passes.Run(g, []*passes.Pass{p}, passes.Options{}); err != nil {
			t.Fatal(err)
		}
	}
}

func equalTaps(_, j int) float64 { return float64(j % 5) }

func singleTap(c, j int) float64 {
	if j == 15 {
		return float64(c + 1)
	}
	return 0
}

func sameResponses(t *testing.T, what string, got, want *response) {
	t.Helper()
	if got.time != want.time || !slices.Equal(got.to, want.to) || !slices.Equal(got.batch, want.batch) ||
		!slices.Equal(got.channel, want.channel) || !slices.Equal(got.counts, want.counts) || got.n != want.n ||
		got.length != want.length || got.anySize != want.anySize || len(got.bias) != len(want.bias) ||
		fmt.Sprint(got.bind) != fmt.Sprint(want.bind) {
		t.Errorf("%s: %v %v %v %v %v %v %d %v, expected %v %v %v %v %v %v %d %v", what, got.to, got.batch, got.channel, got.counts,
			got.n, got.bind, got.length, got.anySize, want.to, want.batch, want.channel, want.counts, want.n, want.bind,
			want.length, want.anySize)
		return
	}
	for c := range got.n {
		if len(got.fwd[c]) != len(want.fwd[c]) || len(got.bwd[c]) != len(want.bwd[c]) ||
			maxDiff(got.fwd[c], want.fwd[c]) > 1e-13 || maxDiff(got.bwd[c], want.bwd[c]) > 1e-13 {
			t.Errorf("%s: taps of channel %d differ", what, c)
		}
	}
	if maxDiff(got.bias, want.bias) > 1e-13 {
		t.Errorf("%s: biases differ", what)
	}
}

func shapeOf(v *ir.Value) []int {
	shape, _ := v.Type.(*ir.TensorType).Shape.Known()
	return shape
}
