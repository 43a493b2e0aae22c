package raise_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/passtest"
)

// nearMiss is a graph that resembles a form, with the note that it must cause.
type nearMiss struct {
	graph func(l layer)
	text  string // instead of graph: nodes over x float[B,L,2] and h float[B,2] that compute y
	left  string // an operator that remains, or is made instead
	why   string // the whole note
}

const missSteps, missChannels = 96, 3

func missInput(l layer) *ir.Value {
	return l.Input("x", ir.Tensor(tensor.Float32, "B", missChannels, missSteps))
}

// missKernel returns the kernel of a system as Conv takes it.
func missKernel() []float64 { return newSystem(missChannels, 2, 7).kernel(missSteps) }

// missConv returns a function that builds a causal convolution. before rearranges the padded input.
func missConv(kernel []float64, before func(l layer, x *ir.Value) *ir.Value) func(l layer) {
	return func(l layer) {
		x := before(l, l.op("Pad", missInput(l), []int64{0, 0, missSteps - 1, 0, 0, 0}))
		w := l.floats("w", flipped(kernel, missChannels, missSteps), missChannels, 1, missSteps)
		l.Output("y", l.op("Conv", x, w, ir.A("group", missChannels)))
	}
}

func missTransform(change func(s []float64)) func(l layer) {
	return func(l layer) {
		v, bins := spectrum(missKernel(), missChannels, missSteps, 2*missSteps, false)
		change(v)
		l.Output("y", l.transformed(missInput(l), l.floats("s", v, missChannels, bins, 2), missSteps, 2*missSteps,
			false, true))
	}
}

func missToeplitz(change func(m []float64)) func(l layer) {
	return func(l layer) {
		m := toeplitz(newSystem(1, 2, 8).kernel(missSteps), missSteps)
		change(m)
		l.Output("y", l.op("MatMul", missInput(l), l.floats("m", m, missSteps, missSteps)))
	}
}

// missScan is a Scan over the first axis of x with the given nodes, which compute k from h and x.
func missScan(body string) string {
	return `x1 = Transpose <perm: ints = [1, 0, 2]> (x)
  last, z = Scan <num_scan_inputs: int = 1, body: graph = step (float[B,2] p, float[B,2] u) => (float[B,2] k, float[B,2] o) {
    ` + body + `
    o = Identity (k)
  }> (h, x1)
  y = Transpose <perm: ints = [1, 0, 2]> (z)`
}

// missLoop is a Loop over x with the given number of iterations, index, condition and state.
func missLoop(count, at, more, state string) string {
	return `s = Shape (x)
  all = Gather (s, one)
  less = Sub (all, one)
  last, z = Loop (` + count + `, yes, h) <body: graph = step (int64 t, bool c, float[B,2] p) => (bool more, float[B,2] k, float[B,2] o) {
    t1 = Sub (t, one)
    u = Gather <axis: int = 1> (x, ` + at + `)
    ` + state + `
    o = Identity (k)
    more = ` + more + `
  }>
  y = Transpose <perm: ints = [1, 0, 2]> (z)`
}

// missUnrolled is a recurrence of four steps with the given step 2.
func missUnrolled(step string) string {
	var b strings.Builder
	b.WriteString("v0, v1, v2, v3 = Split <axis: int = 1, num_outputs: int = 4> (x)\n  h0 = Unsqueeze (h, axis)\n")
	for k := range 4 {
		s := fmt.Sprintf("p%d = Mul (a, h%d)\n  h%d = Add (p%d, v%d)\n  ", k, k, k+1, k, k)
		if k == 2 {
			s = step + "\n  "
		}
		b.WriteString(s)
	}
	b.WriteString("y = Concat <axis: int = 1> (h1, h2, h3, h4)")
	return b.String()
}

