package stepgraph_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// parse reads a graph with the dimensions B and L, and pairs of states under a key.
func parse(t *testing.T, text, key, pairs string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(header+text), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g.Meta[key] = pairs
	return g
}

// keeper takes chunks of any length, computes on each as a whole, and keeps a running mean.
const keeper = `g (float[B,L] x, float[1,B,1] s, float gain) => (float[B,L] z, float[B,1] y, float[1,B,1] next) <int64[4] pads = {0, 1, 0, 1}, int64[1] one = {1}, int64[1] zero = {0}, float half = {0.5}> {
	p = Pad <mode: string = "reflect"> (x, pads)
	m = ReduceMean (p, one)
	u = Unsqueeze (m, zero)
	h = Mul (s, half)
	next = Add (h, u)
	w = Squeeze (next, zero)
	y = Mul (w, gain)
	z = Mul (x, w)
}`

// TestCarried checks that a graph which takes its own state is its own step graph.
func TestCarried(t *testing.T) {
	g := parse(t, keeper, ir.MetaCarry, `{"s":"next"}`)
	if _, err := stepgraph.Of(parse(t, keeper, "other", "")); err == nil {
		t.Fatal("without its state it has no steps")
	}
	sg, err := stepgraph.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	if len(sg.States) != 1 || sg.States[0].Name != "s" || sg.States[0].Next != "next" || sg.Multiple != 1 ||
		sg.Flush != 0 {
		t.Errorf("found %+v", sg)
	}
	if o := sg.Outputs; len(o) != 2 || o[0].Kind != stepgraph.Sequence || o[0].Axis != 1 ||
		o[1].Kind != stepgraph.Chunk {
		t.Errorf("found %+v", sg.Outputs)
	}
	if n := len(sg.Graph.Inputs); n != 3 || sg.Graph.Inputs[2].Name != "s" || sg.Graph.Outputs[2].Name != "next" ||
		g.Inputs[1].Name != "s" {
		t.Errorf("found inputs %v of the step graph, and %v of the source", sg.Graph.Inputs, g.Inputs)
	}
}

// TestCarriedRefused checks the errors for pairs that cannot be states.
func TestCarriedRefused(t *testing.T) {
	const two = `g (float[B,2] x, float[2,2] s, float[?,2] q, float[B,2] r, string[2] w, optional(float[B,2]) o) => (float[B,2] y, float[2,2] n, double[2,2] d, float[2,3] e, string[2] v, float[B,2] c) {
		y = Add (x, r)
		n = Identity (s)
		d = Cast <to: int = 11> (s)
		e = Concat <axis: int = 1> (s, k)
		v = Identity (w)
		c = Identity (q)
	}`
	text := strings.Replace(two, "{\n", "<float[2,1] k = {1, 2}> {\n", 1)
	for pairs, want := range map[string]string{
		`junk`:                `essmc.carry: expected a JSON object of outputs by input`,
		`["s"]`:               `essmc.carry: expected a JSON object of outputs by input`,
		`{"z":"n"}`:           `the model has no input "z" that could be its state`,
		`{"s":"z"}`:           `the model has no output "z" that could be passed to input "s"`,
		`{"s":"n","r":"n"}`:   `inputs "r" and "s" cannot both be passed output "n"`,
		`{"s":"d"}`:           `input s is float[2,2], but output d, which should be passed to it, is double[2,2]`,
		`{"s":"e"}`:           `input s is float[2,2], but output e, which should be passed to it, is float[2,3]`,
		`{"q":"c"}`:           `input q: expected a state of known sizes, but dimension 0 of float[?,2] is neither a number nor the batch`,
		`{"w":"v"}`:           `input w: expected a state, a tensor of numbers with a known number of dimensions, found string[2]`,
		`{"s":"n","r":"y"}`:   ``,
		`{"s":"n","o":"y"}`:   ``,
		`{"\u0000":"\u0000"}`: `the model has no input "\x00"`,
	} {
		_, err := stepgraph.Of(parse(t, text, ir.MetaCarry, pairs))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: expected %q, found %v", pairs, want, err)
		}
	}
}

// TestGivenState checks that an input which is the layers' own state becomes part of the step graph's states, and that
// the graph is refused if it uses the input otherwise.
func TestGivenState(t *testing.T) {
	const lstm = `g (float[L,B,2] x, float[1,8,2] w, float[1,8,2] r, float[B,4] s) => (float[L,1,B,2] y) <int64[2] sizes = {2, 2}, int64[1] zero = {0}> {
		h, c = Split <axis: int = 1> (s, sizes)
		h1 = Unsqueeze (h, zero)
		c1 = Unsqueeze (c, zero)
		y, yh, yc = LSTM <hidden_size: int = 2> (x, w, r, , , h1, c1)
		}`
	text := strings.Replace(lstm, "=> (float[L,1,B,2] y)", "=> (float[L,1,B,2] y, float[1,B,2] yh)", 1)
	g := parse(t, text, ir.MetaState, `{"s":"yh"}`)
	sg, err := stepgraph.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	if sg.Graph.Input("s") != nil {
		t.Error("the input s is still there")
	}
	for _, st := range sg.States {
		if st.DType == tensor.Int64 {
			t.Errorf("counts steps (%s), though the states before the first are zeros", st.Name)
		}
	}
	// With zeros for the state, the source and its steps give the same.
	in := noise(t, g, map[string]int64{"B": 2, "L": 9}, rand.New(rand.NewPCG(1, 1)), false)
	o := runtime.Options{Backend: ref.New()}
	in["s"] = tensor.New(tensor.Float32, 2, 4)
	want := whole(t, g, o, in)
	delete(in, "s")
	same(t, "steps", newStream(t, sg, o, 2).feed(in, 9, []int{1, 3, 2}, -1), want, 1e-6)
	used := strings.Replace(text, "=> (float[L,1,B,2] y, float[1,B,2] yh)",
		"=> (float[L,1,B,2] y, float[1,B,2] yh, float[B,4] z)", 1)
	used = strings.Replace(used, "h1 =", "z = Neg (s)\n\t\th1 =", 1)
	if _, err := stepgraph.Of(parse(t, used, ir.MetaState, `{"s":"yh"}`)); err == nil ||
		!strings.Contains(err.Error(),
			"input s: essmc.state declares it as the layers' own state, but node Neg -> z uses it otherwise") {
		t.Errorf("found %v", err)
	}
}
