package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Resampled is an axis for ResizeAxis. Element i of the result is the sum over k of Weights[i][k] times element
// First[i]+k, clamped to the axis, or Beyond if Weights[i] is nil.
type Resampled struct {
	In      int
	First   []int
	Weights [][]float64
	Beyond  float64
}

// ResizeAxis resamples the middle axis of outer × In × inner numbers. constant stores the tables.
func ResizeAxis(y, x Tensor, outer, inner int, a Resampled, constant func(key string, make func() []byte) Buffer) (Call, bool) {
	n, taps := len(a.First), 0
	for _, w := range a.Weights {
		taps = max(taps, len(w))
	}
	if !fits(outer, max(n, a.In), inner) || !fits(n, taps) {
		return Call{}, false
	}
	table := constant("resampling", func() []byte { // first elements, then weights; missing weights are NaN
		var b []byte
		for _, f := range a.First {
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(f)))
		}
		for _, w := range a.Weights {
			for k := range taps {
				v := 0.0
				switch {
				case w == nil:
					v = math.NaN()
				case k < len(w):
					v = w[k]
				}
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
		return b
	})
	return each(fmt.Sprintf("resize_axis_%v_%v", x.Type, y.Type), outer*n*inner, func(d *plain, i ptx.U32) {
		out, in, n, taps, inner, size := d.tensor(y), d.tensor(x), d.size(n), d.size(taps), d.size(inner), d.size(a.In)
		at := d.address(table)
		line := i.Div(inner)
		row := line.Div(n)
		o := line.Sub(row.Mul(n))
		first := at.Index(o, 8).LoadU64(0)
		base := row.Mul(size).MAD(inner, i.Sub(line.Mul(inner)))
		sum := d.VarF64(ptx.D(0))
		d.loop(taps, func(k ptx.U32) {
			w := at.Index(o.MAD(taps, n).Add(k), 8).LoadF64(0)
			from := first.Add(k.Wide()).SignedMax(ptx.L(0)).SignedMin(size.Wide().Sub(ptx.L(1)))
			v := w.Mul(in.get(from.Low().MAD(inner, base).Wide()))
			v = w.Eq(ptx.D(0)).SelectF64(ptx.D(0), v) // also for infinite numbers
			sum.Set(sum.Add(v))
		})
		d.If(at.Index(o.MAD(taps, n), 8).LoadF64(0).IsNaN(), func() { sum.Set(d.float(a.Beyond)) })
		out.set(i.Wide(), sum)
	})
}

// Grid describes GridSample.
type Grid struct {
	Taps       int  // per axis: 1 nearest, 2 linear, 4 cubic
	Corners    bool // whether -1 and 1 are the centers of the outermost elements
	Border     bool // outside X, the outermost elements are repeated
	Reflection bool // outside X, elements are reflected; with neither option they are zero
}

// Call interpolates planes × channels planes of the given sizes at places coordinates each.
func (g Grid) Call(y, x, grid Tensor, samples, channels, places int, sizes []int) (Call, bool) {
	axes, volume := len(sizes), 1
	for _, n := range sizes {
		volume *= n
	}
	if axes < 1 || axes > 3 || !fits(samples, channels, places) || !fits(samples, channels, volume) || !fits(samples, places, axes) {
		return Call{}, false
	}
	if volume == 0 {
		return Call{}, false
	}
	name := fmt.Sprintf("grid_sample_%d_%d_%t_%t_%t_%v_%v", axes, g.Taps, g.Corners, g.Border, g.Reflection, x.Type, grid.Type)
	return each(name, samples*channels*places, func(d *plain, i ptx.U32) {
		out, in, coordinates := d.tensor(y), d.tensor(x), d.tensor(grid)
		channels, places, volume := d.size(channels), d.size(places), d.size(volume)
		shape := d.sizes(sizes...)
		plane := i.Div(places)
		sample := plane.Div(channels)
		from := sample.MAD(places, i.Sub(plane.Mul(places))).Mul(ptx.U(axes)).Wide()
		offsets, weights := make([][]ptx.U32, axes), make([][]ptx.F64, axes)
		for a, n := range shape {
			u := coordinates.get(from.Add(ptx.L(uint64(axes - 1 - a))))
			offsets[a], weights[a] = g.taps(d, u, n)
		}
		base := plane.Mul(volume)
		sum := ptx.D(0)
		var add func(a int, at ptx.U32, w ptx.F64)
		add = func(a int, at ptx.U32, w ptx.F64) {
			if a == axes {
				v := in.get(base.Add(at).Wide()).Mul(w)
				sum = w.Eq(ptx.D(0)).SelectF64(ptx.D(0), v).Add(sum)
				return
			}
			for k, o := range offsets[a] {
				next, weight := o, weights[a][k]
				if a > 0 {
					next, weight = at.MAD(shape[a], o), w.Mul(weight)
				}
				add(a+1, next, weight)
			}
		}
		add(0, ptx.U32{}, ptx.F64{})
		out.set(i.Wide(), sum)
	})
}

