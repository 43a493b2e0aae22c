package graphfuzz

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
)

// dims returns the dimensions of an input of a shape. Some of those with the size of a symbol are that symbol.
func (g *generator) dims(shape []int) ir.Shape {
	out := ir.Shape{}
	for i, n := range shape {
		d := ir.Const(int64(n))
		for _, s := range []string{"B", "L", "W"} {
			if g.sizes[s] == n && (s != "B" || i == 0) && g.IntN(3) > 0 {
				d = ir.Sym(s)
				break
			}
		}
		out = append(out, d)
	}
	return out
}

// fillOf returns a fill of a kind with a seed.
func (g *generator) fillOf(kind fillKind) fill {
	return fill{kind: kind, seed: uint64(g.IntN(1 << 16))}
}

// newInput adds an input of the outermost graph.
func (g *generator) newInput(d tensor.DType, dims ir.Shape, shape []int, f fill) *value {
	x := &value{&ir.Value{Name: g.name("in"), Type: &ir.TensorType{Elem: d, Shape: dims}}, eval.Widen(f.make(d, shape))}
	g.inputs = append(g.inputs, input{x: x, fill: f})
	g.root.Inputs = append(g.root.Inputs, x.v)
	return g.addOuter(x)
}

// addOuter adds a value of the outermost graph.
func (g *generator) addOuter(x *value) *value {
	f := g.frame
	for f.Outer != nil {
		f = f.Outer
	}
	f.Values[x.v] = x.d
	g.pool = append(g.pool, x)
	return x
}

// newDatum adds an input that is not a tensor, or has exactly the given elements.
func (g *generator) newDatum(d tensor.Datum, typ ir.Type) *value {
	x := &value{&ir.Value{Name: g.name("in"), Type: typ}, eval.Widen(d)}
	g.inputs = append(g.inputs, input{x: x, fill: fill{given: d}})
	g.root.Inputs = append(g.root.Inputs, x.v)
	return g.addOuter(x)
}

// constant returns a constant.
func (g *generator) constant(t *tensor.Tensor) *value {
	return &value{ir.NewConst(g.name("c"), t), eval.Widen(t)}
}

// ints returns a constant vector of int64.
func (g *generator) ints(v ...int64) *value { return g.constant(tensor.FromSlice(v, len(v))) }

// fresh returns a new input or constant.
func (g *generator) fresh(d tensor.DType, shape []int, f fill) *value {
	if g.IntN(5) < 2 && elems(shape) <= 4096 {
		return g.constant(f.make(d, shape))
	}
	return g.newInput(d, g.dims(shape), shape, f)
}

func elems(shape []int) int {
	n := 1
	for _, k := range shape {
		n *= k
	}
	return n
}

// operand returns a tensor of a type and shape: one that there is, or a new one.
func (g *generator) operand(d tensor.DType, shape []int, kind fillKind) *value {
	if kind == normal || g.one(3) {
		var fit []*value
		for _, x := range g.pool {
			if x.elem() == d && slices.Equal(x.shape(), shape) {
				fit = append(fit, x)
			}
		}
		if len(fit) > 0 && g.IntN(4) > 0 {
			return fit[max(g.IntN(len(fit)), g.IntN(len(fit)))]
		}
		if x := g.adapted(d, shape); x != nil {
			return x
		}
	}
	return g.fresh(d, shape, g.fillOf(g.kind(kind)))
}

// kind replaces normal numbers by others now and then.
func (g *generator) kind(k fillKind) fillKind {
	if k != normal {
		return k
	}
	if g.wild && g.one(3) {
		return odd
	}
	return pick(g.Source, normal, normal, normal, positive, unit, ties)
}

// adapted turns a value into one of another shape or type, if that is simple.
func (g *generator) adapted(d tensor.DType, shape []int) *value {
	if g.IntN(3) > 0 || g.nodes <= 0 {
		return nil
	}
	for range 3 {
		if len(g.pool) == 0 {
			return nil
		}
		x := g.pool[g.IntN(len(g.pool))]
		switch {
		case x.tensor() == nil:
		case x.elem() == d && x.tensor().Len() == elems(shape) && elems(shape) > 0:
			to := make([]int64, len(shape))
			for i, n := range shape {
				to[i] = int64(n)
			}
			return g.op("Reshape", []*value{x, g.ints(to...)})
		case slices.Equal(x.shape(), shape) && x.elem() != d && numeric(d) && numeric(x.elem()):
			return g.op("Cast", []*value{x}, ir.A("to", int64(d)))
		}
	}
	return nil
}

func numeric(d tensor.DType) bool {
	return d == tensor.Float32 || d == tensor.Float64 || d == tensor.Float16 || d == tensor.BFloat16 ||
		d == tensor.Int32 || d == tensor.Int64 || d == tensor.Int8 || d == tensor.Uint8 || d == tensor.Bool ||
		d == tensor.Int16 || d == tensor.Uint16 || d == tensor.Uint32 || d == tensor.Uint64
}

// existing returns a tensor that there is and that ok accepts, or nil.
func (g *generator) existing(ok func(x *value) bool) *value {
	var fit []*value
	for _, x := range g.pool {
		if x.tensor() != nil && ok(x) {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[max(g.IntN(len(fit)), g.IntN(len(fit)))]
}

// some returns a tensor with one of the element types.
func (g *generator) some(rank int, of ...tensor.DType) *value {
	if g.IntN(5) > 0 {
		x := g.existing(func(x *value) bool {
			return slices.Contains(of, x.elem()) && (rank < 0 || len(x.shape()) == rank)
		})
		if x != nil {
			return x
		}
	}
	if rank < 0 {
		rank = g.IntN(5)
	}
	return g.fresh(g.elem(of), g.randomShape(rank), g.fillOf(g.kind(normal)))
}

// elem chooses an element type, mostly float32.
func (g *generator) elem(of []tensor.DType) tensor.DType {
	if slices.Contains(of, tensor.Float32) && (g.plain || g.IntN(3) > 0) {
		return tensor.Float32
	}
	return of[g.IntN(len(of))]
}

// size chooses a dimension.
func (g *generator) size() int {
	switch g.IntN(12) {
	case 0, 1:
		return g.sizes["B"]
	case 2, 3, 4:
		return g.sizes["L"]
	case 5:
		return g.sizes["W"]
	case 6:
		return pick(g.Source, 1, 1, 1, 0)
	case 7:
		return pick(g.Source, 8, 9, 15, 16, 17, 31, 33, 67)
	}
	return 1 + g.IntN(5)
}

func (g *generator) randomShape(rank int) []int {
	for {
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = g.size()
		}
		if elems(shape) <= 6000 {
			return shape
		}
	}
}