var nearMisses = map[string]nearMiss{
	"conv: one tap changed": {
		graph: func(l layer) {
			k := missKernel()
			k[missSteps+40] += 0.1
			missConv(k, func(_ layer, x *ir.Value) *ir.Value { return x })(l)
		},
		left: "essm.LongConv",
		why: "convolution: Conv -> y is not an essm.SSM: the kernel of channel 1 is not a sum of decaying exponentials: " +
			"no sum of 64, or of a quarter of its 96 taps, comes near",
	},
	"conv: a mask in the middle": {
		graph: missConv(missKernel(), func(l layer, x *ir.Value) *ir.Value {
			mask := make([]float64, 2*missSteps-1)
			for i := range mask {
				mask[i] = float64(min(1, i%7))
			}
			return l.op("Mul", x, l.floats("mask", mask, len(mask)))
		}),
		left: "Conv",
		why: "convolution: Conv -> y left as it is: step 59 is not the same function of the steps around it as the " +
			"first and the last are (off by 0.27 of the largest answer, expected at most 1e-07)",
	},
	"conv: reflected ends": {
		graph: func(l layer) {
			x := l.op("Pad", missInput(l), []int64{0, 0, missSteps - 1, 0, 0, 0}, ir.A("mode", "reflect"))
			w := l.floats("w", flipped(missKernel(), missChannels, missSteps), missChannels, 1, missSteps)
			l.Output("y", l.op("Conv", x, w, ir.A("group", missChannels)))
		},
		left: "Conv",
		why:  "convolution: Conv -> y left as it is: step",
	},
	"conv: a kernel from an input": {
		graph: func(l layer) {
			x := missInput(l)
			l.Output("y", l.causal(x, l.Input("w", ir.Tensor(tensor.Float32, missChannels, 1, missSteps)), missChannels,
				missSteps))
		},
		left: "Conv",
		why:  "convolution: Conv -> y left as it is: its kernel, w, depends on an input; expected constants",
	},
	"conv: channels mixed": {
		graph: func(l layer) {
			p := l.op("Pad", missInput(l), []int64{0, 0, missSteps - 1, 0, 0, 0})
			l.Output("y", l.op("Conv", p, l.floats("w", flipped(missKernel(), missChannels, missSteps), 1, missChannels,
				missSteps)))
		},
		left: "Conv",
		why: "convolution: Conv -> y left as it is: it mixes channels: its kernel is float[1,3,96], expected one " +
			"input channel for each output channel",
	},
	"conv: a stride": {
		graph: func(l layer) {
			w := l.floats("w", missKernel()[:missChannels*40], missChannels, 1, 40)
			l.Output("y", l.op("Conv", missInput(l), w, ir.A("group", missChannels), ir.A("strides", []int{2})))
		},
		left: "Conv",
		why:  "convolution: Conv -> y left as it is: it skips steps: its stride is 2, expected 1",
	},
	"conv: no pads": {
		graph: func(l layer) {
			w := l.floats("w", missKernel()[:missChannels*40], missChannels, 1, 40)
			l.Output("y", l.op("Conv", missInput(l), w, ir.A("group", missChannels)))
		},
		left: "Conv",
		why: "convolution: Conv -> y left as it is: it computes float[B,3,57] from input x, float[B,3,96]; expected " +
			"as many elements",
	},
	"conv: an inner value is used": {
		graph: func(l layer) {
			w := l.floats("w", flipped(missKernel(), missChannels, missSteps), missChannels, 1, missSteps)
			y := l.op("Conv", missInput(l), w, ir.A("group", missChannels),
				ir.A("pads", []int{missSteps - 1, missSteps - 1}))
			l.Output("y", l.op("Slice", y, 0, missSteps, 2))
			l.Output("all", l.op("Relu", y))
		},
		left: "Conv",
		why:  "convolution: Conv -> Conv left as it is: Conv, between x and y, is also an input of Relu -> all",
	},
	"dft: bins changed": {
		graph: missTransform(func(s []float64) {
			for i := range s {
				s[i] += 0.1 * float64(i*i%7)
			}
		}),
		left: "essm.LongConv",
		why:  "convolution by transform: DFT -> DFT_1 is not an essm.SSM: the kernel of channel 0 is not a sum of",
	},
	"dft: a spectrum from an input": {
		graph: func(l layer) {
			x := missInput(l)
			s := l.Input("s", ir.Tensor(tensor.Float32, missChannels, missSteps+1, 2))
			l.Output("y", l.transformed(x, s, missSteps, 2*missSteps, false, true))
		},
		left: "DFT",
		why: "convolution by transform: DFT -> DFT_1 left as it is: it is computed from 4 values (Mul -> Mul, Mul " +
			"-> Mul_1, Mul -> Mul_2); expected one sequence, besides constants",
	},
	"toeplitz: one element changed": {
		graph: missToeplitz(func(m []float64) { m[50*missSteps+20] += 0.1 }),
		left:  "essm.Linear", // it is a product all the same
		why: "Toeplitz product: MatMul -> y left as it is: step 20 is not the same function of the steps around it " +
			"as the first and the last are (off by 0.0039 of the largest answer, expected at most 1e-07)",
	},
	"scan: a nonlinear body": {
		text: missScan("q = Mul (a, p)\n r = Add (q, u)\n k = Tanh (r)"),
		left: "Scan",
		why:  "scan: Scan -> last left as it is: Tanh -> k is not linear",
	},
	"scan: decay from the input": {
		text: missScan("q = Mul (u, p)\n k = Add (q, u)"),
		left: "Scan",
		why:  "scan: Scan -> last left as it is: Mul -> q multiplies two values that change from step to step",
	},
	"scan: a division by the state": {
		text: missScan("k = Div (u, p)"),
		left: "Scan",
		why:  "scan: Scan -> last left as it is: Div -> k divides by a value that changes from step to step",
	},
	"loop: not all steps": {
		text: missLoop("less", "t", "Identity (c)", "q = Mul (a, p)\n k = Add (q, u)"),
		left: "Loop",
		why:  "loop: Loop -> last left as it is: it has L-1 iterations, expected one for each of the L steps of x",
	},
	"loop: one step late": {
		text: missLoop("all", "t1", "Identity (c)", "q = Mul (a, p)\n k = Add (q, u)"),
		left: "Loop",
		why: "loop: Loop -> last left as it is: iteration i reads step 1·i + -1 of x, expected all steps, in order " +
			"or in the opposite order",
	},
	"loop: a condition": {
		text: missLoop("all", "t", "Less (t, less)", "q = Mul (a, p)\n k = Add (q, u)"),
		left: "Loop",
		why:  "loop: Loop -> last left as it is: the condition more may end it early, expected one that is always true",
	},
	"loop: a parameter that varies": {
		text: missLoop("all", "t", "Identity (c)",
			"f = Cast <to: int = 1> (t)\n g = Mul (a, f)\n q = Mul (g, p)\n k = Add (q, u)"),
		left: "Loop",
		why:  "loop: Loop -> last left as it is: it reads t, which is neither an input nor a state of the step",
	},
	"unrolled: one step decays otherwise": {
		text: missUnrolled("p2 = Mul (b, h2)\n  h3 = Add (p2, v2)"),
		left: "Concat",
		why: "unrolled: Concat -> y left as it is: step 2 differs from step 1: the matrix of states[1,1] is 0.25, " +
			"expected 0.125",
	},
	"unrolled: one step is not linear": {
		text: missUnrolled("p2 = Mul (a, h2)\n  q2 = Add (p2, v2)\n  h3 = Relu (q2)"),
		left: "Concat",
		why:  "unrolled: Concat -> y left as it is: step 2: Relu -> h3 is not linear",
	},
	"unrolled: a step reads two before": {
		text: missUnrolled("p2 = Mul (a, h1)\n  h3 = Add (p2, v2)"),
		left: "Concat",
		why: "unrolled: Concat -> y left as it is: step 2 reads h1 of step 0, expected values of the previous step " +
			"only",
	},
	"reversed: lengths of their own": {
		text: `r = ReverseSequence <batch_axis: int = 0, time_axis: int = 1> (x, n)
  v = essm.HeadLinear (r, mix)
  z = essm.Scan (v, re, im, re, im)
  q = essm.HeadLinear (z, mix)
  y = ReverseSequence <batch_axis: int = 0, time_axis: int = 1> (q, n)`,
		left: "ReverseSequence",
		why: "reversed: essm.SSM -> SSM left as it is: ReverseSequence -> r reverses parts of sequences, of lengths " +
			"n; expected all steps",
	},
	"norm: an axis that is removed": {
		text: `m = ReduceMean <keepdims: int = 0> (x, first)
  c = Sub (x, m)
  d = Mul (c, c)
  w = ReduceMean <keepdims: int = 0> (d, first)
  e = Add (w, eps)
  f = Sqrt (e)
  y = Div (c, f)`,
		left: "Div",
		why:  "layer-norm: Div -> y left as it is: ReduceMean -> m removes its axes [0], expected keepdims 1",
	},
	"norm: over samples": {
		text: `m = ReduceMean (x, first)
  c = Sub (x, m)
  d = Mul (c, c)
  w = ReduceMean (d, first)
  e = Add (w, eps)
  f = Sqrt (e)
  y = Div (c, f)`,
		left: "Div",
		why: "layer-norm: Div -> y left as it is: it is over axes [0] of shape [B,L,2]; expected one axis or the last " +
			"ones, of fixed sizes",
	},
	"norm: variance over another axis": {
		text: `m = ReduceMean (x, two)
  c = Sub (x, m)
  d = Mul (c, c)
  w = ReduceMean (d, axis)
  e = Add (w, eps)
  f = Sqrt (e)
  y = Div (c, f)`,
		left: "Div",
		why:  "layer-norm: Div -> y left as it is: the mean is over axes [2], the variance over [1]",
	},
}

