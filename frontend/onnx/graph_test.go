package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func TestModel(t *testing.T) {
	b := join(
		model(
			graph(floats(11, "x", "batch", "seq", 4), raw32(5, "w", 4), node("Add", "add", "x,w", "y"),
				floats(12, "y", "batch", "seq", 4), str(10, "doc")),
			str(2, "maker"), str(3, "1.5"), str(4, "org.example"), num(5, 7),
			msg(14, str(1, "author"), str(2, "a\x00b")), msg(20, num(1, 1)),
		))
	g, info := parse(t, b)
	hasNodes(t, g, "|Add|x,w|y")
	if g.Doc != "doc" || g.Meta["author"] != "a\x00b" || g.Meta[MetaProducer] != "maker 1.5" ||
		g.Meta[MetaDomain] != "org.example" ||
		g.Meta[ir.MetaTime] != "seq" || g.Meta[ir.MetaBatch] != "batch" || g.Opsets[""] != 20 {
		t.Errorf("graph is %v %v %q", g.Meta, g.Opsets, g.Doc)
	}
	if info.IRVersion != 10 || info.ModelVersion != 7 || len(info.Notes) != 1 ||
		!slices.Equal(info.Domains, []string{""}) ||
		!slices.Contains(info.Dynamic, DynamicAxis{"x", 1, "seq"}) || len(info.Dynamic) != 4 {
		t.Errorf("info is %+v", info)
	}
	h, _, err := Read(bytes.NewReader(b), int64(len(b)), "m.onnx", Options{})
	if err != nil || text(h) != text(g) {
		t.Errorf("read from a file: %v\n%s", err, text(h))
	}
}

// TestReadThroughWindow checks that a window smaller than the file makes no difference.
func TestReadThroughWindow(t *testing.T) {
	parts := [][]byte{floats(11, "v0", 2)}
	for i := range 4000 {
		from, to := fmt.Sprint("v", i), fmt.Sprint("v", i+1)
		parts = append(parts, node("Relu", strings.Repeat("n", i%50), from, to), floats(13, to, 2))
	}
	ints := make([]int64, 100_000)
	for i := range ints {
		ints[i] = int64(i) << (i % 40)
	}
	parts = append(parts, msg(5, packed(1, int64(len(ints))), num(2, 7), str(8, "big"), packed(7, ints...)),
		node("Abs", "", "big", "z"), value(12, "z", tensorType(7, len(ints))), floats(12, "v4000", 2))
	b := model(graph(parts...))
	if len(b) < 4*windowSize {
		t.Fatalf("only %d bytes", len(b))
	}
	g, _ := parse(t, b)
	h, _, err := Read(bytes.NewReader(b), int64(len(b)), "m.onnx", Options{})
	if err != nil || text(g) != text(h) || !slices.Equal(tensor.Data[int64](h.Constants()[0].Const), ints) {
		t.Errorf("read through the window: %v", err)
	}
}

func TestNodesAreSorted(t *testing.T) {
	g, _ := parse(t, model(graph(floats(11, "x", 2), node("Neg", "c", "b", "y"), node("Exp", "b", "a", "b"),
		node("Abs", "a", "x", "a"), floats(12, "y", 2))))
	hasNodes(t, g, "|Abs|x|a", "|Exp|a|b", "|Neg|b|y")
	// A subgraph's captures count as inputs of its node.
	g, _ = parse(t, model(graph(value(11, "c", tensorType(9)), floats(11, "x", 2),
		node("If", "", "c", "y", graphAttr("then_branch", node("Neg", "", "a", "t"), floats(12, "t", 2)),
			graphAttr("else_branch", node("Exp", "", "a", "e"), floats(12, "e", 2))),
		node("Abs", "a", "x", "a"), floats(12, "y", 2))))
	hasNodes(t, g, "|Abs|x|a", "|If|c|y", "|Exp|a|e", "|Neg|a|t")
}

// TestNamesInSubgraphs checks that names which recur in other graphs become unique, as package ir requires.
func TestNamesInSubgraphs(t *testing.T) {
	branch := func(attr, op string) []byte {
		return graphAttr(attr, raw32(5, "k", 2), node(op, "", "x,k", "t"), node("Abs", "", "t", "y"),
			floats(12, "y", 2))
	}
	g, _ := parse(t, model(graph(value(11, "c", tensorType(9)), floats(11, "x", 2),
		node("If", "", "c", "y", branch("then_branch", "Add"), branch("else_branch", "Mul")), floats(12, "y", 2))))
	hasNodes(t, g, "|If|c|y", "|Mul|x,k_1|t_1", "|Abs|t_1|y_2", "|Add|x,k|t", "|Abs|t|y_1")
}