// taps returns the elements of an axis of n from which the value at coordinate u is interpolated, with their
// weights.
func (g Grid) taps(d *plain, u ptx.F64, n32 ptx.U32) (at []ptx.U32, weights []ptx.F64) {
	n := n32.Wide().SignedF64()
	one, half := ptx.D(1), ptx.D(0.5)
	x := u.Add(one).Mul(n).Sub(one).Mul(half)
	lo, hi := ptx.D(-0.5).Add(n.Mul(ptx.D(0))), n.Sub(half)
	if g.Corners {
		x = u.Add(one).Mul(half).Mul(n.Sub(one))
		lo, hi = n.Mul(ptx.D(0)), n.Sub(one)
	}
	if g.Taps == 1 {
		x = x.RoundEven()
	}
	inside := x.Ge(lo).And(x.Le(hi))
	last := n.Sub(one)
	clamp := func(x ptx.F64) ptx.F64 { return x.IsNaN().SelectF64(x, x.Max(ptx.D(0)).Min(last)) }
	switch {
	case g.Border && g.Taps == 4: // clamps elements, not coordinates
	case g.Border:
		x = inside.SelectF64(x, clamp(x))
	case g.Reflection:
		x = inside.SelectF64(x, reflect(x, lo, hi))
	}
	low := x.Floor()
	part := x.Sub(low)
	switch g.Taps {
	case 1:
		weights = []ptx.F64{d.VarF64(one)}
	case 2:
		weights = []ptx.F64{one.Sub(part), part}
	default:
		weights = []ptx.F64{cubic(part.Add(one)), cubic(part), cubic(one.Sub(part)), cubic(ptx.D(2).Sub(part))}
		low = low.Sub(one)
	}
	for k := range weights {
		p := low.Add(ptx.D(float64(k)))
		switch {
		case g.Border:
			p = p.Max(ptx.D(0)).Min(last)
		case g.Reflection:
			p = reflect(p, lo, hi)
			whole := p.Abs().Floor()
			p = p.Lt(ptx.D(0)).SelectF64(whole.Neg(), whole)
		}
		there := p.Ge(ptx.D(0)).And(p.Lt(n))
		if !g.Border && !g.Reflection {
			weights[k] = there.SelectF64(weights[k], ptx.D(0))
		}
		at = append(at, there.SelectF64(p, ptx.D(0)).S32().U32())
	}
	return at, weights
}

// cubic returns the weight of an element at a distance from 0 to 2.
func cubic(x ptx.F64) ptx.F64 {
	const a = -0.75
	near := x.FMA(ptx.D(a+2), ptx.D(-(a+3))).Mul(x).FMA(x, ptx.D(1))
	far := x.Sub(ptx.D(5)).FMA(x, ptx.D(8)).Mul(x).FMA(ptx.D(a), ptx.D(-4*a))
	return x.Le(ptx.D(1)).SelectF64(near, x.Lt(ptx.D(2)).SelectF64(far, ptx.D(0)))
}

// reflect reflects x at lo and hi until it is between them.
func reflect(x, lo, hi ptx.F64) ptx.F64 {
	span := hi.Sub(lo)
	below, above := x.Lt(lo), x.Gt(hi)
	dist := above.SelectF64(x.Sub(hi), lo.Sub(x))
	n := dist.Div(span).Floor()
	r := dist.Sub(n.Mul(span))
	h := n.Mul(ptx.D(0.5))
	even := h.Floor().Eq(h)
	y := even.Xor(below).SelectF64(hi.Sub(r), lo.Add(r))
	y = below.Or(above).Or(x.IsNaN()).SelectF64(y, x)
	return span.Le(ptx.D(0)).SelectF64(lo, y)
}

// RoiAlign pools samples of planes of height × width numbers in bins of regions: see ONNX.
type RoiAlign struct {
	Samples, Channels, Height, Width int
	Regions, Rows, Columns           int
	Scale                            float64
	Half, Greatest                   bool
	Ratio                            int // samples per bin and axis; 0: as many as elements
	// Fault is set if a region has more than MaxRoiSamples samples in a bin, or an invalid sample index.
	Fault Buffer
}

// MaxRoiSamples is the maximum number of samples per bin.
const MaxRoiSamples = 1 << 20

