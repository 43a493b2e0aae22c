package onnx

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
)

// parametersModel has an initializer that is an input too, one of integers, one in a subgraph, and a Constant node.
func parametersModel(more ...[]byte) []byte {
	branch := func(name string) [][]byte {
		return [][]byte{str(2, name), raw32(5, name+".w", 3), node("Add", "", "h,"+name+".w", name+".out"),
			value(12, name+".out", tensorType(1, 3))}
	}
	return model(append([][]byte{graph(
		raw32(5, "layer/w", 3), raw32(5, "layer/b", 3), msg(5, packed(1, 1), num(2, 7), str(8, "axes"), msg(9, make([]byte, 8))),
		floats(11, "x", 3), floats(11, "layer/b", 3), value(11, "cond", tensorType(9)),
		node("Constant", "", "", "eps", msg(5, str(1, "value_float"), num(20, 1), f32(2, 2))),
		node("Mul", "", "x,layer/w", "m"), node("Add", "", "m,layer/b", "a"), node("Mul", "", "a,eps", "u"),
		node("Unsqueeze", "", "u,axes", "v"), node("Squeeze", "", "v,axes", "h"),
		node("If", "", "cond", "y", graphAttr("then_branch", branch("then")...), graphAttr("else_branch", branch("else")...)),
		floats(12, "y", 3), floats(12, "a", 3),
	)}, more...)...)
}

func names(vs []*ir.Value) string {
	var list []string
	for _, v := range vs {
		list = append(list, v.Name)
	}
	return strings.Join(list, " ")
}