// TestMissingTypes checks that the bodies of loops may omit the types of their inputs.
func TestMissingTypes(t *testing.T) {
	body := graphAttr("body", msg(11, str(1, "i")), msg(11, str(1, "c")), msg(11, str(1, "s")),
		node("Add", "", "s,s", "s2"), node("Identity", "", "c", "c2"), msg(12, str(1, "c2")), msg(12, str(1, "s2")))
	g, _ := parse(t, model(graph(floats(11, "x", 2), value(11, "n", tensorType(7)), node("Loop", "", "n,,x", "y", body),
		msg(12, str(1, "y")))))
	if got := g.Outputs[0].Elem(); got != tensor.Float32 {
		t.Errorf("y is of %v", got)
	}
	refused(t, model(graph(msg(11, str(1, "x")), msg(12, str(1, "x")))), Options{}, `input "x" has no type`)
}

func TestInitializersThatAreInputs(t *testing.T) {
	g, info := parse(t, model(graph(floats(11, "x", 2), floats(11, "w", 2), raw32(5, "w", 2),
		node("Add", "", "x,w", "y"), floats(12, "y", 2))))
	if len(g.Inputs) != 1 || !slices.Equal(info.Defaults, []string{"w"}) {
		t.Errorf("inputs %v, defaults %v", g.Inputs, info.Defaults)
	}
	refused(t, model(graph(floats(11, "w", 3), raw32(5, "w", 2), node("Abs", "", "w", "y"), floats(12, "y", 2))),
		Options{}, `input "w": has type float[3], but its initializer has type float[2]`)
}

func TestConstants(t *testing.T) {
	attr := func(name string, typ int64, parts ...[]byte) []byte {
		return node("Constant", "k", "", "y", msg(5, append([][]byte{str(1, name), num(20, typ)}, parts...)...))
	}
	for want, n := range map[string][]byte{
		"float":     attr("value_float", 1, f32(2, 2)),
		"float[2]":  attr("value_floats", 6, f32(7, 1), f32(7, 2)),
		"int64":     attr("value_int", 2, num(3, -3)),
		"int64[3]":  attr("value_ints", 7, packed(8, 1, 2, 3)),
		"string":    attr("value_string", 3, str(4, "s")),
		"string[2]": attr("value_strings", 8, str(9, "s"), str(9, "")),
		"float[3]":  attr("value", 4, raw32(5, "", 3)),
		"float[4]": attr("sparse_value", 11, msg(22, raw32(1, "", 1), msg(2, packed(1, 1), num(2, 7), packed(7, 2)),
			packed(3, 4))),
	} {
		g, _ := parse(t, model(graph(n, msg(12, str(1, "y")))))
		if v := g.Outputs[0]; v.Const == nil || v.Type.String() != want || v.Name != "y" {
			t.Errorf("constant %s %v, expected %s", v.Const, v.Type, want)
		}
	}
	refused(t, model(graph(attr("value_int", 1, f32(2, 2)), msg(12, str(1, "y")))), Options{},
		`attribute "value_int" of kind float`)
	refused(t, model(graph(node("Constant", "k", "", "y"), msg(12, str(1, "y")))), Options{},
		"expected exactly one attribute")
}

func TestDimensions(t *testing.T) {
	dims := []any{"N", "seq len", "2*N", "2*M", "7", "max", "a-b", "seq_len", "?", "é", strings.Repeat("x", 100)}
	g, _ := parse(t, model(graph(floats(11, "x", dims...), node("Abs", "", "x", "y"), msg(12, str(1, "y")))))
	want := []string{"N", "seq_len", "2*N", "_2_M", "_7", "max", "a_b", "seq_len_1", "?", "__", strings.Repeat("x", 64)}
	for i, d := range g.Inputs[0].Shape() {
		if d.String() != want[i] {
			t.Errorf("dimension %q is %v, expected %s", dims[i], d, want[i])
		}
		if d.IsUnknown() {
			continue
		}
		if e, err := ir.ParseDim(d.String()); err != nil || !e.Equal(d) {
			t.Errorf("%v is read back as %v, %v", d, e, err)
		}
		s, ok := d.Symbol()
		if ok && s != dims[i] && g.Meta[MetaDim+s] != dims[i] {
			t.Errorf("%s%s is %q, expected %q", MetaDim, s, g.Meta[MetaDim+s], dims[i])
		}
	}
}

