package onnx

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
)

// The functions below write protobuf messages field by field, valid and invalid ones.

func num(f protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.VarintType), uint64(v))
}

func msg(f protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), bytes.Join(parts, nil))
}

func str(f protowire.Number, s string) []byte { return msg(f, []byte(s)) }

func strs(f protowire.Number, names string) []byte {
	var out []byte
	for _, s := range strings.Split(names, ",") {
		if names != "" {
			out = append(out, str(f, s)...)
		}
	}
	return out
}

func f32(f protowire.Number, v float32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(nil, f, protowire.Fixed32Type), math.Float32bits(v))
}

func packed(f protowire.Number, v ...int64) []byte {
	var b []byte
	for _, x := range v {
		b = protowire.AppendVarint(b, uint64(x))
	}
	return msg(f, b)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// tensorType returns a TypeProto. dims are numbers, names, or "?" for neither.
func tensorType(elem int64, dims ...any) []byte {
	var shape []byte
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			shape = append(shape, msg(1, num(1, int64(d)))...)
		case int64:
			shape = append(shape, msg(1, num(1, d))...)
		case string:
			if d == "?" {
				shape = append(shape, msg(1)...)
			} else {
				shape = append(shape, msg(1, str(2, d))...)
			}
		}
	}
	return msg(1, num(1, elem), msg(2, shape))
}

func value(f protowire.Number, name string, typ []byte) []byte {
	return msg(f, str(1, name), msg(2, typ))
}

func floats(f protowire.Number, name string, dims ...any) []byte {
	return value(f, name, tensorType(1, dims...))
}

// nodeIn returns a NodeProto in a graph or, with field 7, in a function. op may be "domain:Op".
func nodeIn(f protowire.Number, op, name, inputs, outputs string, attrs ...[]byte) []byte {
	domain := ""
	if i := strings.Index(op, ":"); i >= 0 {
		domain, op = op[:i], op[i+1:]
	}
	parts := [][]byte{strs(1, inputs), strs(2, outputs), str(3, name), str(4, op), str(7, domain)}
	return msg(f, append(parts, attrs...)...)
}

func node(op, name, inputs, outputs string, attrs ...[]byte) []byte {
	return nodeIn(1, op, name, inputs, outputs, attrs...)
}

func intAttr(name string, v int64) []byte { return msg(5, str(1, name), num(20, 2), num(3, v)) }

func floatAttr(name string, v float32) []byte { return msg(5, str(1, name), num(20, 1), f32(2, v)) }

func graphAttr(name string, parts ...[]byte) []byte {
	return msg(5, str(1, name), num(20, 5), msg(6, parts...))
}

func refAttr(name, ref string, typ int64) []byte {
	return msg(5, str(1, name), str(21, ref), num(20, typ))
}

// raw32 returns a tensor of float32 zeros.
func raw32(f protowire.Number, name string, dims ...int64) []byte {
	n := int64(4)
	for _, d := range dims {
		n *= d
	}
	return msg(f, packed(1, dims...), num(2, 1), str(8, name), msg(9, make([]byte, n)))
}

func graph(parts ...[]byte) []byte { return msg(7, append([][]byte{str(2, "g")}, parts...)...) }

func opset(domain string, v int64) []byte { return msg(8, str(1, domain), num(2, v)) }

// model returns a ModelProto that imports ai.onnx 20 and, for functions, "local" 1.
func model(parts ...[]byte) []byte {
	return join(append([][]byte{num(1, 10), opset("", 20), opset("local", 1)}, parts...)...)
}

// function returns a FunctionProto of domain local.
func function(name, inputs, outputs string, parts ...[]byte) []byte {
	head := [][]byte{str(1, name), strs(4, inputs), strs(5, outputs), str(10, "local"), msg(9, str(1, ""), num(2, 20)),
		msg(9, str(1, "local"), num(2, 1))}
	return msg(25, append(head, parts...)...)
}

func parse(t testing.TB, b []byte) (*ir.Graph, *Info) {
	t.Helper()
	g, info, err := read(memory(b), "m.onnx", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g, info
}

func refused(t testing.TB, b []byte, o Options, want string) {
	t.Helper()
	g, _, err := read(memory(b), "m.onnx", o)
	if err == nil {
		t.Errorf("read, expected an error with %q:\n%s", want, text(g))
		return
	}
	if !strings.HasPrefix(err.Error(), "m.onnx: ") || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("expected one line of m.onnx with %q, found %v", want, err)
	}
}

func text(g *ir.Graph) string {
	var b strings.Builder
	if err := irtext.Print(&b, g, irtext.Options{}); err != nil {
		return err.Error()
	}
	return b.String()
}

// hasNodes checks operator, scope, inputs and outputs of all nodes.
func hasNodes(t *testing.T, g *ir.Graph, want ...string) {
	t.Helper()
	var got []string
	names := func(vs []*ir.Value) string {
		var s []string
		for _, v := range vs {
			if v == nil {
				s = append(s, "")
			} else {
				s = append(s, v.Name)
			}
		}
		return strings.Join(s, ",")
	}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		got = append(got, n.Scope+"|"+n.Op.Name+"|"+names(n.Inputs)+"|"+names(n.Outputs))
		return nil
	})
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("nodes are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