// graphOf parses the text.
func (m nearMiss) graphOf(t *testing.T) *ir.Graph {
	t.Helper()
	if m.graph != nil {
		l := newLayer()
		m.graph(l)
		return l.graph(t)
	}
	steps, out := "L", "M"
	if strings.Contains(m.text, "Split") {
		steps, out = "4", "4"
	}
	text := `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,` + steps + `,2] x, float[B,2] h, int64[B] n) => (float[B,` + out + `,2] y)
<float[2] a = {0.5, 0.125}, float[2] b = {0.5, 0.25}, int64 one = {1}, int64[1] axis = {1}, int64[1] two = {2}, bool yes = {1}, float eps = {0.00001},
 int64[1] first = {0}, double[1,1,2] re = {-0.5, -0.1}, double[1,1,2] im = {1, 2}, float[1,1,2,2] mix = {1, 2, 3, 4}>
{
  ` + m.text + `
}`
	g, err := irtext.Parse([]byte(text), "near miss", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestNearMisses checks that a graph which only resembles a form is not raised to it, and that the note names the node,
// the condition, the expected and the found.
func TestNearMisses(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(nearMisses)) {
		m := nearMisses[name]
		t.Run(name, func(t *testing.T) {
			g := m.graphOf(t)
			r := raised(t, g)
			if count(r, m.left) == 0 || count(r, "essm.SSM", "essm.Scan", "essm.DenseScan") > strings.Count(m.why,
				"essm.SSM ->") {
				t.Errorf("no %s is left", m.left)
			}
			if notes := passtest.Notes(r); !slices.ContainsFunc(notes,
				func(s string) bool { return strings.HasPrefix(s, m.why) }) {
				t.Errorf("notes are\n%s\nexpected\n%s", strings.Join(notes, "\n"), m.why)
			}
			agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 5})
		})
	}
}