// TestMinusOne checks that a dimension of -1 is open in types, with one note for each input and output.
func TestMinusOne(t *testing.T) {
	g, info := parse(t, model(graph(floats(11, "x", -1, 3), node("Abs", "", "x", "y"),
		value(13, "y", tensorType(1, -1, 3)), floats(12, "y", -1, 3))))
	if s := fmt.Sprint(g.Inputs[0].Type,
		info.Notes); s != "float[?,3] [input x: dimension -1 read as open output y: dimension -1 read as open]" {
		t.Errorf("found %s", s)
	}
	_, info = parse(t, model(graph(floats(11, "x", "?", 3), node("Abs", "", "x", "y"), floats(12, "y", 0, 3))))
	if len(info.Notes) != 0 {
		t.Errorf("notes %q", info.Notes)
	}
	refused(t, model(graph(msg(5, packed(1, -1), num(2, 1), str(8, "w")), node("Abs", "", "w", "y"),
		floats(12, "y", -1))), Options{}, `tensor "w": dimension 0 is -1`)
}

func TestStatedTypes(t *testing.T) {
	in := floats(11, "x", "N", 4)
	_, info := parse(t, model(graph(in, node("Abs", "a", "x", "y"), floats(12, "y", "N", 5), msg(12, str(1, "x"),
		msg(2, tensorType(1, 3))))))
	if want := []string{
		`node "a" (Abs): value "y": the file states type float[N,5], the operator has type float[N,4], which counts`,
		`output "x": the file states type float[3], found float[N,4], which counts`}; !slices.Equal(info.Warnings, want) {
		t.Errorf("warnings %q", info.Warnings)
	}
	refused(t, model(graph(in, node("Abs", "a", "x", "h"), node("Abs", "b", "h", "y"), value(13, "h", tensorType(7)),
		floats(12, "y", "N", 4))), Options{}, `value "h": the file states type int64`)
	refused(t, model(graph(in, msg(12, str(1, "x"), msg(2, tensorType(7, 3))))), Options{},
		`output "x": the file states type int64[3]`)
	// Types that cannot be inferred are taken from the file if all sizes are fixed.
	g, _ := parse(t, model(graph(floats(11, "x", 6), value(11, "s", tensorType(7, 2)), node("Reshape", "", "x,s", "y"),
		floats(12, "y", 2, 3))))
	if got := g.Outputs[0].Type.String(); got != "float[2,3]" {
		t.Errorf("y is %s", got)
	}
	g, _ = parse(t, model(graph(floats(11, "x", "N"), value(11, "s", tensorType(7, 2)), node("Reshape", "", "x,s", "y"),
		floats(12, "y", 2, 3))))
	if got := g.Outputs[0].Type.String(); got != "float[?,?]" {
		t.Errorf("y is %s", got)
	}
}

func TestUnsupported(t *testing.T) {
	b := model(opset("com.x", 1), graph(floats(11, "x", 2), node("com.x:Foo", "a", "x", "p"),
		node("com.x:Foo", "b", "p", "q"), node("Nope", "", "q", "r"), node("com.y:Bar", "c", "r", "y"),
		floats(12, "y", 2)))
	refused(t, b, Options{},
		`m.onnx: 3 operators are not supported: Nope (domain ai.onnx, version 20) at node "r"; Foo (domain com.x, version 1) at node "a", "b"; Bar (domain com.y, which the model does not import) at node "c"`)
	_, info, err := Parse(b, "m.onnx", Options{})
	var u *UnsupportedError
	if !errors.As(err, &u) || len(u.Operators) != 3 || info == nil || info.Opsets["com.x"] != 1 {
		t.Errorf("error %v, info %v", err, info)
	}
}

