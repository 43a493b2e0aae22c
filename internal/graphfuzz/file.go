package graphfuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// settings is the section "way" of a file.
type settings struct {
	Way
	Loose bool
}

// Format writes a case as a file: a comment, and the sections
//
//	-- way --     how to run it, a Way as JSON
//	-- graph --   the graph, as irtext
//	-- inputs --  of a run: a graph without inputs, whose outputs they are; there may be several
func Format(c *Case, w Way, comment string) ([]byte, error) {
	way, err := json.Marshal(settings{w, c.Loose})
	if err != nil {
		return nil, err
	}
	a := &txtar.Archive{Comment: []byte(strings.TrimSpace(comment) + "\n")}
	var text strings.Builder
	if err := irtext.Print(&text, c.Graph, irtext.Options{}); err != nil {
		return nil, err
	}
	a.Files = []txtar.File{{Name: "way", Data: append(way, '\n')}, {Name: "graph", Data: []byte(text.String())}}
	for _, in := range c.Runs {
		g := &ir.Graph{Name: "inputs", Opsets: ops.Opsets()}
		for _, name := range names(in) {
			if in[name] != nil {
				g.Outputs = append(g.Outputs, stated(g, name, in[name]))
			}
		}
		var text strings.Builder
		if err := irtext.Print(&text, g, irtext.Options{}); err != nil {
			return nil, err
		}
		a.Files = append(a.Files, txtar.File{Name: "inputs", Data: []byte(text.String())})
	}
	return txtar.Format(a), nil
}

// stated returns a value of g that is d.
func stated(g *ir.Graph, name string, d tensor.Datum) *ir.Value {
	switch d := d.(type) {
	case *tensor.Tensor:
		return ir.NewConst(name, d)
	case *tensor.Optional:
		return stated(g, name, d.Value)
	}
	seq := d.(*tensor.Sequence)
	n := &ir.Node{Op: ops.Default.Resolve("", "SequenceConstruct", g.Opsets[""])}
	for i, x := range seq.Items {
		n.Inputs = append(n.Inputs, stated(g, fmt.Sprintf("%s_%d", name, i), x))
	}
	if len(seq.Items) == 0 {
		n.Op = ops.Default.Resolve("", "SequenceEmpty", g.Opsets[""])
	}
	n.Outputs = []*ir.Value{{Name: name, Def: n}}
	_ = ir.InferNode(n)
	g.Nodes = append(g.Nodes, n)
	return n.Outputs[0]
}

// ParseCase reads a file that Format has written.
func ParseCase(name string, src []byte) (*Case, Way, error) {
	c, w := &Case{}, Way{}
	for _, f := range txtar.Parse(src).Files {
		at := fmt.Sprintf("%s: section %q", name, f.Name)
		var err error
		switch f.Name {
		case "way":
			var s settings
			err = json.Unmarshal(f.Data, &s)
			w, c.Loose = s.Way, s.Loose
		case "graph":
			c.Graph, err = irtext.Parse(f.Data, at, ops.Default, irtext.Options{})
		case "inputs":
			var g *ir.Graph
			if g, err = irtext.Parse(f.Data, at, ops.Default, irtext.Options{}); err != nil {
				break
			}
			p, in := eval.New(eval.Options{}), Data{}
			if err = p.Add(g); err != nil {
				break
			}
			var out []tensor.Datum
			out, err = p.Graph(context.Background(), g, nil, nil, nil, nil)
			for i, d := range out {
				in[g.Outputs[i].Name] = d
			}
			c.Runs = append(c.Runs, in)
		default:
			err = fmt.Errorf("expected one of way, graph, inputs")
		}
		if err != nil {
			return nil, w, fmt.Errorf("%s: %w", at, err)
		}
	}
	if c.Graph == nil || len(c.Runs) == 0 {
		return nil, w, fmt.Errorf("%s: has no graph, or no inputs", name)
	}
	return c, w, nil
}
