package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

func oneOf(name, def, doc string, values ...string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrString, Default: def, OneOf: append([]string{def}, values...), Doc: doc}
}

// Resize resamples a tensor, one axis after the other.
var (
	Resize = ops.Same(resizeOp("Resize", 19, ops.Sig("X:T1", "roi:T2?", "scales:float32[_]?", "sizes:int64[_]?"),
		intAttr("antialias", 0, "whether filters widen when scaling down"),
		intsAttr("axes", "the axes of roi, scales and sizes (default: all)"),
		oneOf("coordinate_transformation_mode", "half_pixel", "map from coordinates of the output to coordinates of X",
			"half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
		floatAttr("cubic_coeff_a", -0.75, "shape of the cubic filter"),
		intAttr("exclude_outside", 0, "whether filter taps outside of X have no weight"),
		floatAttr("extrapolation_value", 0, "value outside of X in mode tf_crop_and_resize"),
		oneOf("keep_aspect_ratio_policy", "stretch", "meaning of sizes", "not_larger", "not_smaller"),
		oneOf("mode", "nearest", "the filter", "linear", "cubic"),
		oneOf("nearest_mode", "round_prefer_floor", "rounding to the nearest element", "round_prefer_ceil", "floor",
			"ceil")), 18, 13, 11)
	_ = resizeOp("Resize", 10, ops.Sig("X:T1", "scales:float32[_]"), oneOf("mode", "nearest", "the filter", "linear"))
	// Upsample is the first form of Resize, for scales of at least 1.
	Upsample = untilVersion(resizeOp("Upsample", 9, ops.Sig("X:T1", "scales:float32[_]"),
		oneOf("mode", "nearest", "the filter", "linear", "bilinear")), 10)
	_ = resizeOp("Upsample", 7, ops.Sig("X:T1"),
		ir.AttrSpec{Name: "scales", Kind: ir.AttrFloats, Required: true, Doc: "factor per axis"},
		oneOf("mode", "nearest", "the filter", "linear", "bilinear"))
	_ = resizeOp("Upsample", 1, ops.Sig("X:T1"),
		ir.AttrSpec{Name: "height_scale", Kind: ir.AttrFloat, Required: true, Doc: "factor of axis 2"},
		ir.AttrSpec{Name: "width_scale", Kind: ir.AttrFloat, Required: true, Doc: "factor of axis 3"},
		oneOf("mode", "nearest", "the filter", "bilinear"))
)

// untilVersion sets the version in which an operator was removed.
func untilVersion(o *ir.Op, version int) *ir.Op { o.Until = version; return o }

func resizeOp(name string, since int, in []ir.Param, attrs ...ir.AttrSpec) *ir.Op {
	var sized []int
	for i, p := range in {
		if p.Name == "scales" {
			sized = append(sized, i)
		}
	}
	return ops.Register(&ir.Op{
		Name: name, Since: since, Attrs: attrs, SizedBy: sized, Gradient: gradResize,
		Doc: "X resampled along its axes, by scales or to sizes, with the nearest element or a linear or cubic filter.",
		In:  in, Out: ops.Sig("Y:T1"), Elems: map[string][]tensor.DType{"T1": ops.Any, "T2": ops.Floats},
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			axes, err := resizeAxes(n, len(in))
			if err != nil {
				return nil, err
			}
			out := slices.Clone(in)
			kept := keptDims(n, in)
			for i, a := range axes {
				if out[a] = resizedDim(n, in, i, a); i < len(kept) {
					out[a] = kept[i]
				}
			}
			return out, nil
		}),
		Eval: evalResize,
		Along: alongMove(func(n *ir.Node, axis int) int {
			shape := n.In(0).Shape()
			axes, err := resizeAxes(n, len(shape))
			if err != nil {
				return -1
			}
			i := slices.Index(axes, axis)
			if i < 0 {
				return axis
			}
			if getStr(n, "coordinate_transformation_mode") == "tf_crop_and_resize" ||
				getStr(n, "keep_aspect_ratio_policy") == "not_larger" ||
				getStr(n, "keep_aspect_ratio_policy") == "not_smaller" {
				return -1
			}
			if scales, ok := constScales(n); ok {
				if i < len(scales) && scales[i] == 1 {
					return axis
				}
				return -1
			}
			if sizes, ok := ops.DimsOf(resizeInput(n, "sizes")); ok && i < len(sizes) && sizes[i].Equal(shape[axis]) {
				return axis
			}
			return -1
		}),
		Linear: linearResize, Tol: ir.Rounding,
	})
}