func TestFunctions(t *testing.T) {
	// outer(p; k=0.5) = Neg(inner(p)), inner(p; a) = LeakyRelu(p, alpha=a) of default 0.25
	inner := function("inner", "p", "q", msg(11, str(1, "a"), num(20, 1), f32(2, 0.25)),
		nodeIn(7, "LeakyRelu", "act", "p", "q", refAttr("alpha", "a", 1)))
	outer := function("outer", "p", "q", str(6, "k"), nodeIn(7, "local:inner", "", "p", "h", refAttr("a", "k", 1)),
		nodeIn(7, "Neg", "", "h", "q"))
	call := func(attrs ...[]byte) *ir.Graph {
		g, info := parse(t, model(inner, outer, graph(floats(11, "x", 2),
			node("local:outer", "one", "x", "h", attrs...), node("local:outer", "two", "h", "y"), floats(12, "y", 2))))
		if !slices.Equal(info.Functions, []string{"local.inner", "local.outer"}) {
			t.Errorf("functions %v", info.Functions)
		}
		return g
	}
	g := call(floatAttr("k", 0.5))
	hasNodes(t, g, "one.inner|LeakyRelu|x|one/h", "one|Neg|one/h|h", "two.inner|LeakyRelu|h|two/h", "two|Neg|two/h|y")
	if a, b := g.Nodes[0].Attrs.Float("alpha", 0), g.Nodes[2].Attrs.Float("alpha", 0); a != 0.5 || b != 0.25 {
		t.Errorf("alpha is %v and %v", a, b)
	}
	refused(t, model(inner, graph(floats(11, "x", 2), node("local:inner", "n", "x", "y", floatAttr("b", 1)),
		floats(12, "y", 2))), Options{}, `has no attribute "b"`)
	refused(t, model(inner, graph(floats(11, "x", 2), node("local:inner", "n", "x,x", "y"), floats(12, "y", 2))),
		Options{}, "called with 2 inputs")
	refused(t, model(graph(floats(11, "x", 2), node("LeakyRelu", "n", "x", "y", refAttr("alpha", "a", 1)),
		floats(12, "y", 2))), Options{}, "is not in one")
}

func TestFunctionOverloads(t *testing.T) {
	f := func(overload, op string) []byte {
		return function("f", "p", "q", str(13, overload), nodeIn(7, op, "", "p", "q"))
	}
	call := func(overload, in, out string) []byte {
		return msg(1, str(1, in), str(2, out), str(4, "f"), str(7, "local"), str(8, overload))
	}
	g, _ := parse(t, model(f("", "Abs"), f("v2", "Neg"),
		graph(floats(11, "x", 2), call("v2", "x", "h"), call("", "h", "y"), floats(12, "y", 2))))
	hasNodes(t, g, "f|Neg|x|h", "f|Abs|h|y")
	refused(t, model(f("", "Abs"), f("", "Neg"), graph()), Options{}, "two functions are named")
}

// TestFunctionPassesOn checks that an output of the model keeps its name if a function passes its input on.
func TestFunctionPassesOn(t *testing.T) {
	f := function("f", "p,o", "p,k", nodeIn(7, "Constant", "", "", "k", intAttr("value_int", 3)))
	g, _ := parse(t, model(f, graph(floats(11, "x", 2), node("local:f", "", "x", "y,z"), floats(12, "y", 2),
		value(12, "z", tensorType(7)))))
	hasNodes(t, g, "|Identity|x|y")
	if g.Outputs[1].Name != "z" || g.Outputs[1].Const == nil {
		t.Errorf("z is %+v", g.Outputs[1])
	}
}

// TestFunctionsAndGraphs checks that a graph in a function's body sees the function's values, and a graph that the call
// passes sees the caller's.
func TestFunctionsAndGraphs(t *testing.T) {
	branch := func(attr, op, in string) []byte {
		return graphAttr(attr, node(op, "", in, "t"), floats(12, "t", 2))
	}
	f := function("f", "c,p", "q", str(6, "other"),
		nodeIn(7, "If", "", "c", "q", branch("then_branch", "Neg", "p"), refAttr("else_branch", "other", 5)))
	g, _ := parse(t, model(f, graph(value(11, "c", tensorType(9)), floats(11, "x", 2), node("Abs", "", "x", "h"),
		node("local:f", "call", "c,h", "y", branch("other", "Exp", "x")), floats(12, "y", 2))))
	hasNodes(t, g, "|Abs|x|h", "call|If|c|y", "|Exp|x|t_1", "call|Neg|h|t")
	hidden := function("f", "p", "q", nodeIn(7, "Neg", "", "x", "q"))
	refused(t, model(hidden, graph(floats(11, "x", 2), node("local:f", "", "x", "y"), floats(12, "y", 2))), Options{},
		`input 0, "x", is not defined`)
}