// TestNearMissExport changes a table of an exported file. TestChunkedLooksAlike and TestWindowedLooksAlike range over
// the tables.
func TestNearMissExport(t *testing.T) {
	for _, c := range []struct {
		window int
		table  string
		why    []string
	}{
		{0, "taps", []string{"exported essm.SSM: Add (layers.0) -> ",
			"for this operator it would be"}},
		{7, "taps", []string{"exported essm.SSM: Add (layers.0) -> ",
			"for this operator it would be"}},
	} {
		g := lowered(t, 17, func(k *essm.Config) { k.Layer.MaxKernelLength = c.window })
		for _, v := range g.Constants() {
			if !strings.HasPrefix(v.Name, c.table) {
				continue
			}
			x := v.Const.Clone()
			if x.DType() == tensor.Float64 {
				tensor.Data[float64](x)[x.Len()/2] += 0.01
			} else {
				tensor.Data[float32](x)[x.Len()/2] += 0.01
			}
			v.Const = x
			break
		}
		notes := strings.Join(passtest.Notes(raised(t, g)), "\n")
		for _, why := range c.why {
			if !strings.Contains(notes, why) {
				t.Errorf("%s: notes are\n%s\nexpected %q", c.table, notes, why)
			}
		}
	}
}

// TestShortConvolution checks that a convolution with few taps is not a near miss: most networks have some.
func TestShortConvolution(t *testing.T) {
	l := newLayer()
	l.Output("y", l.causal(missInput(l), l.floats("w", missKernel()[:missChannels*4], missChannels, 1, 4), missChannels,
		4))
	r := raised(t, l.graph(t))
	if len(passtest.Notes(r)) != 0 || count(r, "Conv") != 1 {
		t.Errorf("got %v", passtest.Notes(r))
	}
}
