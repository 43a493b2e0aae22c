package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// dearest is the geometric mean of the times with parameters, relative to those with constants, that is allowed, and
// longestPacking the time of Set.Replace relative to that of runtime.New, which packs once.
const dearest, longestPacking = 1.03, 1.2

// runParameters measures models whose weights are all parameters against the same with constants, in turns.
func runParameters(ctx context.Context, e *env, r *result) error {
	t := table{Header: []string{"model", "constants", "parameters", "parameters : constants", "load", "replace", "replace : load"},
		Note: "One thread, batch 1, at the lengths of the tasks. *load*: runtime.New of the graph after the passes, which " +
			"packs the weights. *replace*: Set.Replace of all weights, in memory that is there."}
	var product, packing, count float64
	for _, c := range e.parameterCases() {
		e.progress("  %s", c.name)
		row, ratio, pack, err := e.withParameters(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", c.name, err))
			continue
		}
		t.add(row...)
		product, packing, count = product+math.Log(ratio), packing+math.Log(pack), count+1
	}
	r.Tables = append(r.Tables, t)
	if count == 0 {
		return nil
	}
	mean, pack := math.Exp(product/count), math.Exp(packing/count)
	r.Verdicts = append(r.Verdicts,
		judge("weights as parameters against constants, geometric mean", "at most "+number(dearest)+"×", number(mean)+"×",
			mean <= dearest),
		judge("replacing all weights against loading, geometric mean", "at most "+number(longestPacking)+"×", number(pack)+"×",
			pack <= longestPacking))
	return nil
}

// parameterCase is a model with and without parameters.
type parameterCase struct {
	name  string
	graph func(parameters bool) (*ir.Graph, error) // after the passes
	in    func() (map[string]tensor.Datum, error)
}

func (e *env) parameterCases() (all []parameterCase) {
	for _, id := range e.lowPresets() {
		all = append(all, e.presetCase(id))
	}
	size := 1
	if e.quick {
		size = 8
	}
	return append(all, graphCase("BERT, 4 layers", encoder(4, 512/size, 128/size, 8)), graphCase("ResNet-50", residual(size)))
}

func (e *env) presetCase(id string) parameterCase {
	var m *model
	ready := func() (err error) {
		if m == nil {
			m, err = newModel(e, id)
		}
		return err
	}
	return parameterCase{id, func(parameters bool) (*ir.Graph, error) {
		if err := ready(); err != nil || !parameters {
			return m.graph, err
		}
		opened, err := open.File(m.dir, open.Options{Parameters: []string{"*"}})
		if err != nil {
			return nil, err
		}
		return opened.Graph()
	}, func() (map[string]tensor.Datum, error) {
		if err := ready(); err != nil {
			return nil, err
		}
		x, _, err := m.input(1, m.preset.Length)
		return map[string]tensor.Datum{m.inputName(): x}, err
	}}
}

// withParameters measures a model.
func (e *env) withParameters(ctx context.Context, c parameterCase) (row []string, ratio, pack float64, err error) {
	in, err := c.in()
	if err != nil {
		return nil, 0, 0, err
	}
	var all []contender
	var graphs []*ir.Graph
	var both []*ours
	for i, name := range []string{"constants", "parameters"} {
		g, err := c.graph(i == 1)
		if err != nil {
			return nil, 0, 0, err
		}
		if i == 1 && len(g.Parameters) == 0 {
			return nil, 0, 0, fmt.Errorf("has no parameters")
		}
		o, err := newOurs(ctx, g, in, runtime.Options{Threads: 1})
		if err != nil {
			return nil, 0, 0, err
		}
		defer o.close()
		graphs, both, all = append(graphs, g), append(both, o), append(all, o.contender(ctx, name))
	}
	set := both[1].model.Set()
	content, err := set.Read()
	if err != nil {
		return nil, 0, 0, err
	}
	other := map[string]tensor.Datum{}
	for name, d := range content {
		other[name] = halved(d.(*tensor.Tensor))
	}
	replace := func() error {
		content, other = other, content
		return set.Replace(ctx, content)
	}
	for range 3 { // both versions are there, and the last one has other content than the first
		if err := replace(); err != nil {
			return nil, 0, 0, err
		}
		if _, err := both[1].session.Run(ctx, in); err != nil { // what is packed in the first run
			return nil, 0, 0, err
		}
	}
	s, err := measure(ctx, e.effort(8*time.Second), all)
	if err != nil {
		return nil, 0, 0, err
	}
	p, err := measure(ctx, e.effort(4*time.Second), []contender{
		{name: "load", run: repeat(func() error {
			m, err := runtime.New(graphs[0], runtime.Options{Backend: cpu.New(), Threads: 1})
			if err != nil {
				return err
			}
			return m.Close()
		})},
		{name: "replace", run: repeat(replace)},
	})
	if err != nil {
		return nil, 0, 0, err
	}
	dear, packing := s.ratio("parameters", "constants"), p.ratio("replace", "load")
	return []string{c.name, seconds(s.of("constants")), seconds(s.of("parameters")), dear.String(), seconds(p.of("load")),
		seconds(p.of("replace")), packing.String()}, dear.mid, packing.mid, nil
}

// halved returns a tensor with half the numbers, for floats; a copy of others.
func halved(t *tensor.Tensor) *tensor.Tensor {
	t = t.Clone()
	if t.DType() == tensor.Float32 {
		for i := range tensor.Data[float32](t) {
			tensor.Data[float32](t)[i] /= 2
		}
	}
	return t
}

// weights makes a weight of random numbers: a constant or a parameter.
type weights = func(scale float64, shape ...int) *ir.Value

