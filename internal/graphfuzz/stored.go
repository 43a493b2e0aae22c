package graphfuzz

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// text prints the graph, parses it, and demands the same text and answers.
func (k *check) text() *Finding {
	if !k.way.Text {
		return nil
	}
	first := irtext.String(k.cs.Graph)
	g, err := irtext.Parse([]byte(first), "text", ops.Default, irtext.Options{})
	if err != nil {
		return &Finding{"text", err.Error()}
	}
	if second := irtext.String(g); second != first {
		return &Finding{"text", "the text of the parsed graph is another one:\n" + second}
	}
	got, f := k.answers("text", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.equal("text", got)
}

// plan saves the graph, loads it, and demands the same answers.
func (k *check) plan() *Finding {
	if !k.way.Plan {
		return nil
	}
	var b bytes.Buffer
	if err := plan.Write(&b, k.cs.Graph); err != nil {
		return &Finding{"plan", err.Error()}
	}
	g, err := plan.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), "plan", ops.Default, plan.Limits{})
	if err != nil {
		return &Finding{"plan", err.Error()}
	}
	if a, b := irtext.String(k.cs.Graph), irtext.String(g); a != b {
		return &Finding{"plan", "the graph of the plan is another one:\n" + b}
	}
	got, f := k.answers("plan", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.equal("plan", got)
}

// onnx writes the graph as an ONNX model, reads it, and compares the answers.
func (k *check) onnx() *Finding {
	if !k.way.ONNX || has(k.cs.Graph, "ZipMap") { // reading makes an Identity of it, which takes other sizes, too
		return nil
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, k.cs.Graph, onnx.WriteOptions{}); err != nil {
		k.Coverage.note("ONNX has no form: " + generalized(err))
		return nil
	}
	g, _, err := onnx.Parse(b.Bytes(), "model.onnx", onnx.Options{})
	if err != nil {
		return &Finding{"onnx", err.Error()}
	}
	var c bytes.Buffer
	if err := onnx.Write(&c, g, onnx.WriteOptions{}); err != nil {
		return &Finding{"onnx", "again: " + err.Error()}
	}
	for _, key := range []string{ir.MetaBatch, ir.MetaTime} { // the names of dimensions make none a batch here
		if delete(g.Meta, key); k.cs.Graph.Meta[key] != "" {
			g.Meta[key] = k.cs.Graph.Meta[key]
		}
	}
	got, f := k.answers("onnx", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.judge("onnx", got, nil)
}

// passes optimizes the graph, and compares the answers.
func (k *check) passes() *Finding {
	if !k.way.Passes {
		return nil
	}
	before := irtext.String(k.cs.Graph)
	for _, name := range []string{"optimize", "raise"} {
		var err error
		var g *ir.Graph
		if name == "optimize" {
			g = k.cs.Graph.Clone()
			err = passes.Optimize(g)
		} else {
			var m *open.Model
			if m, err = open.Graph(k.cs.Graph, "graph", open.Options{}); err == nil {
				g, err = m.Graph()
			}
		}
		if err != nil {
			return &Finding{name, err.Error()}
		}
		if err := ir.Verify(g); err != nil {
			return &Finding{name, err.Error()}
		}
		if irtext.String(k.cs.Graph) != before {
			return &Finding{name, "the passes change the graph that was given"}
		}
		if a, b := ports(k.cs.Graph), ports(g); a != b {
			return &Finding{name, fmt.Sprintf("inputs and outputs are %s, were %s", b, a)}
		}
		got, f := k.answers(name, g, runtime.Options{})
		if f != nil {
			f.Msg += "\nafter the passes:\n" + irtext.ViewString(g)
			return f
		}
		if f := k.judge(name, got, nil); f != nil {
			f.Msg += "\nafter the passes:\n" + irtext.ViewString(g)
			return f
		}
	}
	return nil
}

func ports(g *ir.Graph) string {
	var b strings.Builder
	for _, v := range g.Inputs {
		fmt.Fprintf(&b, "%s ", v.Name)
	}
	b.WriteString("=>")
	for _, v := range g.Outputs {
		fmt.Fprintf(&b, " %s", v.Name)
	}
	return b.String()
}

// generalized returns an error without the names of values.
func generalized(err error) string {
	words := strings.Fields(err.Error())
	return strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return strings.ContainsAny(w, "_0123456789\"")
	}), " ")
}
