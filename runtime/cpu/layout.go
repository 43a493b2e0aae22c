package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// timeMajor returns the binding with sequences as rows if that pays, and d otherwise.
func (d *binding) timeMajor() *binding {
	n := d.TimeMajor(onRows{})
	if n == d.Binding {
		return d
	}
	p := *d.p
	p.Program = n.Program
	return &binding{n, &p}
}

// onRows is the backend as lowering.RowBackend: the steps on rows that can be parts of regions.
type onRows struct{}

// LeastSteps returns the length of two tiles.
func (onRows) LeastSteps() int { return 2 * record.LargestTile }

// Looks reports whether the step has a windowed operator.
func (onRows) Looks(s *lowering.Step) bool { return record.Of(s).Windowed != nil }

// Takes reports whether there is a row kernel, or a windowed operator that a ring can serve.
func (onRows) Takes(d *lowering.Binding, s *lowering.Step, r *lowering.OnRows, in [][]int, out []int) bool {
	switch r.Kind {
	case lowering.RowsAlone:
		e := record.Of(s).Element
		if e == nil || record.Of(s).Row == nil {
			return false
		}
		mk := e.Row(s)
		return mk != nil && mk(in, out) != nil
	case lowering.RowsWindow:
		if win := windowOf(d, s, r); win != nil && fits(win, in[0]) {
			r.Impl = win
			return true
		}
		return false
	case lowering.RowsShift:
		r.Impl = record.Shifted(r.Shift, in[0][2])
	}
	return true
}

// windowOf returns the windowed operator of a step, moved by r.Shift; nil if there is none for the layout of its input.
func windowOf(d *lowering.Binding, s *lowering.Step, r *lowering.OnRows) *record.WindowedOp {
	mk, kind := record.Of(s).Windowed, &record.Of(s).Record.Windowed
	if mk == nil || kind.Input != r.Input || r.Padded && !kind.Pads {
		return nil
	}
	if rows := d.Program.Fact(s.In[r.Input]).Axis == 1; rows != kind.Rows || rows && len(s.In) != 2 {
		return nil
	}
	win := mk(d)
	if win != nil && r.Shift != 0 {
		for i := range win.Offs {
			win.Offs[i] += r.Shift
		}
	}
	return win
}

// fits reports whether the window reaches no further than a sequence of the given shape is long, its ring can be
// addressed, and a tile does not delay a cancellation for long.
func fits(win *record.WindowedOp, rows []int) bool {
	const farthest = 1 << 30 // places in a ring are 32 bits wide
	reach := win.Back() + win.Ahead()
	return reach <= rows[1] && (reach+record.LargestTile)*rows[2] < farthest &&
		win.Flops*record.SmallestTile <= callFlops
}

// Make sets the kernel of a step on rows.
func (onRows) Make(s *lowering.Step) {
	of, r := record.Of(s), s.Rows
	if r.Transposes() {
		s.Impl = &record.Kinds{Record: record.None}
		return
	}
	k := &record.Kinds{Record: of.Record, Element: of.Element, Shared: of.Shared, Products: of.Products}
	s.Impl = k
	switch r.Kind {
	case lowering.RowsAlone:
		k.Row = k.Element.Row(s)
	case lowering.RowsWindow, lowering.RowsShift:
		k.WindowedOp = r.Impl.(*record.WindowedOp)
	case lowering.RowsCut:
		k.Row, k.Columns = rowColumns(r.From), &record.Columns{From: r.From}
	case lowering.RowsJoin:
		k.Row = rowJoin
	}
}
