package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GridSample interpolates at coordinates that are data.
var (
	GridSample = ops.Same(gridSampleOp(22, oneOf("mode", "linear", "interpolation of elements", "nearest", "cubic")),
		20)
	// In the first version, the names of modes were those for two dimensions.
	_ = gridSampleOp(16, oneOf("mode", "bilinear", "interpolation of elements", "nearest", "bicubic"))
)

func gridSampleOp(since int, mode ir.AttrSpec) *ir.Op {
	return ops.Register(&ir.Op{
		Name: "GridSample", Since: since,
		Doc: "X (N,C,…) at the coordinates in grid (N,…,axes), whose last axis has those of the last axis of X " +
			"first, from -1 to 1 over its extent.",
		In: ops.Sig("X:T1", "grid:T2"), Out: ops.Sig("Y:T1"),
		Elems: map[string][]tensor.DType{"T1": numbersAndBool, "T2": ops.Floats},
		Attrs: []ir.AttrSpec{intAttr("align_corners", 0,
			"whether -1 and 1 are the centers of the outermost elements (1) or their edges (0)"), mode,
			oneOf("padding_mode", "zeros", "values outside of X", "border", "reflection")},
		NoGradient: ops.NotYet,
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			if len(in) < 3 {
				return nil, fmt.Errorf("X: expected at least three axes, found %v", in)
			}
			g := tensorIn(n, 1)
			if g.NoRank {
				return append(in[:2:2], unknownShape(len(in)-2)...), nil
			}
			if len(g.Shape) != len(in) {
				return nil, fmt.Errorf("X %v and grid %v: expected equal ranks", in, g.Shape)
			}
			return append(in[:2:2], g.Shape[1:len(in)-1]...), nil
		}),
		Eval: evalGridSample,
		Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
			x, g := in[0], in[1]
			switch {
			// the axis of a sequence of coordinates
			case x.Constant() && !g.Constant() && !g.Global && g.Axis > 0 && g.Axis < len(n.In(1).Shape())-1:
				g.State = 0
				g.Axis++
				return spread(n, g)
			case !x.Constant() && !x.Global && x.Axis == 1 && g.Constant(): // channels
				x.State = 0
				return spread(n, x)
			}
			for _, f := range in {
				if !f.Constant() && (f.Global || f.Axis != 0) {
					return spread(n, ops.Global(n, in))
				}
			}
			return spread(n, ops.Join(n, in, []int{1, 1}, 1)) // samples
		},
		Linear: ops.LinearFirst,
		Tol:    ir.Summing,
	})
}

