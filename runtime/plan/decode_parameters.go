package plan

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/plan/internal/fb"
)

// readParameters makes the constants that the plan lists parameters of the outermost graph, and reads its updates.
// ir.Verify checks the types of updates.
func (d *decoder) readParameters() error {
	n, m := d.p.ParametersLength(), d.p.UpdatesLength()
	if n+m > 0 && d.minor < minorParameters {
		return fmt.Errorf("has parameters, which format version %d.%d does not have", Major, d.minor)
	}
	g := d.graphs[0]
	for i := range n {
		d.watch.Step(1)
		v, err := at("constant", d.constants, uint64(d.p.Parameters(i)))
		if err != nil {
			return fmt.Errorf("parameter %d: %w", i, err)
		}
		if v.Const == nil {
			return fmt.Errorf("parameter %d: constant %d (%s) is listed twice", i, d.p.Parameters(i), v.Name)
		}
		v.Const, v.Init = nil, v.Const
		g.Parameters = append(g.Parameters, v)
	}
	var r fb.Update
	for i := range m {
		d.watch.Step(1)
		d.p.Updates(&r, i)
		p, err := at("parameter", g.Parameters, uint64(r.Parameter()))
		if err != nil {
			return fmt.Errorf("update %d: %w", i, err)
		}
		out, err := at("output", g.Outputs, uint64(r.Output()))
		if err != nil {
			return fmt.Errorf("update %d (%s): %w", i, p.Name, err)
		}
		g.Updates = append(g.Updates, ir.Update{Parameter: p, Output: out})
	}
	return nil
}