func TestFunctionOpsets(t *testing.T) {
	f := msg(25, str(1, "f"), str(4, "p"), str(5, "q"), str(10, "local"), msg(9, num(2, 6)),
		nodeIn(7, "Softmax", "", "p", "q"))
	refused(t, model(f, graph(floats(11, "x", 2, 2, 2), node("local:f", "", "x", "y"), floats(12, "y", 2, 2, 2))),
		Options{}, "a function uses version 6")
}

// TestNewerOperatorSet checks that a file of a later operator set is read as one of the newest known, with a warning, and
// that operators and attributes of later ones are errors.
func TestNewerOperatorSet(t *testing.T) {
	x, y := floats(11, "x", 2), floats(12, "y", 2)
	newer := func(n []byte) []byte { return join(num(1, 10), opset("", MaxOpset+5), graph(x, n, y)) }
	g, info := parse(t, newer(node("Abs", "a", "x", "y")))
	want := fmt.Sprintf("operator set %d of ai.onnx is newer than %d, the newest known one, and is read as that one",
		MaxOpset+5, MaxOpset)
	if !slices.Equal(info.Warnings, []string{want}) || info.Opsets[""] != MaxOpset+5 || g.Opsets[""] != MaxOpset {
		t.Errorf("warnings %q, operator sets %v of the file and %v of the graph", info.Warnings, info.Opsets, g.Opsets)
	}
	refused(t, newer(node("Absolute", "a", "x", "y")), Options{},
		fmt.Sprintf("1 operator is not supported: Absolute (domain ai.onnx, version %d)", MaxOpset+5))
	refused(t, newer(node("Abs", "a", "x", "y", msg(5, str(1, "base"), num(20, 2), num(3, 2)))), Options{}, "base")
	if _, info = parse(t, join(num(1, 10), opset("", MaxOpset), graph(x, node("Abs", "a", "x", "y"), y))); info.Warnings != nil {
		t.Errorf("warnings %q", info.Warnings)
	}
}

func TestRefusedGraphs(t *testing.T) {
	x, y := floats(11, "x", 2), floats(12, "y", 2)
	abs := node("Abs", "a", "x", "y")
	for want, b := range map[string][]byte{
		"no graph":               model(),
		"IR version 0":           join(opset("", 20), graph(x, abs, y)),
		`version 0 of domain ""`: join(num(1, 10), opset("", 0), graph(x, abs, y)),
		`domain "" is imported in versions 20 and 19`:  model(opset("ai.onnx", 19), graph(x, abs, y)),
		`value "y" is defined twice`:                   model(graph(x, abs, node("Neg", "b", "x", "y"), y)),
		`value "x" is defined twice`:                   model(graph(x, node("Neg", "b", "x", "x"), y)),
		`two initializers are named "w"`:               model(graph(x, raw32(5, "w", 1), raw32(5, "w", 1), abs, y)),
		`two inputs are named "x"`:                     model(graph(x, x, abs, y)),
		`output "y" is listed twice`:                   model(graph(x, abs, y, y)),
		`output "z" is not defined`:                    model(graph(x, abs, floats(12, "z", 2))),
		`node "a" (Abs): input 0, "u", is not defined`: model(graph(x, node("Abs", "a", "u", "y"), y)),
		`node "a" (Add) depends on itself`: model(graph(x, node("Add", "a", "x,h", "y"),
			node("Neg", "b", "y", "h"), y)),
		`function "local.f" calls itself`: model(function("f", "p", "q",
			nodeIn(7, "local:g", "", "p", "q")), function("g", "p", "q", nodeIn(7, "local:f", "", "p", "q")),
			graph(x, node("local:f", "", "x", "y"), y)),
		`two attributes are named "k"`: model(graph(x,
			node("Abs", "a", "x", "y", intAttr("k", 1), intAttr("k", 2)), y)),
		`operator Abs has no attribute "k"`: model(graph(x, node("Abs", "a", "x", "y", intAttr("k", 1)),
			y)),
		`input "x": dimension 0 is -2`:        model(graph(floats(11, "x", -2), abs, y)),
		`is too large`:                        model(graph(floats(11, "x", int64(1<<62)), abs, y)),
		`input "x": unknown element type 99`:  model(graph(value(11, "x", tensorType(99, 2)), abs, y)),
		`expected a map from int64 or string`: model(graph(value(11, "x", msg(5)), abs, y)),
		`node "a" (If): attribute "then_branch": has type`: model(graph(x,
			node("If", "a", "x", "y", msg(5, str(1, "then_branch"), num(20, 99))), y)),
	} {
		want = strings.TrimSuffix(want, ` has type`)
		refused(t, b, Options{}, want)
	}
}

