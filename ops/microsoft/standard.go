package microsoft

import (
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Operators that the standard adopted later.
var (
	Trilu = composed(&ir.Op{Name: "Trilu",
		Doc: "The part of each matrix on and above (upper) or below its k-th diagonal; zeros elsewhere.", Tol: ir.Exact,
		In: ops.Sig("X:T", "k:int64?"), Out: ops.Sig("Y:T"),
		Attrs: []ir.AttrSpec{ops.IntSpec("upper", 1, "whether the upper part is kept")}, Elems: types{"T": ops.Any},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(with(b, "Trilu", x, attrsOf(n, "upper")...))
		}})
	Range = composed(&ir.Op{Name: "Range",
		Doc: "start, start+delta, … up to but not including limit; the default of delta is 1.", Tol: ir.Rounding,
		In: ops.Sig("start:T", "limit:T", "delta:T?"), Out: ops.Sig("Y:T[_]"),
		Elems: types{"T": {tensor.Float32, tensor.Float64, tensor.Int16, tensor.Int32, tensor.Int64}},
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			delta := in(x, 2)
			if delta == nil {
				delta = constLike(b, x[0], 1)
			}
			return vals(std(b, "Range", x[0], x[1], delta))
		}})
	GatherND = composed(&ir.Op{Name: "GatherND",
		Doc: "The slices of data at the vectors of indices along the last axis of indices.", Tol: ir.Exact,
		In: ops.Sig("data:T", "indices:I"), Out: ops.Sig("output:T"),
		Elems: types{"T": ops.Any, "I": {tensor.Int32, tensor.Int64}},
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(std(b, "GatherND", x[0], cast(b, x[1], tensor.Int64)))
		}})
	ExpandDims = composed(&ir.Op{Name: "ExpandDims", Doc: "X with a new axis of size 1 at axis.", Tol: ir.Exact,
		In: ops.Sig("X:T", "axis:int32"), Out: ops.Sig("Y:T"), Elems: types{"T": ops.Any},
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			if k, ok := ops.ConstInts(x[1]); ok && len(k) == 1 {
				return vals(std(b, "Unsqueeze", x[0], b.Ints(k...)))
			}
			return vals(std(b, "Unsqueeze", x[0], std(b, "Reshape", cast(b, x[1], tensor.Int64), b.Ints(1))))
		}})
	Pad = composed(&ir.Op{Name: "Pad",
		Doc: "data with pads before and after each axis. pads is a vector, or a matrix of one row, with all pads " +
			"before axes first.", Tol: ir.Exact,
		In: ops.Sig("data:T", "pads:int64", "value:T?"), Out: ops.Sig("output:T"), Elems: types{"T": real3},
		Attrs: []ir.AttrSpec{ops.ChoiceSpec("mode", "content of the pads", "constant", "reflect", "edge")},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			pads := x[1]
			if k, ok := ops.ConstInts(pads); ok {
				pads = b.Ints(k...)
			} else if rank(b, pads, "pads") != 1 {
				pads = std(b, "Reshape", pads, b.Ints(-1))
			}
			args := vals(x[0], pads)
			if v := in(x, 2); v != nil {
				args = append(args, std(b, "Reshape", v, b.Ints()))
			}
			return vals(with(b, "Pad", args, attrsOf(n, "mode")...))
		}})
	GridSample = composed(&ir.Op{Name: "GridSample",
		Doc: "X (N,C,H,W) at the places that Grid (N,H_out,W_out,2) names as x, y from -1 to 1.", Tol: ir.Summing,
		In: ops.Sig("X:T[N,_,_,_]", "Grid:T[N,_,_,2]"), Out: ops.Sig("Y:T[N,_,_,_]"), Elems: types{"T": real3},
		Attrs: []ir.AttrSpec{ops.IntSpec("align_corners", 0, "whether -1 and 1 are the centers of the outermost "+
			"elements (1) or their edges (0)"),
			ops.ChoiceSpec("mode", "interpolation of elements", "bilinear", "nearest", "bicubic"),
			ops.ChoiceSpec("padding_mode", "values outside of X", "zeros", "border", "reflection")},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			mode := strings.TrimPrefix(ops.Str(n, "mode"), "bi")
			return vals(with(b, "GridSample", x, append(attrsOf(n, "align_corners", "padding_mode"),
				ir.A("mode", mode))...))
		}})
	Unique = composed(&ir.Op{Name: "Unique",
		Doc: "The distinct elements of a vector in the order of their first occurrence, with the index in y of each " +
			"element of x, and the number of occurrences.", Tol: ir.Exact,
		In: ops.Sig("x:T[_]"), Out: ops.Sig("y:T[_]", "idx:int64[_]", "counts:int64[_]"), Elems: types{"T": ops.Any},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			u := b.Ops("", "Unique", 4, x, ir.A("sorted", 0))
			return vals(u[0], u[2], u[3])[:max(1, len(n.Outputs))]
		}})
)
