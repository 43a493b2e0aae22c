package graphfuzz

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// recipe adds a node of an operator with operands that fit each other. It reports whether it did.
type recipe func(g *generator, op *ir.Op) bool

var recipes map[string]recipe

func init() {
	recipes = map[string]recipe{
		"If": branch, "Loop": loop, "Scan": scan, "SequenceMap": sequenceMap, "Conv": plane,
	}
	for _, name := range []string{"ArgMax", "ArgMin", "TopK", "Max", "Min", "ReduceMax", "ReduceMin", "Clip", "Relu",
		"Sign",
		"Abs", "Neg", "IsNaN", "IsInf", "Equal", "Less", "Greater", "Where", "Concat", "Transpose", "Round", "Cast",
		"MaxPool",
		"Add", "Sub", "Mul", "Sum", "Mod", "CumSum", "ReduceSum", "Gather", "Reshape", "Identity"} {
		recipes[name] = exceptional
	}
}

// exceptional applies an operator according to its signature or a sample, occasionally to an input with infinities,
// NaN and zeros of both signs, or with the largest integers.
func exceptional(g *generator, op *ir.Op) bool {
	if !g.one(3) {
		if s := allSamples()[op]; len(s) > 0 && g.one(3) {
			return g.sample(op, s[g.IntN(len(s))])
		}
		return g.generic(op)
	}
	was := g.wild
	g.wild = true
	d := tensor.Float32
	if ints := slices.DeleteFunc(slices.Clone(op.Elems["T"]),
		func(d tensor.DType) bool { return !d.IsInt() }); len(ints) > 0 &&
		g.IntN(2) == 0 {
		d = ints[g.IntN(len(ints))]
	}
	shape := g.randomShape(1 + g.IntN(3))
	if g.one(4) {
		g.pool = append(g.pool, g.constant(g.fillOf(odd).make(d, shape)))
	} else {
		g.newInput(d, g.dims(shape), shape, g.fillOf(odd))
	}
	done := g.generic(op) // it takes the last value, most likely
	g.wild = was
	return done
}

// plane applies a convolution to images.
func plane(g *generator, op *ir.Op) bool {
	x := g.existing(func(x *value) bool {
		return x.elem() == tensor.Float32 && len(x.shape()) == 4 && elems(x.shape()) > 0
	})
	if x == nil || g.IntN(3) > 0 {
		shape := []int{pick(g.Source, 1, 2, g.sizes["B"]), 1 + g.IntN(6), 1 + g.IntN(9), 1 + g.IntN(20)}
		x = g.newInput(tensor.Float32, g.dims(shape), shape, g.fillOf(normal))
	}
	c := x.shape()[1]
	group, out := 1, 1+g.IntN(18)
	if g.one(3) {
		group, out = c, c*(1+g.IntN(2))
	}
	kh, kw := 1+g.IntN(3), 1+g.IntN(4)
	in := []*value{x, g.f32(1, out, c/group, kh, kw)}
	if g.IntN(2) == 0 {
		in = append(in, g.f32(1, out))
	}
	attrs := []ir.Attr{ir.A("group", group), ir.A("pads", []int64{int64(kh / 2), int64(kw / 2), int64(kh / 2),
		int64(kw / 2)})}
	if g.one(3) {
		attrs = append(attrs, ir.A("strides", []int64{int64(1 + g.IntN(2)), int64(1 + g.IntN(3))}))
	}
	return g.try(op, in, 1, attrs...) != nil
}