func TestBudget(t *testing.T) {
	b := model(graph(floats(11, "x", 2), node("Abs", "", "x", "h", intAttr("k", 1)), node("Abs", "", "h", "y"),
		floats(12, "y", 2)))
	for want, budget := range map[string]Budget{
		"more than 10":                  {Bytes: 10},
		"more than 1 nodes":             {Nodes: 1},
		"more than 1 values":            {Values: 1},
		`operator Abs has no attribute`: {},
	} {
		refused(t, b, Options{Budget: budget}, want)
	}
}

// TestPorts checks the limit of inputs and outputs, whose error names the node, though its name is behind them.
func TestPorts(t *testing.T) {
	b := model(graph(floats(11, "x", 4), node("Sum", "wide", "x,x,x", "s"), node("Split", "", "s", "a,b,c,d", intAttr("num_outputs", 4)),
		floats(12, "a", 1)))
	refused(t, b, Options{Budget: Budget{Ports: 2}}, `node "wide" (Sum): expected at most 2 inputs, found 3`)
	refused(t, b, Options{Budget: Budget{Ports: 3}}, `node of output "a" (Split): expected at most 3 outputs, found 4`)
	if _, _, err := Parse(b, "m", Options{Budget: Budget{Ports: 4}}); err != nil {
		t.Error(err)
	}
	many := func(n int) []byte { // with the default
		return model(graph(floats(11, "x", 4), node("Sum", "wide", strings.Repeat("x,", n-1)+"x", "s"), floats(12, "s", 4)))
	}
	if _, _, err := Parse(many(1<<16), "m", Options{}); err != nil {
		t.Error(err)
	}
	refused(t, many(1<<16+1), Options{}, "expected at most 65536 inputs, found 65537")
}

func TestLegacy(t *testing.T) {
	// IR version 1 had neither imports nor types of attributes.
	g, _ := parse(t, join(num(1, 1), graph(floats(11, "x", 2, 2),
		node("Flatten", "", "x", "y", msg(5, str(1, "axis"), num(3, 1))), floats(12, "y", 2, 2))))
	if !maps.Equal(g.Opsets, map[string]int{"": 1}) || !reflect.DeepEqual(g.Nodes[0].Attrs.Get("axis"), int64(1)) {
		t.Errorf("opsets %v, node %v", g.Opsets, g.Nodes[0].Attrs)
	}
}

// TestZipMap checks that maps are tensors, that the labels of those that are outputs are kept, and that they are written
// and read again.
func TestZipMap(t *testing.T) {
	maps := msg(2, msg(4, msg(1, msg(5, num(1, 7), msg(2, tensorType(1))))))
	labels := msg(5, str(1, "classlabels_int64s"), num(20, 7), packed(8, 3, 7))
	file := join(num(1, 10), opset("", 20), opset("ai.onnx.ml", 1), graph(floats(11, "x", "N", 2),
		nodeIn(1, "ai.onnx.ml:ZipMap", "zip", "x", "y", labels), msg(12, str(1, "y"), maps)))
	g, _ := parse(t, file)
	if got := g.Outputs[0].Type.String(); got != "float[N,2]" || g.Meta[ir.MetaKeys+"y"] != "[3,7]" ||
		g.Meta[ir.MetaLabels] != `["3","7"]` {
		t.Errorf("type %s, keys %q", got, g.Meta[ir.MetaKeys+"y"])
	}
	refused(t, join(num(1, 10), opset("", 20), opset("ai.onnx.ml", 1), graph(floats(11, "x", "N", 3),
		nodeIn(1, "ai.onnx.ml:ZipMap", "zip", "x", "y", labels), msg(12, str(1, "y"), maps))), Options{},
		"expected a column for each of 2 labels")
	refused(t, join(num(1, 10), opset("", 20), opset("ai.onnx.ml", 1), graph(floats(11, "x", "N", 3),
		nodeIn(1, "ai.onnx.ml:ZipMap", "zip", "x", "y"), msg(12, str(1, "y"), maps))), Options{},
		"either classlabels_int64s or classlabels_strings")
}
