package onnx

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
)

// TestLongNames reads models whose names are as long as permitted. Their text is read back, before and after names are
// lengthened by numbers and calls. Longer names are refused.
func TestLongNames(t *testing.T) {
	long := func(end string) string { return strings.Repeat(`a/b "c"\d`, maxName)[:maxName-len(end)] + end }
	call := func(parts ...[]byte) []byte { return msg(1, parts...) }
	branch := func(attr string) []byte {
		return graphAttr(attr, node("Abs", "", "x", "t"), nodeOf(long("same"), "Neg", "t"),
			floats(12, long("same"), 2))
	}
	for what, b := range map[string][]byte{
		"values": model(graph(floats(11, long("x"), 2), call(str(1, long("x")), str(2, long("y")), str(3, long("n")),
			str(4, "Abs")), floats(12, long("y"), 2))),
		"subgraphs": model(graph(value(11, "c", tensorType(9)), floats(11, "x", 2),
			node("If", "", "c", "y", branch("then_branch"), branch("else_branch")), floats(12, "y", 2))),
		"graph":   model(msg(7, str(2, long("g")), floats(11, "x", 2), node("Abs", "", "x", "y"), floats(12, "y", 2))),
		"symbols": model(graph(floats(11, "x", long("L")), node("Abs", "", "x", "y"), floats(12, "y", long("L")))),
		"calls": model(function("F", "a", "b", nodeIn(7, "Abs", "", "a", "t"), nodeIn(7, "Neg", "", "t", "b")),
			graph(floats(11, "x", 2), call(str(1, "x"), str(2, "y"), str(3, long("n")), str(4, "F"), str(7, "local")),
				floats(12, "y", 2))),
	} {
		g, _ := parse(t, b)
		text := irtext.String(g)
		h, err := irtext.Parse([]byte(text), "text", ops.Default, irtext.Options{})
		if err != nil {
			t.Errorf("%s: %.300v", what, err)
		} else if again := irtext.String(h); again != text {
			t.Errorf("%s: the text that was read back is another", what)
		}
	}
	inner := nodeIn(7, "local:F", strings.Repeat("n", 30<<10), "a", "b")
	deep := model(function("F", "a", "b", nodeIn(7, "Abs", "", "a", "t"), nodeIn(7, "Neg", "", "t", "b")),
		function("G", "a", "b", inner), graph(floats(11, "x", 2),
			call(str(1, "x"), str(2, "y"), str(3, strings.Repeat("n", 30<<10)), str(4, "G"), str(7, "local")),
			floats(12, "y", 2)))
	refused(t, deep, Options{}, "the names of the calls around it have 61441 bytes, more than 49152")
	refused(t, model(function("F", "a", "b", nodeIn(7, "Abs", "", "a", strings.Repeat("t", 30<<10)),
		nodeIn(7, "Neg", "", strings.Repeat("t", 30<<10), "b")), graph(floats(11, "x", 2), call(str(1, "x"), str(2, "y"),
		str(3, strings.Repeat("n", 30<<10)), str(4, "F"), str(7, "local")), floats(12, "y", 2))), Options{},
		"the name of a value, with those of the functions around it, has 61441 bytes, more than 49152")
}

// nodeOf is a node without a name, one of whose outputs has a name that may hold commas.
func nodeOf(output, op, inputs string) []byte {
	return msg(1, strs(1, inputs), str(2, output), str(4, op))
}
