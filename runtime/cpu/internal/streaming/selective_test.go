package streaming_test

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestSelectiveScan checks selective scans of one feature and of several for a head, with groups, with one rate and one for
// each state, at sizes around those of vectors, tiles and work items, with states of both types.
func TestSelectiveScan(t *testing.T) {
	r := NewGen(11)
	for i, c := range []struct{ batch, length, heads, per, groups, n int }{
		{1, 1, 1, 1, 1, 1}, {2, 70, 16, 1, 1, 16}, {1, 7, 17, 1, 1, 5}, {2, 130, 150, 1, 1, 3}, {1, 65, 4, 8, 1, 16},
		{2, 9, 4, 5, 2, 8}, {1, 20, 6, 33, 3, 4}, {3, 5, 8, 1, 2, 130},
	} {
		for _, one := range []bool{false, true} {
			features, columns := c.heads*c.per, c.n
			if one {
				columns = 1
			}
			rates, steps := r.Floats(1, c.heads, columns), r.Floats(1, c.batch, c.length, c.heads)
			for _, x := range []*tensor.Tensor{rates, steps} {
				sign := float32(1)
				if x == rates {
					sign = -1
				}
				for i, v := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] = sign * max(v, -v)
				}
			}
			in := []Operand{Given(r.Floats(1, c.batch, c.length, features)), Given(steps), Fixed(rates),
				Given(r.Floats(1, c.batch, c.length, c.groups*c.n)), Given(r.Floats(1, c.batch, c.length, c.groups*c.n)), {}, {}}
			outs := 1
			if i%2 == 0 {
				in[5] = Fixed(r.Floats(1, c.heads))
			}
			if one {
				in[6], outs = Given(r.Floats(1, c.batch, features*c.n)), 2
			}
			on.Node(t, "essm.SelectiveScan", outs, in, ir.A("groups", c.groups))
		}
	}
}

// TestSelectiveChunked checks both forms of selective scans with one rate for all states of a head, at lengths around those
// of chunks: heads of a block and of several, more heads than a work item has, groups, and states before and after.
func TestSelectiveChunked(t *testing.T) {
	r := NewGen(13)
	for i, c := range []struct{ batch, length, heads, per, groups, n int }{
		{1, 1, 1, 16, 1, 1}, {2, 47, 2, 16, 1, 16}, {1, 48, 4, 32, 2, 5}, {2, 130, 9, 16, 1, 3}, {1, 97, 4, 48, 4, 70},
		{3, 200, 22, 16, 2, 8},
	} {
		features, rates := c.heads*c.per, r.Floats(1, c.heads, 1)
		steps := r.Floats(1, c.batch, c.length, c.heads)
		for i, v := range tensor.Data[float32](rates) {
			tensor.Data[float32](rates)[i] = -max(v, -v)
		}
		for i, v := range tensor.Data[float32](steps) {
			tensor.Data[float32](steps)[i] = max(v, -v)
		}
		in := []Operand{Given(r.Floats(1, c.batch, c.length, features)), Given(steps), Fixed(rates),
			Given(r.Floats(1, c.batch, c.length, c.groups*c.n)), Given(r.Floats(1, c.batch, c.length, c.groups*c.n)), {}, {}}
		if i%2 == 0 {
			in[5] = Fixed(r.Floats(1, c.heads))
		}
		for _, state := range []bool{false, true} {
			outs := 1
			if state {
				in[6], outs = Given(r.Floats(1, c.batch, features*c.n)), 2
			}
			for _, form := range []string{essm.FormScan, essm.FormChunked} {
				on.Form(t, form, "essm.SelectiveScan", outs, in, ir.A("groups", c.groups))
			}
		}
	}
}

// TestSelectiveChunkedOdd checks chunks with numbers that products must not see: NaN, which may affect only later
// steps, very large ones, and negative step sizes. Systems that grow have no chunks.
func TestSelectiveChunkedOdd(t *testing.T) {
	const length, heads, per, n = 150, 2, 16, 4
	r := NewGen(14)
	odd := []float32{float32(math.NaN()), 1e30, -3}
	for which := range 5 { // x, delta, b, c, and the state
		for _, v := range odd {
			in := []Operand{Given(r.Floats(1, 1, length, heads*per)), Given(r.Floats(1, 1, length, heads)),
				Fixed(tensor.FromSlice([]float32{-0.5, -1}, heads, 1)), Given(r.Floats(1, 1, length, n)),
				Given(r.Floats(1, 1, length, n)), {}, Given(r.Floats(1, 1, heads*per*n))}
			steps := tensor.Data[float32](in[1].Data)
			for i, v := range steps {
				steps[i] = max(v, -v)
			}
			at := [...]int{0, 1, 3, 4, 6}[which]
			if v > 0 && at == 1 {
				v = 2e6 // a step that forgets all
			}
			x := tensor.Data[float32](in[at].Data)
			x[len(x)/2] = v
			on.Form(t, essm.FormChunked, "essm.SelectiveScan", 2, in)
		}
	}
	grows := []Operand{Given(r.Floats(1, 1, 5, per)), Given(r.Floats(1, 1, 5, 1)), Fixed(tensor.FromSlice([]float32{0.5}, 1, 1)),
		Given(r.Floats(1, 1, 5, n)), Given(r.Floats(1, 1, 5, n))}
	g, _ := NodeGraph(t, "essm.SelectiveScan", 1, grows)
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Kernel: essm.FormChunked})
	if err != nil {
		t.Fatal(err)
	}
	choices, err := m.Explain(map[string]int64{"daa": 1, "dab": 5, "dac": per, "dba": 1, "dbb": 5, "dbc": 1, "dda": 1, "ddb": 5,
		"ddc": n, "dea": 1, "deb": 5, "dec": n})
	if err != nil || len(choices) != 1 || choices[0].Form != essm.FormScan || !strings.Contains(choices[0].Why, "grow") {
		t.Errorf("a system that grows: %+v, %v", choices, err)
	}
}