// Call returns the launch.
func (r RoiAlign) Call(y, x, rois Tensor, of Buffer) (Call, bool) {
	count := r.Regions * r.Channels * r.Rows * r.Columns
	if !fits(r.Regions, r.Channels, r.Rows, r.Columns) || !fits(r.Samples, r.Channels, r.Height, r.Width) {
		return Call{}, false
	}
	return each(fmt.Sprintf("roi_align_%t_%t_%v", r.Half, r.Greatest, x.Type), count, func(d *plain, i ptx.U32) {
		out, in, regions, samples := d.tensor(y), d.tensor(x), d.tensor(rois), d.vector(of, tensor.Int64)
		fault := d.address(r.Fault)
		at := index(i, d.sizes(r.Regions, r.Channels, r.Rows, r.Columns))
		sample := samples.read(at[0].Wide()).integer
		good := sample.Lt(d.size(r.Samples).Wide())
		var first, step, count [2]ptx.F64
		sizes := d.sizes(r.Height, r.Width)
		for a, bins := range []int{r.Rows, r.Columns} {
			region := at[0].Wide().Mul(ptx.L(4))
			start := regions.get(region.Add(ptx.L(uint64(1 - a)))).Mul(d.float(r.Scale))
			end := regions.get(region.Add(ptx.L(uint64(3 - a)))).Mul(d.float(r.Scale))
			if r.Half {
				start, end = start.Sub(ptx.D(0.5)), end.Sub(ptx.D(0.5))
			}
			extent := end.Sub(start)
			if !r.Half {
				extent = extent.IsNaN().SelectF64(extent, extent.Max(ptx.D(1)))
			}
			size := extent.Div(d.float(float64(bins)))
			n := size.Ceil()
			if r.Ratio > 0 {
				n = d.float(float64(r.Ratio))
			}
			good = good.And(n.Le(ptx.D(MaxRoiSamples))).And(size.Abs().Lt(ptx.D(math.Inf(1))))
			first[a], step[a], count[a] = start.Add(at[2+a].Wide().SignedF64().Mul(size)), size, n.Max(ptx.D(0))
		}
		all := count[0].Mul(count[1])
		good = good.And(all.Le(ptx.D(MaxRoiSamples)))
		d.If(good.Not(), func() { fault.SetBits(0, ptx.U(1)) })
		sum, some := d.VarF64(ptx.D(0)), d.VarU32(ptx.U(0))
		d.If(good, func() {
			plane := sample.Low().Mul(d.size(r.Channels)).Add(at[1]).Mul(sizes[0]).Mul(sizes[1])
			d.loop(count[0].S32().U32(), func(s ptx.U32) {
				d.loop(count[1].S32().U32(), func(t ptx.U32) {
					inside := good
					var places [2][2]ptx.U32
					var weights [2][2]ptx.F64
					for a, k := range []ptx.U32{s, t} {
						p := first[a].Add(k.Wide().SignedF64().Add(ptx.D(0.5)).Mul(step[a]).Div(count[a]))
						n := sizes[a].Wide().SignedF64()
						inside = inside.And(p.Ge(ptx.D(-1))).And(p.Le(n))
						p = p.Max(ptx.D(0))
						end := p.Floor().Ge(n.Sub(ptx.D(1)))
						low := end.SelectF64(n.Sub(ptx.D(1)), p.Floor())
						part := end.SelectF64(ptx.D(0), p.Sub(low))
						high := end.SelectF64(low, low.Add(ptx.D(1)))
						places[a] = [2]ptx.U32{inside.SelectF64(low, ptx.D(0)).S32().U32(), inside.SelectF64(high, ptx.D(0)).S32().U32()}
						weights[a] = [2]ptx.F64{ptx.D(1).Sub(part), part}
					}
					var terms []ptx.F64
					for j := range 4 {
						y, x := places[0][j>>1], places[1][j&1]
						// Outside the plane all weights are 0.
						y, x = inside.SelectU32(y, ptx.U(0)), inside.SelectU32(x, ptx.U(0))
						w := inside.SelectF64(weights[0][j>>1].Mul(weights[1][j&1]), ptx.D(0))
						terms = append(terms, w.Mul(in.get(y.MAD(sizes[1], x).Add(plane).Wide())))
					}
					if r.Greatest {
						term := wideOperationMax(wideOperationMax(terms[0], terms[1]), wideOperationMax(terms[2], terms[3]))
						more := some.Eq(ptx.U(0)).Or(term.Gt(sum))
						sum.Set(more.SelectF64(term, sum))
						some.Set(ptx.U(1))
						return
					}
					sum.Set(sum.Add(terms[0].Add(terms[1]).Add(terms[2]).Add(terms[3]).Div(all)))
				})
			})
		})
		out.set(i.Wide(), sum)
	})
}