func linearResize(n *ir.Node) [][]int {
	if n.Attrs.Float("extrapolation_value", 0) != 0 { // it may be part of the result
		return nil
	}
	return [][]int{{0}}
}

// resizeInput returns the named input, or nil.
func resizeInput(n *ir.Node, name string) *ir.Value {
	i := slices.IndexFunc(n.Op.In, func(p ir.Param) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return n.In(i)
}

// resizeAxes lists the axes of scales and sizes, in their order.
func resizeAxes(n *ir.Node, rank int) ([]int, error) {
	given := n.Attrs.Ints("axes", nil)
	if given == nil {
		if n.Attrs.Has("height_scale") {
			if rank != 4 {
				return nil, fmt.Errorf("X: expected four axes, found %d", rank)
			}
			return []int{2, 3}, nil
		}
		axes := make([]int, rank)
		for i := range axes {
			axes[i] = i
		}
		return axes, nil
	}
	if _, err := ops.AxesOf(given, rank); err != nil {
		return nil, err
	}
	axes := make([]int, len(given))
	for i, a := range given {
		axes[i], _ = ops.Axis(a, rank)
	}
	return axes, nil
}

// keptDims returns the sizes of the resized axes where they follow from all of them and from constants; nil otherwise.
func keptDims(n *ir.Node, in ir.Shape) (dims []ir.Dim) {
	shape, ok := in.Known()
	if p := getStr(n, "keep_aspect_ratio_policy"); !ok || p == "stretch" || p == "" {
		return nil
	}
	given := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs[1:] {
		if v == nil {
			continue
		}
		if v.Const == nil {
			return nil
		}
		given[i+1] = v.Const
	}
	plan, err := resamplings(nil, n, given, shape)
	if err != nil {
		return nil
	}
	for _, r := range plan {
		dims = append(dims, ir.Const(int64(r.size)))
	}
	return dims
}

// constScales returns the scales if they are constants.
func constScales(n *ir.Node) ([]float64, bool) {
	if s := attrScales(n); s != nil {
		return s, true
	}
	v := resizeInput(n, "scales")
	if v == nil {
		return nil, false
	}
	t := v.Const
	if t == nil && v.Def != nil && v.Def.Op.Domain == "" && v.Def.Op.Name == "Constant" {
		t = v.Def.Attrs.Tensor("value")
	}
	if t == nil || t.Len() == 0 {
		return nil, false
	}
	s, err := t.Float64s()
	return s, err == nil
}

func attrScales(n *ir.Node) []float64 {
	if n.Attrs.Has("height_scale") {
		return []float64{n.Attrs.Float("height_scale", 1), n.Attrs.Float("width_scale", 1)}
	}
	return n.Attrs.Floats("scales", nil)
}

// resizedDim returns the output's size along axis a, the i-th resized axis, as far as it is known.
func resizedDim(n *ir.Node, in ir.Shape, i, a int) ir.Dim {
	if scales, ok := constScales(n); ok {
		if i >= len(scales) {
			return ir.Unknown
		}
		s := scales[i]
		if d, ok := in[a].Known(); ok {
			size, err := scaledSize(int(d), s)
			if err != nil {
				return ir.Unknown
			}
			return ir.Const(int64(size))
		}
		switch inv := 1 / s; {
		case s == math.Trunc(s) && s >= 1 && s < 1<<31:
			return in[a].Mul(ir.Const(int64(s)))
		case inv == math.Trunc(inv) && inv >= 1 && inv < 1<<31:
			return in[a].FloorDiv(ir.Const(int64(inv)))
		}
		return ir.Unknown
	}
	if p := getStr(n, "keep_aspect_ratio_policy"); p != "stretch" && p != "" {
		return ir.Unknown
	}
	if v := resizeInput(n, "scales"); v != nil { // an empty tensor means no scales
		if s := v.Shape(); len(s) != 1 || !s[0].Equal(ir.Const(0)) {
			return ir.Unknown
		}
	}
	if sizes, ok := ops.DimsOf(resizeInput(n, "sizes")); ok && i < len(sizes) {
		return sizes[i]
	}
	return ir.Unknown
}

func scaledSize(d int, scale float64) (int, error) {
	size := math.Floor(float64(d) * scale)
	if !(scale > 0 && size <= ops.MaxElems) {
		return 0, fmt.Errorf("scale %v of size %d: expected a positive number and no more than %d elements", scale, d,
			ops.MaxElems)
	}
	return int(size), nil
}

// resampling describes the resampling of one axis.
type resampling struct {
	axis, size int
	scale      float64
	from, to   float64 // the region of interest, as fractions of the axis
}

func evalResize(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	plan, err := resamplings(c, c.Node, in, x.Shape())
	if err != nil {
		return nil, err
	}
	f, err := newFilter(c.Node)
	if err != nil {
		return nil, err
	}
	shape := slices.Clone(x.Shape())
	for _, r := range plan {
		shape[r.axis] = r.size
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	if f.mode == "nearest" {
		return pickNearest(c, f, x, shape, plan)
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	now := slices.Clone(x.Shape())
	for _, r := range plan {
		if r.scale == 1 && r.size == now[r.axis] && r.from == 0 && r.to == 1 {
			continue
		}
		outer, d, inner := splitAt(now, r.axis)
		now[r.axis] = r.size
		if _, err := ops.Elems(now); err != nil {
			return nil, err
		}
		y := ops.Make[float64](c, product(now))
		for o := range r.size {
			c.Step(1)
			at, weights, outside := f.taps(c, r, d, o)
			for p := range outer {
				c.Step(1)
				dst := y[(p*r.size+o)*inner : (p*r.size+o+1)*inner]
				if outside {
					for i := range ops.Each(c, len(dst)) {
						dst[i] = f.beyond
					}
					continue
				}
				for k, w := range weights {
					c.Step(1)
					if w == 0 {
						continue
					}
					src := v[(p*d+min(max(at+k, 0), d-1))*inner:]
					for i := range ops.Each(c, len(dst)) {
						dst[i] += w * src[i]
					}
				}
			}
		}
		v = y
	}
	return ops.One(ops.Real(c, x.DType(), v, shape...))
}

// ResizedAxis describes the resampling of one axis by a linear or cubic filter. Element o of the result is the sum of
// Weights[o][k] times element First[o]+k, clamped to the axis. If Weights[o] is nil, it is the extrapolation value,
// which ResizePlan returns.
type ResizedAxis struct {
	Axis    int
	First   []int
	Weights [][]float64
}

// ResizePlan returns the resampling of the axes of a tensor of the given shape by a Resize node, in order, and the
// extrapolation value. It does not read the first input, in[0]. Axes that do not change are omitted. Mode nearest has
// no weights.
func ResizePlan(n *ir.Node, in []tensor.Datum, shape []int) (axes []ResizedAxis, beyond float64, err error) {
	plan, err := resamplings(nil, n, in, shape)
	if err != nil {
		return nil, 0, err
	}
	f, err := newFilter(n)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range plan {
		if r.size > ops.MaxElems>>10 {
			return nil, 0, fmt.Errorf("axis %d would have %d elements", r.axis, r.size)
		}
		if r.scale == 1 && r.size == shape[r.axis] && r.from == 0 && r.to == 1 {
			continue
		}
		a := ResizedAxis{Axis: r.axis, First: make([]int, r.size), Weights: make([][]float64, r.size)}
		for o := range r.size {
			a.First[o], a.Weights[o], _ = f.taps(nil, r, shape[r.axis], o)
		}
		axes = append(axes, a)
	}
	return axes, f.beyond, nil
}

// resamplings reads scales or sizes, and the region of interest.
func resamplings(c *ir.EvalCtx, n *ir.Node, in []tensor.Datum, shape []int) ([]resampling, error) {
	axes, err := resizeAxes(n, len(shape))
	if err != nil {
		return nil, err
	}
	input := func(name string) []float64 {
		return ops.F64(c, in, slices.IndexFunc(n.Op.In, func(p ir.Param) bool { return p.Name == name }))
	}
	scales, sizes, roi := attrScales(n), []float64(nil), []float64(nil)
	for i, p := range n.Op.In {
		if i == 0 || ops.Tensor(in, i) == nil || ops.Tensor(in, i).Len() == 0 {
			continue
		}
		switch p.Name {
		case "scales":
			scales = input("scales")
		case "sizes":
			sizes = input("sizes")
		case "roi":
			roi = input("roi")
		}
	}
	plan := make([]resampling, len(axes))
	if (scales == nil) == (sizes == nil) && len(axes) > 0 {
		return nil, fmt.Errorf("expected either scales or sizes")
	}
	if scales != nil && len(scales) != len(axes) || sizes != nil && len(sizes) != len(axes) {
		return nil, fmt.Errorf("%d scales and %d sizes for %d axes", len(scales), len(sizes), len(axes))
	}
	crop := getStr(n, "coordinate_transformation_mode") == "tf_crop_and_resize"
	if crop && len(roi) != 2*len(axes) {
		return nil, fmt.Errorf("roi: expected %d numbers, found %d", 2*len(axes), len(roi))
	}
	for i, a := range axes {
		r := resampling{axis: a, from: 0, to: 1}
		d := shape[a]
		if scales != nil {
			r.scale = scales[i]
			if r.size, err = scaledSize(d, r.scale); err != nil {
				return nil, err
			}
		} else {
			if !(sizes[i] >= 0 && sizes[i] <= ops.MaxElems) {
				return nil, fmt.Errorf("size %v of axis %d", sizes[i], a)
			}
			r.size, r.scale = int(sizes[i]), sizes[i]/float64(d)
		}
		if d == 0 && r.size > 0 {
			return nil, fmt.Errorf("axis %d of X is empty, and cannot become %d", a, r.size)
		}
		if crop {
			r.from, r.to = roi[i], roi[i+len(axes)]
		}
		plan[i] = r
	}
	return plan, keepAspect(getStr(n, "keep_aspect_ratio_policy"), sizes != nil, plan, shape)
}

// keepAspect sets the scales of all axes to the smallest or the largest of them.
func keepAspect(policy string, bySize bool, plan []resampling, shape []int) error {
	if !bySize || policy == "stretch" || policy == "" || len(plan) == 0 {
		return nil
	}
	scale := plan[0].scale
	for _, r := range plan {
		if policy == "not_larger" {
			scale = min(scale, r.scale)
		} else {
			scale = max(scale, r.scale)
		}
	}
	for i := range plan {
		size := math.Floor(scale*float64(shape[plan[i].axis]) + 0.5)
		if !(size >= 0 && size <= ops.MaxElems) {
			return fmt.Errorf("axis %d would have %v elements", plan[i].axis, size)
		}
		plan[i].scale, plan[i].size = scale, int(size)
	}
	return nil
}

// filter computes the elements whose weighted sum is an element of the output.
type filter struct {
	mode, nearest, coordinates string
	antialias, excludeOutside  bool
	a, beyond                  float64
}

func newFilter(n *ir.Node) (*filter, error) {
	f := &filter{mode: getStr(n, "mode"), nearest: getStr(n, "nearest_mode"),
		coordinates: getStr(n, "coordinate_transformation_mode"),
		antialias:   getInt(n, "antialias") != 0, excludeOutside: getInt(n, "exclude_outside") != 0,
		a: getFloat(n, "cubic_coeff_a"), beyond: getFloat(n, "extrapolation_value")}
	if f.mode == "bilinear" {
		f.mode = "linear"
	}
	if f.coordinates == "" { // the first versions
		f.coordinates, f.nearest = "asymmetric", "first"
	}
	if f.antialias && f.mode == "nearest" {
		return nil, fmt.Errorf("antialias: mode is nearest, which has no filter")
	}
	return f, nil
}

// place returns the coordinate, in an axis of d elements, of element o of the resampled axis. outside is set if the
// region of interest extends beyond the axis there.
func (f *filter) place(r resampling, d, o int) (at float64, outside bool) {
	x, last, width := float64(o), float64(d-1), r.scale*float64(d)
	switch f.coordinates {
	case "align_corners":
		if width == 1 {
			return 0, false
		}
		return x * last / (width - 1), false
	case "asymmetric":
		return x / r.scale, false
	case "tf_crop_and_resize":
		if width == 1 {
			at = 0.5 * (r.from + r.to) * last
		} else {
			at = r.from*last + x*(r.to-r.from)*last/(width-1)
		}
		return at, !(at >= 0 && at <= last)
	case "pytorch_half_pixel":
		if r.size <= 1 {
			return 0, false
		}
	case "half_pixel_symmetric":
		offset := float64(d) / 2 * (1 - float64(r.size)/width)
		return offset + (x+0.5)/r.scale - 0.5, false
	}
	return (x+0.5)/r.scale - 0.5, false
}

// taps returns the first of a run of elements, which may be outside the axis, and their weights.
func (f *filter) taps(c *ir.EvalCtx, r resampling, d, o int) (first int, weights []float64, outside bool) {
	at, outside := f.place(r, d, o)
	if outside {
		return 0, nil, true
	}
	low := math.Floor(at)
	part := at - low
	scale := 1.0
	if f.antialias {
		scale = min(r.scale, 1)
	}
	reach := 1.0 // on either side
	if f.mode == "cubic" {
		reach = 2
	}
	start := int(math.Floor(-reach/scale)) + 1
	weights = ops.Make[float64](c, 2-2*start)
	var sum float64
	for i := range ops.Each(c, len(weights)) {
		weights[i] = f.weight(math.Abs(float64(start+i)-part) * scale)
		if k := int(low) + start + i; f.excludeOutside && (k < 0 || k >= d) {
			weights[i] = 0
		}
		sum += weights[i]
	}
	if (f.antialias || f.excludeOutside) && sum != 0 {
		for i := range ops.Each(c, len(weights)) {
			weights[i] /= sum
		}
	}
	return int(low) + start, weights, false
}

// weight returns the filter at a distance.
func (f *filter) weight(x float64) float64 {
	switch {
	case f.mode == "linear":
		return max(0, 1-x)
	case x <= 1:
		return ((f.a+2)*x-(f.a+3))*x*x + 1
	case x < 2:
		return ((x-5)*x+8)*x*f.a - 4*f.a
	}
	return 0
}

// nearestTo rounds a coordinate.
func (f *filter) nearestTo(at, scale float64) float64 {
	switch f.nearest {
	case "floor":
		return math.Floor(at)
	case "ceil":
		return math.Ceil(at)
	case "round_prefer_ceil":
		return math.Floor(at + 0.5)
	case "first": // rounds down when scaling up, and up when scaling down
		if scale < 1 {
			return math.Ceil(at)
		}
		return math.Floor(at)
	}
	return math.Ceil(at - 0.5)
}

// nearestAxes returns, for each axis and index of the result, the index of the element there, or -1 where it is outside
// of the region of interest, and whether there are such.
func nearestAxes(c *ir.EvalCtx, f *filter, shape []int, plan []resampling) (from [][]int, beyond bool) {
	from = make([][]int, len(shape))
	for a, d := range shape {
		from[a] = ops.Make[int](c, d)
		for o := range ops.Each(c, d) {
			from[a][o] = o
		}
	}
	for _, r := range plan {
		d := shape[r.axis]
		if r.scale == 1 && r.size == d && r.from == 0 && r.to == 1 {
			continue
		}
		list := ops.Make[int](c, r.size)
		for o := range ops.Each(c, len(list)) {
			at, outside := f.place(r, d, o)
			list[o] = int(min(max(f.nearestTo(at, r.scale), 0), float64(d-1)))
			if outside {
				list[o], beyond = -1, true
			}
		}
		from[r.axis] = list
	}
	return from, beyond
}

// NearestPlan returns, for each axis and index of the result of a Resize node of mode nearest, the index of the element
// of a tensor of the given shape that is there, or -1 for the extrapolation value, which it returns, too. It does not
// read the first input, in[0].
func NearestPlan(n *ir.Node, in []tensor.Datum, shape []int) (axes [][]int, beyond float64, err error) {
	plan, err := resamplings(nil, n, in, shape)
	if err != nil {
		return nil, 0, err
	}
	f, err := newFilter(n)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range plan {
		if r.size > ops.MaxElems>>10 {
			return nil, 0, fmt.Errorf("axis %d would have %d elements", r.axis, r.size)
		}
	}
	axes, _ = nearestAxes(nil, f, shape, plan)
	return axes, f.beyond, nil
}

// pickNearest selects elements of any type.
func pickNearest(c *ir.EvalCtx, f *filter, x *tensor.Tensor, shape []int, plan []resampling) ([]tensor.Datum, error) {
	rank := x.Rank()
	from, beyond := nearestAxes(c, f, x.Shape(), plan) // per axis and index: the element's offset, or -1 outside
	for a, d := range ops.Strides(x.Shape()) {
		for i, o := range ops.All(c, from[a]) {
			if o > 0 {
				from[a][i] = o * d
			}
		}
	}
	out, err := alloc(c, x.DType(), shape)
	if err != nil {
		return nil, err
	}
	var fill *tensor.Tensor
	if beyond {
		if fill, err = ops.FromFloat64s(c, x.DType(), []float64{f.beyond}); err != nil {
			return nil, err
		}
	}
	m, index := newMover(c, out, x), make([]int, rank)
	for i := range out.Len() {
		c.Step(1)
		o := 0
		for a, k := range index {
			if from[a][k] < 0 {
				o = -1
				break
			}
			o += from[a][k]
		}
		if o < 0 {
			newMover(c, out, fill).copy(i, 0, 1)
		} else {
			m.copy(i, o, 1)
		}
		for a := rank - 1; a >= 0; a-- {
			if index[a]++; index[a] < shape[a] {
				break
			}
			index[a] = 0
		}
	}
	return ops.One(out, nil)
}
