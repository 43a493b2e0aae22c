package main

import (
	"errors"
	"log/slog"
	goruntime "runtime"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// workingMemory returns the bytes that the cpu backend plans for a run of the graph with these dimensions and all
// optional inputs. Because of the limit of one byte, the backend returns the required memory and allocates nothing.
func workingMemory(g *ir.Graph, dims map[string]int64, options []cpu.Option) (int64, error) {
	p, err := cpu.New(options...).Compile(g, runtime.Config{Threads: goruntime.GOMAXPROCS(0), MaxMemory: 1,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	with := map[string]ir.Dim{}
	for name, n := range dims {
		with[name] = ir.Const(n)
	}
	b := runtime.Binding{Dims: dims}
	for _, v := range g.Inputs {
		t, ok := v.TensorType()
		if !ok {
			b.Inputs = append(b.Inputs, v.Type)
			continue
		}
		fixed := &ir.TensorType{Elem: t.Elem, Shape: make(ir.Shape, len(t.Shape)), NoRank: t.NoRank}
		for i, d := range t.Shape {
			fixed.Shape[i] = d.Subst(with)
		}
		b.Inputs = append(b.Inputs, fixed)
	}
	e, err := p.Bind(b)
	var over *runtime.MemoryError
	switch {
	case errors.As(err, &over):
		return over.Need, nil
	case err != nil:
		return 0, err
	}
	defer e.Close()
	return e.ArenaBytes(), nil
}
