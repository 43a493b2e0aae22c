package recurrence

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Scan", Takes: takesScan, Build: buildScan})
}

func takesScan(s *lowering.Step) bool {
	return fixed(s, 1, 2, 3, 4) && singles(s, 0, 5)
}

func buildScan(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	first, last := at(s.In, 6), at(s.Out, 2)
	single, ok := stateType(b, first, last)
	window := int(s.Node.Attrs.Int("window", 0))
	forward, backward := directions(s)
	batch, length, n := shape[0], shape[1], shape[2]
	if first == nil && last == nil && window >= length {
		window = 0 // no input leaves the window
	}
	if !ok || !small(batch, length, n, window) || s.Fixed(1).Len() != n {
		return false
	}
	scan := kernel.Scan{ScanForm: kernel.ScanForm{Tile: kernel.ScanTile, Forward: forward, Backward: backward,
		Window: window > 0, ComplexIn: at(s.In, 5) != nil, Re: at(s.Out, 0) != nil, Im: at(s.Out, 1) != nil, State32: single},
		Batch: batch, Length: length, States: n, Lags: window}
	if !small(scan.StateSize(), n*(length+kernel.ScanTile), n*window) {
		return false
	}
	scan.VRe, scan.VIm = b.Buffer(s.In[0]), b.Buffer(at(s.In, 5))
	scan.XRe, scan.XIm = b.Buffer(at(s.Out, 0)), b.Buffer(at(s.Out, 1))
	scan.First, scan.Last = b.Buffer(first), b.Buffer(last)
	scan.Coefficients = b.Derived(fmt.Sprint("coefficients ", window), func() []byte {
		return kernel.ScanCoefficients(pairs(numbers(s, 1), numbers(s, 2)), pairs(numbers(s, 3), numbers(s, 4)), window)
	}, s)
	if length > kernel.ScanTile {
		exponents := kernel.ScanExponents(kernel.ScanTile, length)
		scan.Powers = b.Derived(fmt.Sprint("powers ", exponents), func() []byte {
			return kernel.ScanPowers(pairs(numbers(s, 1), numbers(s, 2)), exponents)
		}, s)
	}
	scan.Scratch = b.Scratch(scan.ScratchBytes())
	scanned(b, noOther)
	b.Launch(scan.Calls()...)
	return true
}
