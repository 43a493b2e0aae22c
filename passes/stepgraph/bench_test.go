package stepgraph_test

import (
	"context"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// BenchmarkStep runs one step of the SC35 preset, made causal, for one stream.
func BenchmarkStep(b *testing.B) {
	p, err := essm.NewPreset("sc35")
	if err != nil {
		b.Fatal(err)
	}
	c := p.Config
	c.Layer.Bidirectional = false
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
		b.Fatal(err)
	}
	sg, err := stepgraph.Of(g)
	if err != nil {
		b.Fatal(err)
	}
	m, err := runtime.New(sg.Graph, runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	in, out := map[string]tensor.Datum{}, map[string]tensor.Datum{}
	for _, v := range sg.Graph.Inputs {
		shape := []int{}
		for _, d := range v.Shape() {
			n, err := d.Eval(map[string]int64{"B": 1, "L": 1})
			if err != nil {
				b.Fatal(err)
			}
			shape = append(shape, int(n))
		}
		in[v.Name] = tensor.New(v.Elem(), shape...)
	}
	if err := s.RunInto(context.Background(), in, out); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.RunInto(context.Background(), in, out); err != nil {
			b.Fatal(err)
		}
		for _, st := range sg.States {
			in[st.Name], out[st.Next] = out[st.Next], in[st.Name]
		}
	}
}
