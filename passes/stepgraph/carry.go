package stepgraph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Pair names an input for the state before a chunk, and the output for the state after it.
type Pair struct{ In, Out string }

// Pairs reads the pairs in a graph's metadata under a key, ir.MetaState or ir.MetaCarry, in the order of the inputs'
// names. It checks that the graph has these inputs and outputs.
func Pairs(g *ir.Graph, key string) ([]Pair, error) {
	text, ok := g.Meta[key]
	if !ok {
		return nil, nil
	}
	var of map[string]string
	if err := json.Unmarshal([]byte(text), &of); err != nil {
		return nil, fmt.Errorf(`%s: expected a JSON object of outputs by input, as {"state":"state_out"}: %v`, key, err)
	}
	var pairs []Pair
	taken := map[string]string{}
	for _, in := range slices.Sorted(maps.Keys(of)) {
		out := of[in]
		if g.Input(in) == nil {
			return nil, fmt.Errorf("the model has no input %q that could be its state", in)
		}
		if output(g, out) == nil {
			return nil, fmt.Errorf("the model has no output %q that could be passed to input %q", out, in)
		}
		if other, twice := taken[out]; twice {
			return nil, fmt.Errorf("inputs %q and %q cannot both be passed output %q", other, in, out)
		}
		taken[out] = in
		pairs = append(pairs, Pair{in, out})
	}
	return pairs, nil
}

// PairsText returns the text that Pairs reads, for a map from inputs to outputs.
func PairsText(of map[string]string) string {
	b, err := json.Marshal(of)
	if err != nil { // not possible for a map of strings
		return ""
	}
	return string(b)
}

func output(g *ir.Graph, name string) *ir.Value {
	if i := slices.IndexFunc(g.Outputs, func(v *ir.Value) bool { return v.Name == name }); i >= 0 {
		return g.Outputs[i]
	}
	return nil
}

// carried returns the step graph of a graph that takes one chunk and its state: the graph itself. An output that is not
// a sequence of steps describes the chunk. The graph determines which lengths of chunks it takes.
func carried(source *ir.Graph, pairs []Pair) (*Graph, error) {
	g := source.Clone()
	g.Updates = nil
	sg := &Graph{Graph: g, Multiple: 1}
	var before, after []*ir.Value
	for _, p := range pairs {
		in, out := g.Input(p.In), output(g, p.Out)
		if o, ok := in.Type.(*ir.OptionalType); ok { // always given
			in.Type = o.Elem
		}
		shape, err := carriedShape(g, in, out)
		if err != nil {
			return nil, err
		}
		sg.States = append(sg.States, State{Name: p.In, Next: p.Out, DType: in.Elem(), Shape: shape,
			Node: "input " + p.In})
		before, after = append(before, in), append(after, out)
	}
	g.Inputs = append(slices.DeleteFunc(slices.Clone(g.Inputs), func(v *ir.Value) bool {
		return slices.Contains(before, v)
	}), before...)
	g.Outputs = append(slices.DeleteFunc(slices.Clone(g.Outputs), func(v *ir.Value) bool {
		return slices.Contains(after, v)
	}), after...)
	given := g.Outputs[:len(g.Outputs)-len(after)]
	if len(given) == 0 {
		return nil, fmt.Errorf("its only outputs are its own state")
	}
	symbol := g.Meta[ir.MetaTime]
	for _, v := range given {
		o := Output{Name: v.Name, Kind: Chunk, Axis: -1, Rate: 1}
		if symbol != "" {
			if axis := slices.IndexFunc(v.Shape(), ir.Sym(symbol).Equal); axis >= 0 {
				o.Kind, o.Axis = Sequence, axis
			}
		}
		sg.Outputs = append(sg.Outputs, o)
	}
	return sg, ir.Verify(g)
}

// carriedShape returns the shape of a state that is passed from an output to an input. All dimensions but the batch
// must be known.
func carriedShape(g *ir.Graph, in, out *ir.Value) (ir.Shape, error) {
	t, ok := in.TensorType()
	if !ok || t.NoRank || t.Elem == tensor.String || t.Elem.Packed() {
		return nil, fmt.Errorf(
			"input %s: expected a state, a tensor of numbers with a known number of dimensions, found %v", in.Name,
			in.Type)
	}
	for i, d := range t.Shape {
		_, known := d.Known()
		if s, plain := d.Symbol(); !known && (!plain || s != g.Meta[ir.MetaBatch]) {
			return nil, fmt.Errorf(
				"input %s: expected a state of known sizes, but dimension %d of %v is neither a number nor the batch",
				in.Name, i, t)
		}
	}
	u, ok := out.TensorType()
	agree := ok && u.Elem == t.Elem && (u.NoRank || len(u.Shape) == len(t.Shape))
	for i := 0; agree && !u.NoRank && i < len(u.Shape); i++ {
		a, known := t.Shape[i].Known()
		b, too := u.Shape[i].Known()
		agree = !known || !too || a == b
	}
	if !agree {
		return nil, fmt.Errorf("input %s is %v, but output %s, which should be passed to it, is %v", in.Name, in.Type,
			out.Name, out.Type)
	}
	return t.Shape, nil
}