// graphCase is a model of standard operators, as a file would have it. build adds its nodes, and returns its input.
func graphCase(name string, build func(b *ir.Builder, w weights) *tensor.Tensor) parameterCase {
	make := func(parameters bool) (*ir.Graph, *tensor.Tensor, error) {
		b := ir.NewBuilder(name, ops.Default, ops.Opsets())
		r, n := noise(1), 0
		x := build(b, func(scale float64, shape ...int) *ir.Value {
			t := random(r, shape...)
			for i := range tensor.Data[float32](t) {
				tensor.Data[float32](t)[i] *= float32(scale)
			}
			n++
			if parameters {
				return b.Parameter(fmt.Sprintf("weight%d", n), t)
			}
			return b.Const(fmt.Sprintf("weight%d", n), t)
		})
		g, err := b.Build()
		return g, x, err
	}
	return parameterCase{name, func(parameters bool) (*ir.Graph, error) {
		g, _, err := make(parameters)
		if err != nil {
			return nil, err
		}
		m, err := open.Graph(g, name, open.Options{})
		if err != nil {
			return nil, err
		}
		return m.Graph()
	}, func() (map[string]tensor.Datum, error) {
		g, x, err := make(false)
		if err != nil {
			return nil, err
		}
		return map[string]tensor.Datum{g.Inputs[0].Name: x}, nil
	}}
}

// encoder builds the layers of a BERT, without the embedding: attention of heads and two linear layers, each with a
// residual and a norm, as torch exports them.
func encoder(layers, width, tokens, heads int) func(b *ir.Builder, w weights) *tensor.Tensor {
	return func(b *ir.Builder, w weights) *tensor.Tensor {
		op := func(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value { return b.Op("", name, in, attrs...) }
		x := b.Input("x", ir.Tensor(tensor.Float32, 1, tokens, width))
		y, head := x, width/heads
		linear := func(x *ir.Value, from, to int) *ir.Value {
			y := op("MatMul", []*ir.Value{x, w(1/math.Sqrt(float64(from)), from, to)})
			return op("Add", []*ir.Value{y, w(0.1, to)})
		}
		norm := func(x *ir.Value) *ir.Value {
			return op("LayerNormalization", []*ir.Value{x, w(1, width), w(0.1, width)}, ir.A("axis", -1))
		}
		split := func(x *ir.Value, perm ...int64) *ir.Value {
			x = op("Reshape", []*ir.Value{x, b.Ints(1, int64(tokens), int64(heads), int64(head))})
			return op("Transpose", []*ir.Value{x}, ir.A("perm", perm))
		}
		for range layers {
			q, k, v := split(linear(y, width, width), 0, 2, 1, 3), split(linear(y, width, width), 0, 2, 3, 1), split(linear(y, width, width), 0, 2, 1, 3)
			a := op("Div", []*ir.Value{op("MatMul", []*ir.Value{q, k}), b.Const("scale", tensor.Scalar(float32(math.Sqrt(float64(head)))))})
			a = op("MatMul", []*ir.Value{op("Softmax", []*ir.Value{a}, ir.A("axis", -1)), v})
			a = op("Transpose", []*ir.Value{a}, ir.A("perm", []int64{0, 2, 1, 3}))
			a = linear(op("Reshape", []*ir.Value{a, b.Ints(1, int64(tokens), int64(width))}), width, width)
			y = norm(op("Add", []*ir.Value{y, a}))
			h := op("Gelu", []*ir.Value{linear(y, width, 4*width)})
			y = norm(op("Add", []*ir.Value{y, linear(h, 4*width, width)}))
		}
		b.Output("y", y)
		return random(noise(2), 1, tokens, width)
	}
}

// residual builds a ResNet-50 with 1/size of the channels and pixels, as torch exports it: batch norms are part of the
// convolutions.
func residual(size int) func(b *ir.Builder, w weights) *tensor.Tensor {
	return func(b *ir.Builder, w weights) *tensor.Tensor {
		op := func(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value { return b.Op("", name, in, attrs...) }
		pixels := 224 / size
		x := b.Input("x", ir.Tensor(tensor.Float32, 1, 3, pixels, pixels))
		conv := func(x *ir.Value, from, to, k, stride int) *ir.Value {
			p := int64(k / 2)
			return op("Conv", []*ir.Value{x, w(1/math.Sqrt(float64(from*k*k)), to, from, k, k), w(0.1, to)},
				ir.A("strides", []int64{int64(stride), int64(stride)}), ir.A("pads", []int64{p, p, p, p}))
		}
		relu := func(x *ir.Value) *ir.Value { return op("Relu", []*ir.Value{x}) }
		y := relu(conv(x, 3, 64/size, 7, 2))
		y = op("MaxPool", []*ir.Value{y}, ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{2, 2}),
			ir.A("pads", []int64{1, 1, 1, 1}))
		from := 64 / size
		for i, blocks := range []int{3, 4, 6, 3} {
			width := 64 << i / size
			for k := range blocks {
				stride := 1
				if k == 0 && i > 0 {
					stride = 2
				}
				skip := y
				if k == 0 {
					skip = conv(y, from, 4*width, 1, stride)
				}
				y = relu(conv(y, from, width, 1, 1))
				y = relu(conv(y, width, width, 3, stride))
				y = relu(op("Add", []*ir.Value{conv(y, width, 4*width, 1, 1), skip}))
				from = 4 * width
			}
		}
		y = op("Flatten", []*ir.Value{op("GlobalAveragePool", []*ir.Value{y})})
		y = op("Gemm", []*ir.Value{y, w(1/math.Sqrt(float64(from)), 1000/size, from), w(0.1, 1000/size)}, ir.A("transB", 1))
		b.Output("y", y)
		return random(noise(2), 1, 3, pixels, pixels)
	}
}
