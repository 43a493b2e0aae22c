package stepgraph_test

import (
	"errors"
	"slices"
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

const header = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1], metadata_props: ["essmc.batch": "B", "essmc.time": "L"]>
`

// TestRefused checks the errors for graphs that have no step graph.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ graph, want string }{
		{`g (float[L,B,2] x, float[1,8,2] w, float[1,8,2] r) => (float[L,1,B,2] y) { y = LSTM <direction: string = "reverse"> (x, w, r) }`,
			"LSTM -> y: reverse, looks ahead without bound"},
		{`g (float[B,L,2] x) => (float[B,L,2] y) <int64 one = {1}> { y = CumSum <reverse: int = 1> (x, one) }`,
			"CumSum -> y: looks ahead without bound"},
		{`g (float[B,L,2] x) => (float[B,L,2] y) { y = Softmax <axis: int = 1> (x) }`,
			"Softmax -> y: needs the whole sequence at once"},
		{`g (float[B,L,2] x) => (float[B,L,2] y) { y = essm.InstanceNorm (x) }`,
			"essm.InstanceNorm -> y: needs the whole sequence at once"},
		{`g (float[B,L,2] x) => (float[B,L,2] y) <int64[1] one = {1}> {
			m = ReduceMean (x, one)
			y = Sub (x, m)
		}`, "Sub -> y: needs the whole sequence at once"},
		{`g (float[B,L,2] x) => (float[B,L,2] y) <int64[1] zero = {0}, int64[1] five = {5}, int64[1] one = {1}> { y = Slice (x, zero, five, one) }`,
			"Slice -> y: ends at a step that is counted from the first"},
		{`g (float[B,2,L] x) => (float[B,2,?] y) { y = MaxPool <kernel_shape: ints = [3], strides: ints = [2], ceil_mode: int = 1> (x) }`,
			"MaxPool -> y: computes a partial window"},
		{`g (float[B,L,2] x, float[B,M,2] k) => (float[B,L,M] y) {
			t = Transpose <perm: ints = [0, 2, 1]> (x)
			y = MatMul (x, t)
		}`, "needs the whole sequence at once"},
		{`g (float[B,L,2] x, float[5,1] k) => (float[B,L,2] y) { y = PRelu (x, k) }`, "PRelu -> y: needs the whole sequence at once"},
		{`g (float[B,L,2] x, float[B,1] k) => (float[B,L,2] y) { y = PRelu (x, k) }`, "PRelu -> y: needs the whole sequence at once"},
		{`g (float[B,L,2] x, float[2,L] k) => (float[B,L,2] y) { y = essm.LongConv (x, k) }`, "essm.LongConv -> y"},
		{`g (float[B,2*L,2] x) => (float[B,2*L,2] y) { y = Relu (x) }`, "input x: expected a tensor with dimension L"},
		{`g (float[B,4] x) => (float[B,4] y) { y = Relu (x) }`, "no input has the time dimension L"},
		{`g (float[B,L,M] x) => (float[B,L,M] y) <int64 one = {1}> { y = CumSum (x, one) }`,
			"its state has shape [B,1,M], expected known dimensions but for the batch"},
	} {
		g, err := irtext.Parse([]byte(header+c.graph), "text", ops.Default, irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stepgraph.Of(g); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
}

// TestOutputs checks step graphs of some outputs of a graph: others block nothing, all states stay, and an input that only
// no state needs either may be absent.
func TestOutputs(t *testing.T) {
	g, err := irtext.Parse([]byte(header+`g (float[B,L,2] x, float[B,L,2] w, float[B] v) => (float[B,L,2] a, float[B,L,2] b, float[B,L,2] c, float[B] d) <int64 one = {1}> {
		a = CumSum (x, one)
		b = CumSum (w, one)
		c = Softmax <axis: int = 1> (w)
		d = Neg (v)
	}`), "text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var states string
	for _, c := range []struct{ outputs, inputs, want string }{
		{"a", "x w v?", ""}, {"b", "x w v?", ""}, {"a b", "x w v?", ""}, {"d a", "x w v", ""}, {"d", "x w v", ""},
		{"c", "", "graph g has no step graph: Softmax -> c: needs the whole sequence at once"},
		{"a c", "", "graph g has no step graph: Softmax -> c: needs the whole sequence at once"},
		{"", "", "graph g has no step graph: Softmax -> c: needs the whole sequence at once"},
		{"a e", "", `graph g has no output "e"`},
	} {
		sg, err := stepgraph.Of(g, strings.Fields(c.outputs)...)
		if c.want != "" {
			if err == nil || err.Error() != c.want {
				t.Errorf("%s: expected %s, found %v", c.outputs, c.want, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.outputs, err)
			continue
		}
		var outputs, inputs, next []string
		for _, o := range sg.Outputs {
			outputs = append(outputs, o.Name)
		}
		for _, v := range sg.Graph.Inputs[:len(sg.Graph.Inputs)-len(sg.States)] {
			inputs = append(inputs, v.Name)
			if _, optional := v.Type.(*ir.OptionalType); optional {
				inputs[len(inputs)-1] += "?"
			}
		}
		for i, s := range sg.States {
			next = append(next, s.Name)
			if v := sg.Graph.Outputs[len(sg.Outputs)+i]; v.Name != s.Next {
				t.Errorf("%s: output %s in the place of state %s", c.outputs, v.Name, s.Next)
			}
		}
		wanted := strings.Fields(c.outputs)
		slices.Sort(wanted)
		if !slices.Equal(outputs, wanted) || strings.Join(inputs, " ") != c.inputs {
			t.Errorf("%s: found outputs %v and inputs %v", c.outputs, outputs, inputs)
		}
		if found := strings.Join(next, " "); len(next) != 2 || states != "" && states != found {
			t.Errorf("%s: found states %s, with other outputs %s", c.outputs, found, states)
		} else {
			states = found
		}
	}
}

// TestMultiple checks that a chunk whose length strides do not divide is refused, with the number that must divide it.
func TestMultiple(t *testing.T) {
	g, err := irtext.Parse([]byte(header+
		`g (float[B,2,L] x, float[2,2,4] w) => (float[B,2,floordiv(L,4)] y) { y = Conv <strides: ints = [4]> (x, w) }`),
		"text", ops.Default, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sg, err := stepgraph.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	if sg.Multiple != 4 || sg.Latency != 0 {
		t.Errorf("multiple %d, latency %d", sg.Multiple, sg.Latency)
	}
	m, err := runtime.New(sg.Graph, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 1, 2, 6), "w": tensor.New(tensor.Float32, 2, 2, 4)}
	for _, st := range sg.States {
		in[st.Name] = tensor.New(st.DType, 1)
	}
	_, err = m.NewSession().Run(t.Context(), in)
	var shape *runtime.InputError
	if !errors.As(err, &shape) || !strings.Contains(err.Error(), "4*L") {
		t.Errorf("a chunk of 6: %v", err)
	}
}
