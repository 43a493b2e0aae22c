package command

import (
	"errors"
	"log/slog"
	goruntime "runtime"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// workingMemory returns the bytes that the cpu backend plans for a run of the graph with these dimensions and all
// optional inputs. With a limit of one byte, the backend returns the required memory and allocates next to nothing. If
// the refusal is not that of the whole plan, since the graph has loops or large tables, the plan is made.
func workingMemory(g *ir.Graph, dims map[string]int64, options []cpu.Option) (int64, error) {
	n, err := plannedMemory(g, dims, 1, options)
	var over *runtime.MemoryError
	if errors.As(err, &over) && over.What != "the plan of graph "+g.Name {
		n, err = plannedMemory(g, dims, 0, options)
	}
	if errors.As(err, &over) {
		return over.Need, nil
	}
	return n, err
}

// plannedMemory returns the bytes of an executable within a limit.
func plannedMemory(g *ir.Graph, dims map[string]int64, limit int64, options []cpu.Option) (int64, error) {
	return planned(g, dims, limit, options, slog.DiscardHandler)
}

// planned is plannedMemory with a handler of warnings.
func planned(g *ir.Graph, dims map[string]int64, limit int64, options []cpu.Option, to slog.Handler) (int64, error) {
	p, err := cpu.New(options...).Compile(g, runtime.Config{Threads: goruntime.GOMAXPROCS(0), MaxMemory: limit,
		Logger: slog.New(to)})
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
	if err != nil {
		return 0, err
	}
	defer e.Close()
	if r, ok := e.(runtime.Refusing); ok && r.Refusal() != nil {
		return 0, r.Refusal()
	}
	return e.ArenaBytes(), nil
}
