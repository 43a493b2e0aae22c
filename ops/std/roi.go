package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Pooling of regions of interest.
var (
	RoiAlign = ops.Same(roiAlignOp(22, oneOf("coordinate_transformation_mode", "half_pixel",
		"shift of coordinates by half an element", "output_half_pixel")), 16)
	// In the first version, coordinates were not shifted.
	_ = roiAlignOp(10)

	// MaxRoiPool returns the largest element of each bin of a region.
	MaxRoiPool = ops.Same(ops.Register(&ir.Op{
		Name: "MaxRoiPool", Since: 22,
		Doc: "(R,C,h,w): the largest elements of X (N,C,H,W) in the h by w bins of each region in rois (R,5), given " +
			"by sample, x1, y1, x2, y2, times spatial_scale, rounded; 0 for empty bins.",
		In: ops.Sig("X:T[N,C,H,W]", "rois:T[R,5]"), Out: ops.Sig("Y:T"),
		Attrs: []ir.AttrSpec{{Name: "pooled_shape", Kind: ir.AttrInts, Required: true, Doc: "bins per axis"},
			floatAttr("spatial_scale", 1, "elements of X per unit of rois")},
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			bins := n.Attrs.Ints("pooled_shape", nil)
			if len(bins) != 2 || bins[0] < 1 || bins[1] < 1 {
				return nil, fmt.Errorf("pooled_shape %v: expected two positive numbers", bins)
			}
			r := ir.Unknown
			if s := tensorIn(n, 1); !s.NoRank {
				r = s.Shape[0]
			}
			return ir.Shape{r, in[1], ir.Const(bins[0]), ir.Const(bins[1])}, nil
		}),
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work { // bins of a region share few elements
			bins := n.Attrs.Ints("pooled_shape", []int64{1, 1})
			per := ops.Product(4, ops.DimAt(n.In(0), 2, bind)+bins[0], ops.DimAt(n.In(0), 3, bind)+bins[1])
			return ops.Stated(n, bind, ops.Product(ops.DimAt(n.In(1), 0, bind), ops.DimAt(n.In(0), 1, bind), per))
		},
		Eval: evalMaxRoiPool, Along: alongRois, NoGradient: ops.NotYet, Tol: ir.Exact,
	}), 1)
)

// alongRois keeps channels and regions separate. No other axis passes.
func alongRois(n *ir.Node, in []ir.Fact) []ir.Fact {
	switch x := in[0]; {
	case x.Constant() && len(in) == 2 && in[1].Axis == 0 && !in[1].Global:
		in[1].State = 0
		return spread(n, in[1])
	case !x.Constant() && x.Axis == 1 && !x.Global:
		for _, f := range in[1:] {
			if !f.Constant() {
				return spread(n, ops.Global(n, in))
			}
		}
		x.State = 0
		return spread(n, x)
	}
	return spread(n, ops.Global(n, in))
}