func TestParameters(t *testing.T) {
	file := parametersModel()
	for _, c := range []struct {
		patterns []string
		want     string // the names of the parameters, or the error
	}{
		{nil, ""},
		{[]string{"*"}, "layer/w layer/b then.w else.w"},
		{[]string{"layer/?"}, "layer/w layer/b"},
		{[]string{"*.w", "axes"}, "axes then.w else.w"},
		{[]string{"eps", "layer/w"}, "layer/w eps"},
		{[]string{"*/w", "ep*"}, `m.onnx: parameters: "ep*": expected a name or a pattern of initializers, found none that match; near names: "eps"`},
		{[]string{"a*"}, `m.onnx: parameters: "a*": expected floating point numbers, found only initializers of other types, such as "axes" (int64)`},
		{[]string{"layer.w"}, `m.onnx: parameters: "layer.w": expected a name or a pattern of initializers, found none that match; near names: "layer/w"`},
	} {
		g, _, err := Parse(file, "m.onnx", Options{Parameters: c.patterns})
		var p *patterns.Error
		if err != nil && !errors.As(err, &p) {
			t.Errorf("%q: error of another type: %v", c.patterns, err)
		}
		switch {
		case err != nil && (c.want == "" || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%q: error %v, expected %s", c.patterns, err, c.want)
		case err == nil && names(g.Parameters) != c.want:
			t.Errorf("%q: %s, expected %s", c.patterns, names(g.Parameters), c.want)
		}
		for _, v := range append([]*ir.Value{}, parametersOf(g)...) {
			if v.Const != nil || v.Init == nil {
				t.Errorf("%q: %s is a constant", c.patterns, v.Name)
			}
		}
	}
}

func parametersOf(g *ir.Graph) []*ir.Value {
	if g == nil {
		return nil
	}
	return g.Parameters
}

// TestParametersNotRead: the type of a result that follows from the content of a parameter is not known.
func TestParametersNotRead(t *testing.T) {
	file := model(graph(msg(5, packed(1, 1), num(2, 7), str(8, "shape"), msg(9, []byte{6, 0, 0, 0, 0, 0, 0, 0})),
		floats(11, "x", 2, 3), node("Reshape", "", "x,shape", "y"), value(12, "y", nil)))
	for _, c := range []struct {
		patterns []string
		known    bool
	}{{nil, true}, {[]string{"shape"}, false}} {
		g, _, err := Parse(file, "m.onnx", Options{Parameters: c.patterns})
		if err != nil {
			t.Fatal(err)
		}
		if _, known := g.Outputs[0].Shape().Known(); known != c.known {
			t.Errorf("%q: y has type %v", c.patterns, g.Outputs[0].Type)
		}
	}
}

// TestParametersRoundTrip: a file that Write makes has the graph's parameters and updates.
func TestParametersRoundTrip(t *testing.T) {
	g, _, err := Parse(parametersModel(), "m.onnx", Options{Parameters: []string{"*", "axes", "eps"}})
	if err != nil {
		t.Fatal(err)
	}
	g.Updates = []ir.Update{{Parameter: g.Parameter("layer/b"), Output: g.Outputs[1]},
		{Parameter: g.Parameter("layer/w"), Output: g.Outputs[0]}}
	tensor.Data[float32](g.Parameter("layer/w").Init)[1] = 5
	if err := ir.Verify(g); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := Write(&file, g, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	back, info, err := Parse(file.Bytes(), "m.onnx", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if names(back.Parameters) != names(g.Parameters) || len(info.Warnings) > 0 {
		t.Errorf("read parameters %s, wrote %s; warnings %q", names(back.Parameters), names(g.Parameters), info.Warnings)
	}
	for i, v := range back.Parameters {
		if !tensor.Equal(v.Init, g.Parameters[i].Init) {
			t.Errorf("parameter %s has another content", v.Name)
		}
	}
	if len(back.Updates) != 2 || back.Updates[0].Parameter.Name != "layer/b" || back.Updates[0].Output.Name != "a" ||
		back.Updates[1].Parameter.Name != "layer/w" || back.Updates[1].Output.Name != "y" {
		t.Errorf("updates %v", back.Updates)
	}
	if len(back.Meta) > 1 { // the producer
		t.Errorf("metadata %v", back.Meta)
	}
	var again bytes.Buffer
	if err := Write(&again, back, WriteOptions{}); err != nil || !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Errorf("written, read and written gives another file: %v\n%s", err, irtext.String(back))
	}
}

// TestParameterLists: what a file lists and does not have is a warning, what is not a list is an error.
func TestParameterLists(t *testing.T) {
	meta := func(key, value string) []byte { return msg(14, str(1, key), str(2, value)) }
	for _, c := range []struct {
		file       []byte
		parameters string
		message    string
	}{
		{parametersModel(meta(propParameters, `["layer/w"]`)), "layer/w", ""},
		{parametersModel(meta(propParameters, `["layer/w", "gone"]`)), "layer/w", "lists 1 parameters that it does not have"},
		{parametersModel(meta(propUpdates, `[["gone", "a"]]`)), "", `updates parameter "gone" by output "a"`},
		{parametersModel(meta(propParameters, `["layer/w"]`), meta(propUpdates, `[["layer/w", "gone"]]`)), "layer/w", "does not have both"},
		{parametersModel(meta(propParameters, `{"a": 1}`)), "", `metadata "essmc.parameters": expected a JSON list: found a JSON object`},
		{parametersModel(meta(propUpdates, `[["a"`)), "", `metadata "essmc.updates": expected a JSON list`},
		{parametersModel(meta(propParameters, `["axes"]`), meta(propUpdates, `[["axes", "a"]]`)), "",
			"value axes: has type int64[1], its update a is float[3]"},
	} {
		g, info, err := Parse(c.file, "m.onnx", Options{})
		message := ""
		switch {
		case err != nil:
			message = err.Error()
		case len(info.Warnings) > 0:
			message = info.Warnings[0]
		}
		if names(parametersOf(g)) != c.parameters || !strings.Contains(message, c.message) || c.message == "" && message != "" {
			t.Errorf("parameters %q, message %q; expected %q, %q", names(parametersOf(g)), message, c.parameters, c.message)
		}
	}
}
