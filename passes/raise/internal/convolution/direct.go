package convolution

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// directResponse returns the response of a region that is one Conv with constant weights, on tensors (batch, channels,
// time), in the form that probe returns: the taps are the weights. It returns nil for other regions, and if a probe
// might distinguish less than the weights do: with channels of equal weights, lengths that truncate taps, or a
// channel that depends on only one step.
func directResponse(ix *regions.Index, r *regions.Region) *response {
	if len(r.Nodes) != 1 {
		return nil
	}
	n := r.Nodes[0]
	xs, w := r.Source.Shape(), n.In(1)
	if n.Op.FullName() != "Conv" || len(xs) != 3 || n.In(0) != r.Source || n.Outputs[0] != r.Sink || w == nil ||
		w.Const == nil || !regions.IsReal(w.Elem()) || w.Const.Rank() != 3 || w.Const.Dim(1) != 1 {
		return nil
	}
	count, k := w.Const.Dim(0), w.Const.Dim(2)
	if channels, known := xs[1].Known(); !known || channels != int64(count) || count < 2 ||
		ops.Int(n, "group") != int64(count) {
		return nil
	}
	res := &response{run: ix.Run, time: 2, channel: []int{1}, counts: []int{count}, n: count, bind: numbersOf(ix, xs)}
	res.to = []int{0, 1, 2}
	switch d, known := xs[0].Known(); {
	case known && d == 1:
		res.to[0] = -1
	case known && d < 1 || !known && !isSymbol(xs[0]):
		return nil
	default:
		res.batch = []int{0}
	}
	ws, err := ops.Windows(n, 1)
	if err != nil {
		return nil
	}
	win, ok := ws[0].Resolve(xs[2], int64(k))
	begin, step := int(win.Begin), int(win.Dilation)
	reach := (k - 1) * step
	if !ok || win.Stride != 1 || step < 1 || step > longest || k > longest || begin < 0 || begin > reach ||
		int(win.End) != reach-begin {
		return nil
	}
	if length, known := xs[2].Known(); known {
		res.length = int(min(length, longest))
	} else {
		if !isSymbol(xs[2]) || xs[0].Equal(xs[2]) {
			return nil
		}
		res.anySize, res.length = true, int(min(max(1024, 2*ix.LargestNumber(r))+7, longest+1))
		wide := map[string]int64{}
		for name := range res.bind {
			wide[name] = 1
		}
		symbol, _ := xs[2].Symbol()
		wide[symbol], res.bind = int64(res.length), wide
	}
	if res.length > longest || reach+1 >= res.length/2 {
		return nil
	}
	taps, err := w.Const.Float64s()
	if err != nil || !tellsApart(taps, k) {
		return nil
	}
	if ix.Run.Search().Spend(regions.WorkPerElement*int64(count)*int64(res.length)) != nil {
		return nil
	}
	if !res.biasOf(n.In(2)) {
		return nil
	}
	for c := range count {
		f, b := make([]float64, res.length), make([]float64, res.length-1)
		for j, v := range taps[c*k : (c+1)*k] { // y[t] = Σ v[j]·x[t-begin+j·step]
			if lag := begin - j*step; lag >= 0 {
				f[lag] = v
			} else {
				b[-lag-1] = v
			}
		}
		res.fwd, res.bwd = append(res.fwd, f), append(res.bwd, b)
	}
	return res
}

func isSymbol(d ir.Dim) bool {
	_, ok := d.Symbol()
	return ok
}

// biasOf sets the bias of a Conv. It returns false if the bias is not a constant vector.
func (res *response) biasOf(v *ir.Value) bool {
	if v == nil {
		return true
	}
	if v.Const == nil || v.Const.Len() != res.n {
		return false
	}
	x, err := v.Const.Float64s()
	if err != nil {
		return false
	}
	for _, b := range x {
		if math.IsNaN(b) || math.IsInf(b, 0) {
			return false
		}
		if b != 0 {
			res.bias = x
		}
	}
	return true
}

// tellsApart reports whether the weights of several channels are finite, whether channels differ, and whether a step
// depends on several steps.
func tellsApart(taps []float64, k int) bool {
	const clear = 1e-3 // relative to the largest weight
	_, peak := norms(taps)
	if !(peak > 0) || math.IsInf(peak, 0) {
		return false
	}
	differ, several := false, 0
	for i, v := range taps {
		if math.IsNaN(v) {
			return false
		}
		differ = differ || math.Abs(v-taps[i%k]) > clear*peak
		if c := i / k; c == (len(taps)/k-1)/2 && math.Abs(v) > clear*peak {
			several++
		}
	}
	return differ && several > 1
}