func evalMaxRoiPool(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	rois, err := need(in, 1, "rois")
	if err != nil {
		return nil, err
	}
	bins := c.Node.Attrs.Ints("pooled_shape", nil)
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Dim(1) != 5 || len(bins) != 2 || bins[0] < 1 || bins[1] < 1 {
		return nil, fmt.Errorf("X %s, rois %s, pooled_shape %v: expected (N,C,H,W), (R,5), and two positive numbers", x,
			rois, bins)
	}
	shape, err := intShape(c, []int64{int64(rois.Dim(0)), int64(x.Dim(1)), bins[0], bins[1]})
	if err != nil {
		return nil, err
	}
	v, r, scale := ops.F64(c, in, 0), ops.F64(c, in, 1), getFloat(c.Node, "spatial_scale")
	h, w := x.Dim(2), x.Dim(3)
	y := ops.Make[float64](c, product(shape))[:0]
	for i := range shape[0] {
		c.Step(1)
		box := r[5*i : 5*i+5]
		b := int(min(max(box[0], -1), 1<<40))
		if box[0] != box[0] || b < 0 || b >= x.Dim(0) {
			return nil, fmt.Errorf("rois: sample %v of %d", box[0], x.Dim(0))
		}
		// bin returns the range of elements of bin k along an axis of d elements, from lo to hi.
		bin := func(k int, n int64, lo, hi float64, d int) (from, to int) {
			lo, hi = math.Round(lo*scale), math.Round(hi*scale)
			size := max(hi-lo+1, 1) / float64(n)
			clip := func(x float64) int { return int(min(max(x, 0), float64(d))) }
			if lo != lo || size != size {
				return 0, 0
			}
			return clip(math.Floor(float64(k)*size) + lo), clip(math.Ceil(float64(k+1)*size) + lo)
		}
		for ch := range shape[1] {
			c.Step(1)
			plane := v[(b*shape[1]+ch)*h*w:]
			for p := range shape[2] {
				c.Step(1)
				y0, y1 := bin(p, bins[0], box[2], box[4], h)
				for q := range shape[3] {
					c.Step(1)
					x0, x1 := bin(q, bins[1], box[1], box[3], w)
					best, any := 0.0, false
					for a := y0; a < y1; a++ {
						c.Step(x1 - x0)
						for e := x0; e < x1; e++ {
							if z := plane[a*w+e]; !any || z > best {
								best, any = z, true
							}
						}
					}
					y = append(y, best)
				}
			}
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

func roiAlignOp(since int, attrs ...ir.AttrSpec) *ir.Op {
	return ops.Register(&ir.Op{
		Name: "RoiAlign", Since: since,
		Doc: "(R,C,output_height,output_width): means (or largest terms) of samples of X (N,C,H,W), interpolated " +
			"linearly, in the bins of each region in rois (R,4), given by x1, y1, x2, y2, times spatial_scale, of " +
			"the sample in batch_indices (R).",
		In: ops.Sig("X:T1[N,C,H,W]", "rois:T1[R,4]", "batch_indices:T2[R]"), Out: ops.Sig("Y:T1"),
		Elems: map[string][]tensor.DType{"T1": ops.Floats, "T2": {tensor.Int64}},
		Attrs: append([]ir.AttrSpec{oneOf("mode", "avg", "reduction of a bin's samples", "max"),
			intAttr("output_height", 1, "bins along axis 2"), intAttr("output_width", 1, "bins along axis 3"),
			intAttr("sampling_ratio", 0, "samples per bin and axis; 0: as many as elements"),
			floatAttr("spatial_scale", 1, "elements of X per unit of rois")}, attrs...),
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			h, w := getInt(n, "output_height"), getInt(n, "output_width")
			if h < 1 || w < 1 {
				return nil, fmt.Errorf("output of %d by %d: expected positive numbers", h, w)
			}
			r := ir.Unknown
			if s := tensorIn(n, 1); !s.NoRank {
				r = s.Shape[0]
			}
			return ir.Shape{r, in[1], ir.Const(h), ir.Const(w)}, nil
		}),
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			return ops.Stated(n, bind, ops.Product(roiSamples(n, bind), 16+8*ops.DimAt(n.In(0), 1, bind)))
		},
		Eval: evalRoiAlign, Along: alongRois, NoGradient: ops.NotYet, Tol: ir.Summing,
		Linear: func(n *ir.Node) [][]int {
			if getStr(n, "mode") != "avg" {
				return nil
			}
			return [][]int{{0}}
		},
	})
}

// maxSamples bounds the samples of one bin. Their number depends on data.
const maxSamples = 1 << 20

// roiSamples returns the number of samples in all regions. If the regions are not constant, regions whose size
// determines the number are assumed to be no larger than X.
func roiSamples(n *ir.Node, bind map[string]int64) int64 {
	regions, bins := ops.DimAt(n.In(1), 0, bind), ops.Product(getInt(n, "output_height"), getInt(n, "output_width"))
	if ratio := getInt(n, "sampling_ratio"); ratio > 0 {
		return ops.Product(regions, bins, min(ops.Product(ratio, ratio), maxSamples))
	}
	if n.In(1).Const == nil {
		return ops.Product(regions, bins+ops.Product(ops.DimAt(n.In(0), 2, bind), ops.DimAt(n.In(0), 3, bind)))
	}
	r, err := n.In(1).Const.Float64s()
	if err != nil || len(r) < 4 {
		return 0
	}
	scale, sum := getFloat(n, "spatial_scale"), 0.0
	for ; len(r) >= 4; r = r[4:] {
		size := func(a int, bins int64) float64 { return math.Ceil(max((r[a+2]-r[a])*scale, 1) / float64(bins)) }
		count := size(1, getInt(n, "output_height")) * size(0, getInt(n, "output_width"))
		if !(count <= maxSamples) {
			count = maxSamples
		}
		sum += count
	}
	return ops.Product(bins, int64(sum))
}

