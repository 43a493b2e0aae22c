package main

import (
	"fmt"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// onnxForm is a way to write a model in ONNX's operators.
type onnxForm struct {
	name   string
	write  func(m *model) (file string, err error)
	fixed  bool // batch and length are given when the file is loaded
	single bool // takes longer with several threads, so it is measured with one
}

// exportedForm is the output of `essmc export`.
var exportedForm = onnxForm{name: "as exported", write: (*model).onnx}

// onnxForms are the forms for ONNX Runtime.
var onnxForms = []onnxForm{
	exportedForm,
	{name: "sizes fixed", write: (*model).onnx, fixed: true},
	{name: "chunks of 32", write: func(m *model) (string, error) { return m.inChunks(32) }},
	{name: "chunks of 128", write: func(m *model) (string, error) { return m.inChunks(128) }},
	{name: "functions", write: (*model).functions, single: true},
}

// onnx exports the model without its optional inputs, and returns the file.
func (m *model) onnx() (string, error) {
	file := m.dir + ".onnx"
	return file, export(file, m.graph, lower.Options{OmitOptional: true})
}

func export(file string, g *ir.Graph, o lower.Options) error {
	out, bodies, err := lower.Lower(g, o)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var w onnx.WriteOptions
	for _, f := range bodies {
		w.Functions = append(w.Functions, onnx.Function(f))
	}
	return onnx.WriteFile(file, out, w)
}

// functions exports the model with layers as functions, whose bodies are loops over steps.
func (m *model) functions() (string, error) {
	file := m.dir + "-functions.onnx"
	return file, export(file, m.graph, lower.Options{Functions: true, OmitOptional: true})
}

// inChunks exports the model with chunks of the given number of steps.
func (m *model) inChunks(steps int) (string, error) {
	g, err := m.fused()
	if err != nil {
		return "", err
	}
	file := fmt.Sprintf("%s-chunks%d.onnx", m.dir, steps)
	for i, n := range slices.Clone(g.Nodes) {
		if n.Op.FullName() != "essm.SSM" {
			continue
		}
		body, err := lower.InChunks(n, lower.DefaultOpset, steps)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		splice(g, n, body, fmt.Sprintf("form%d.", i))
	}
	if err := g.Sort(); err != nil {
		return "", err
	}
	return file, export(file, g, lower.Options{OmitOptional: true})
}

// oneStep exports a causal model for one step and the state before it. Each system is written as one step of its
// recurrence.
func (m *model) oneStep() (string, error) {
	g, err := m.fused()
	if err != nil {
		return "", err
	}
	file := m.dir + "-next.onnx"
	b := ir.Edit(g, ops.Default, ops.Opsets())
	for _, n := range slices.Clone(g.Nodes) {
		if n.Op.FullName() != "essm.SSM" {
			continue
		}
		if err := writeStep(b, g, n); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := g.Sort(); err != nil {
		return "", err
	}
	return file, export(file, g, lower.Options{})
}

// writeStep replaces a real system of one channel with a state by one step of its recurrence: z = λ̄ z + b (B u) in
// float32, with the real parts of all states before the imaginary ones, and y = C Re z + D u.
func writeStep(b *ir.Builder, g *ir.Graph, n *ir.Node) error {
	state, next := n.In(10), n.Out(1)
	if state == nil || next == nil || n.In(7) != nil || n.In(8) != nil {
		return fmt.Errorf("%v: expected a real system with a state", n)
	}
	var parts [4][]float64 // λΔ and b: real and imaginary parts
	for i := range parts {
		v := n.In(1 + i)
		if v.Const == nil {
			return fmt.Errorf("%v: expected constants", n)
		}
		var err error
		if parts[i], err = v.Const.Float64s(); err != nil {
			return err
		}
	}
	k := len(parts[0])
	number := func(f func(a, b complex128) float64) *ir.Value {
		x := make([]float32, k)
		for i := range x {
			x[i] = float32(f(cmplx.Exp(complex(parts[0][i], parts[1][i])), complex(parts[2][i], parts[3][i])))
		}
		return b.Const("c", tensor.FromSlice(x, k))
	}
	op := func(name string, in ...*ir.Value) *ir.Value { return b.Op("", name, in) }
	ar, ai := number(func(a, _ complex128) float64 { return real(a) }),
		number(func(a, _ complex128) float64 { return imag(a) })
	br, bi := number(func(_, b complex128) float64 { return real(b) }),
		number(func(_, b complex128) float64 { return imag(b) })
	axis := b.Const("axis", tensor.FromSlice([]int64{1}, 1))
	v := op("Squeeze", b.Op("essm", "HeadLinear", []*ir.Value{n.In(0), n.In(5)}), axis)
	z := b.Ops("", "Split", 2, []*ir.Value{state, b.Const("sizes", tensor.FromSlice([]int64{int64(k), int64(k)}, 2))},
		ir.A("axis", 1))
	re := op("Add", op("Sub", op("Mul", ar, z[0]), op("Mul", ai, z[1])), op("Mul", br, v))
	im := op("Add", op("Add", op("Mul", ar, z[1]), op("Mul", ai, z[0])), op("Mul", bi, v))
	y := b.Op("essm", "HeadLinear", []*ir.Value{op("Unsqueeze", re, axis), n.In(6)})
	if d := n.In(9); d != nil {
		y = op("Add", y, b.Op("essm", "HeadScale", []*ir.Value{n.In(0), d}))
	}
	after := b.Op("", "Concat", []*ir.Value{re, im}, ir.A("axis", 1))
	if err := b.Err(); err != nil {
		return err
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(other *ir.Node) bool { return other == n })
	for old, with := range map[*ir.Value]*ir.Value{n.Out(0): y, next: after} {
		g.ReplaceUses(old, with)
		old.Name, with.Name = with.Name, old.Name
	}
	return nil
}

// fused returns the model's graph after the portable passes that fuse systems.
func (m *model) fused() (*ir.Graph, error) {
	opened, err := open.File(m.dir, open.Options{})
	if err != nil {
		return nil, err
	}
	source, err := opened.Source()
	if err != nil {
		return nil, err
	}
	g := source.Clone()
	return g, passes.Run(g, passes.Pipeline(), passes.Options{StopAfter: passes.DCE.Name})
}

// splice replaces a node by a body, whose inputs and outputs are those of the operator.
func splice(g *ir.Graph, n *ir.Node, body *ir.Graph, prefix string) {
	outside := slices.Concat(body.Inputs, n.Inputs)
	seen := map[*ir.Value]bool{nil: true}
	_ = body.Walk(func(g *ir.Graph, b *ir.Node) error {
		for _, v := range slices.Concat(g.Inputs, b.Inputs, b.Outputs) {
			if !seen[v] && !slices.Contains(outside, v) {
				seen[v], v.Name = true, prefix+v.Name
			}
		}
		return nil
	})
	for _, in := range body.Inputs {
		i := slices.IndexFunc(n.Op.In, func(p ir.Param) bool { return p.Name == in.Name })
		body.ReplaceUses(in, n.Inputs[i])
	}
	g.Nodes = append(slices.DeleteFunc(g.Nodes, func(other *ir.Node) bool { return other == n }), body.Nodes...)
	outs := body.Outputs
	for _, v := range n.Outputs {
		if v != nil {
			name := v.Name
			g.ReplaceUses(v, outs[0])
			v.Name, outs[0].Name = outs[0].Name, name
			outs = outs[1:]
		}
	}
}