func evalGridSample(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	g, err := need(in, 1, "grid")
	if err != nil {
		return nil, err
	}
	k := x.Rank() - 2
	if k < 1 || k > 8 || g.Rank() != k+2 || g.Dim(0) != x.Dim(0) || g.Dim(k+1) != k {
		return nil, fmt.Errorf(
			"X %s and grid %s: expected ranks from 3 to 10, equal, the same batch, and a coordinate per axis", x, g)
	}
	s := NewGridSampler(c.Node, x.Shape()[2:])
	shape := append(slices.Clone(x.Shape()[:2]), g.Shape()[1:k+1]...)
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	v, err := ops.Float64s(c, x)
	if err != nil {
		return nil, err
	}
	grid := ops.F64(c, in, 1)
	y := ops.Make[float64](c, product(shape))
	channels, size, places := x.Dim(1), product(s.s.shape), product(shape[2:])
	if size == 0 {
		return ops.One(ops.Real(c, x.DType(), y, shape...))
	}
	for b := range shape[0] {
		c.Step(1)
		for p := range places {
			c.Step(1)
			c.Step(64)
			at, weights := s.Taps(grid[(b*places+p)*k : (b*places+p+1)*k])
			for ch := range channels {
				c.Step(1)
				plane := v[(b*channels+ch)*size:]
				var sum float64
				for i, o := range at {
					sum += weights[i] * plane[o]
				}
				y[(b*channels+ch)*places+p] = sum
			}
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// GridSampler finds the elements of X that a node GridSample interpolates from. Only one goroutine may use it at a
// time.
type GridSampler struct{ s sampler }

// NewGridSampler returns a sampler for planes of the given sizes.
func NewGridSampler(n *ir.Node, sizes []int) *GridSampler {
	return &GridSampler{sampler{mode: getStr(n, "mode"), padding: getStr(n, "padding_mode"),
		corners: getInt(n, "align_corners") != 0, shape: sizes}}
}

// Taps returns offsets into a plane, with their weights, for the given coordinates. They are valid until the next call.
func (g *GridSampler) Taps(coords []float64) ([]int, []float64) { return g.s.taps(coords) }

// sampler finds the elements near given coordinates.
type sampler struct {
	mode, padding string
	corners       bool
	shape         []int
	at            []int
	weights       []float64
}

// taps returns the offsets and weights of the elements from which the value at the given coordinates is interpolated.
func (s *sampler) taps(coords []float64) ([]int, []float64) {
	s.at, s.weights = append(s.at[:0], 0), append(s.weights[:0], 1)
	for a, d := range s.shape {
		u := coords[len(coords)-1-a]
		x := ((u+1)*float64(d) - 1) / 2
		if s.corners {
			x = (u + 1) / 2 * float64(d-1)
		}
		if s.mode == "nearest" {
			x = math.RoundToEven(x)
		}
		cubic := s.mode == "cubic" || s.mode == "bicubic"
		if !cubic || s.padding != "border" { // of those, torch and ONNX Runtime move each element into the axis
			x = s.inside(x, d)
		}
		low, w := math.Floor(x), []float64{1}
		switch {
		case s.mode == "linear" || s.mode == "bilinear":
			w = []float64{1 - (x - low), x - low}
		case cubic:
			f := filter{a: -0.75}
			t := x - low
			w = []float64{f.weight(t + 1), f.weight(t), f.weight(1 - t), f.weight(2 - t)}
			low--
		}
		n := len(s.at)
		for i, wi := range w {
			k, ok := s.index(low+float64(i), d)
			for j := range n {
				if ok {
					s.at, s.weights = append(s.at, s.at[j]*d+k), append(s.weights, s.weights[j]*wi)
				}
			}
		}
		s.at, s.weights = append(s.at[:0], s.at[n:]...), append(s.weights[:0], s.weights[n:]...)
	}
	return s.at, s.weights
}

// inside maps a coordinate into an axis of d elements, for the paddings border and reflection.
func (s *sampler) inside(x float64, d int) float64 {
	lo, hi := s.border(d)
	switch {
	case x >= lo && x <= hi:
	case s.padding == "border":
		return min(max(x, 0), float64(d-1))
	case s.padding == "reflection":
		return reflect(x, lo, hi)
	}
	return x
}

func (s *sampler) border(d int) (lo, hi float64) {
	if s.corners {
		return 0, float64(d - 1)
	}
	return -0.5, float64(d) - 0.5
}

// index returns the element at an integer coordinate, if there is one.
func (s *sampler) index(x float64, d int) (int, bool) {
	switch s.padding {
	case "border":
		x = min(max(x, 0), float64(d-1))
	case "reflection":
		lo, hi := s.border(d)
		x = math.Trunc(reflect(x, lo, hi))
	}
	if !(x >= 0 && x < float64(d)) { // true for NaN
		return 0, s.padding != "zeros" && d > 0
	}
	return int(x), true
}

// reflect reflects x at lo and hi until it is between them.
func reflect(x, lo, hi float64) float64 {
	span := hi - lo
	if span <= 0 {
		return lo
	}
	dist := lo - x
	if x > hi {
		dist = x - hi
	} else if x >= lo {
		return x
	}
	n := math.Floor(dist / span)
	r := dist - n*span
	if (math.Mod(n, 2) == 0) == (x < lo) {
		return lo + r
	}
	return hi - r
}