func evalRoiAlign(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	rois, err := need(in, 1, "rois")
	if err != nil {
		return nil, err
	}
	samples, err := ints(c, in, 2)
	if err != nil {
		return nil, err
	}
	n := c.Node
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Dim(1) != 4 || len(samples) != rois.Dim(0) {
		return nil, fmt.Errorf("X %s, rois %s, %d batch_indices: expected (N,C,H,W), (R,4), (R)", x, rois, len(samples))
	}
	shape, err := intShape(c, []int64{int64(len(samples)), int64(x.Dim(1)), getInt(n, "output_height"),
		getInt(n, "output_width")})
	if err != nil {
		return nil, err
	}
	v, r, greatest := ops.F64(c, in, 0), ops.F64(c, in, 1), getStr(n, "mode") == "max"
	h, w := x.Dim(2), x.Dim(3)
	bins := NewRoiBins(n, h, w)
	y := ops.Make[float64](c, product(shape))
	if h == 0 || w == 0 {
		return ops.One(ops.Real(c, x.DType(), y, shape...))
	}
	for i, b := range samples {
		c.Step(1)
		if b < 0 || b >= int64(x.Dim(0)) {
			return nil, fmt.Errorf("batch_indices: sample %d of %d", b, x.Dim(0))
		}
		region, err := bins.Region([4]float64(r[4*i : 4*i+4]))
		if err != nil {
			return nil, fmt.Errorf("rois: region %d: %w", i, err)
		}
		count := region.count
		for p := range shape[2] {
			c.Step(1)
			for q := range shape[3] {
				c.Step(1)
				first := true
				for s := range int(count[0]) {
					c.Step(1)
					for t := range int(count[1]) {
						c.Step(1)
						at, weights := region.Taps(p, q, s, t)
						for ch := range shape[1] {
							c.Step(1)
							plane := v[(int(b)*shape[1]+ch)*h*w:]
							out := &y[((i*shape[1]+ch)*shape[2]+p)*shape[3]+q]
							if !greatest {
								*out += (weights[0]*plane[at[0]] + weights[1]*plane[at[1]] + weights[2]*plane[at[2]] +
									weights[3]*plane[at[3]]) / (count[0] * count[1])
								continue
							}
							term := max(weights[0]*plane[at[0]], weights[1]*plane[at[1]], weights[2]*plane[at[2]],
								weights[3]*plane[at[3]])
							if first || term > *out {
								*out = term
							}
						}
						first = false
					}
				}
			}
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// RoiBins finds the samples of the bins of RoiAlign, in planes of one size.
type RoiBins struct {
	h, w  int
	bins  [2]int64 // along axis 2, and along axis 3
	ratio int64
	scale float64
	half  bool
}

// NewRoiBins returns the bins of a node for planes of h rows of w elements.
func NewRoiBins(n *ir.Node, h, w int) *RoiBins {
	return &RoiBins{h, w, [2]int64{getInt(n, "output_height"), getInt(n, "output_width")}, getInt(n, "sampling_ratio"),
		getFloat(n, "spatial_scale"), getStr(n, "coordinate_transformation_mode") == "half_pixel"}
}

// RoiRegion is the samples of the bins of a region.
type RoiRegion struct {
	start, size, count [2]float64
	h, w               int
}

// Region returns the samples of the region that box bounds by x1, y1, x2 and y2. It refuses too many of them.
func (b *RoiBins) Region(box [4]float64) (r RoiRegion, err error) {
	r.h, r.w = b.h, b.w
	for a := range 2 { // axis 2, then axis 3; boxes have x first
		r.start[a] = box[1-a] * b.scale
		end := box[3-a] * b.scale
		if b.half {
			r.start[a], end = r.start[a]-0.5, end-0.5
		}
		extent := end - r.start[a]
		if !b.half {
			extent = max(extent, 1)
		}
		r.size[a] = extent / float64(b.bins[a])
		if r.count[a] = float64(b.ratio); b.ratio <= 0 {
			r.count[a] = math.Ceil(r.size[a])
		}
		if !(r.count[a] <= maxSamples && !math.IsInf(r.size[a], 0)) {
			return r, fmt.Errorf("%v samples per bin", r.count[a])
		}
		r.count[a] = max(r.count[a], 0)
	}
	if r.count[0]*r.count[1] > maxSamples {
		return r, fmt.Errorf("%v samples per bin", r.count[0]*r.count[1])
	}
	return r, nil
}

// Samples returns the numbers of samples of a bin along axis 2 and along axis 3.
func (r *RoiRegion) Samples() (rows, columns int) { return int(r.count[0]), int(r.count[1]) }

// Taps returns the elements that sample (s, t) of bin (p, q) interpolates, with their weights.
func (r *RoiRegion) Taps(p, q, s, t int) (at [4]int, weights [4]float64) {
	y := r.start[0] + float64(p)*r.size[0] + (float64(s)+0.5)*r.size[0]/r.count[0]
	x := r.start[1] + float64(q)*r.size[1] + (float64(t)+0.5)*r.size[1]/r.count[1]
	return corners(y, x, r.h, r.w)
}

// corners returns the elements near a point of a plane, with their weights, which are 0 if the point is more than one
// element outside.
func corners(y, x float64, h, w int) (at [4]int, weights [4]float64) {
	if !(y >= -1 && y <= float64(h) && x >= -1 && x <= float64(w)) {
		return at, weights
	}
	side := func(p float64, d int) (low, high int, part float64) {
		p = max(p, 0)
		if low = int(p); low >= d-1 {
			return d - 1, d - 1, 0
		}
		return low, low + 1, p - float64(low)
	}
	y0, y1, dy := side(y, h)
	x0, x1, dx := side(x, w)
	return [4]int{y0*w + x0, y0*w + x1, y1*w + x0, y1*w + x1},
		[4]float64{(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}
}
