package raise_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/lower"
)

// expandAndRaise lowers a graph to a version, and raises it.
func expandAndRaise(t *testing.T, g *ir.Graph, version int) *ir.Graph {
	t.Helper()
	out, _, err := lower.Lower(g, lower.Options{Opset: version})
	if err != nil {
		t.Fatal(err)
	}
	return raised(t, out)
}

// TestExportedFourierMix lowers transforms over any number of steps, a fixed one, and one whose cosines are computed,
// and reads them again.
func TestExportedFourierMix(t *testing.T) {
	for _, elem := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, length := range []any{"L", 7, 1100} {
			for _, version := range []int{13, 17, 22} {
				t.Run(fmt.Sprint(elem, length, "/", version), func(t *testing.T) {
					l := newLayer()
					x := l.Input("x", ir.Tensor(elem, "B", length, 5))
					l.Output("y", l.Op("essm", "FourierMix", []*ir.Value{x}))
					g := l.graph(t)
					out, _, err := lower.Lower(g, lower.Options{Opset: version})
					if err != nil {
						t.Fatal(err)
					}
					if count(out, "DFT", "essm.FourierMix") != 0 {
						t.Error("the file has a transform")
					}
					binds := []map[string]int64{{"B": 2, "L": 1}, {"B": 1, "L": 6}, {"B": 1, "L": 257}}
					agree(t, g, out, 2e-6, binds...)
					r := raised(t, out)
					if len(r.Nodes) != 1 || count(r, "essm.FourierMix") != 1 {
						t.Errorf("it has %d nodes", len(r.Nodes))
					}
					agree(t, g, r, 1e-12, binds...)
				})
			}
		}
	}
}

// TestExportedAttention lowers every form of Attention without optional inputs, and reads it again.
func TestExportedAttention(t *testing.T) {
	forms := []struct {
		name    string
		q, k, v []any
		mask    tensor.DType // 0: none
		attrs   []ir.Attr
	}{
		{name: "three axes", q: []any{"B", "L", 6}, k: []any{"B", "T", 6}, v: []any{"B", "T", 9},
			attrs: []ir.Attr{ir.A("q_num_heads", 3), ir.A("kv_num_heads", 3)}},
		{name: "causal", q: []any{"B", "L", 6}, k: []any{"B", "L", 6}, v: []any{"B", "L", 6},
			attrs: []ir.Attr{ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2), ir.A("is_causal", 1)}},
		{name: "shared heads", q: []any{"B", "L", 8}, k: []any{"B", "T", 4}, v: []any{"B", "T", 4},
			attrs: []ir.Attr{ir.A("q_num_heads", 4), ir.A("kv_num_heads", 2), ir.A("scale", 0.3)}},
		{name: "four axes", q: []any{"B", 2, "L", 4}, k: []any{"B", 2, "T", 4}, v: []any{"B", 2, "T", 5},
			attrs: []ir.Attr{ir.A("is_causal", 1)}},
		{name: "masked", q: []any{"B", "L", 6}, k: []any{"B", "L", 6}, v: []any{"B", "L", 6}, mask: tensor.Bool,
			attrs: []ir.Attr{ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2)}},
		{name: "biased", q: []any{"B", "L", 6}, k: []any{"B", "L", 6}, v: []any{"B", "L", 6}, mask: tensor.Float32,
			attrs: []ir.Attr{ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2)}},
		{name: "one head", q: []any{"B", "L", 4}, k: []any{"B", "L", 4}, v: []any{"B", "L", 4},
			attrs: []ir.Attr{ir.A("q_num_heads", 1), ir.A("kv_num_heads", 1), ir.A("scale", 1.0)}},
	}
	for _, f := range forms {
		for _, version := range []int{13, 17, 18, 22} {
			t.Run(fmt.Sprint(f.name, "/", version), func(t *testing.T) {
				l := newLayer()
				var in []*ir.Value
				for i, s := range [][]any{f.q, f.k, f.v} {
					in = append(in, l.Input([]string{"q", "k", "v"}[i], ir.Tensor(tensor.Float32, s...)))
				}
				if f.mask != 0 {
					in = append(in, l.Input("mask", ir.Tensor(f.mask, "B", 1, "L", "L")))
				}
				l.Output("y", l.Op("", "Attention", in, f.attrs...))
				g := l.graph(t)
				r := expandAndRaise(t, g, version)
				if count(r, "Attention") != 1 || count(r, "MatMul", "Softmax", "Where") != 0 {
					t.Fatalf("%d Attention; nodes %v", count(r, "Attention"), r.Nodes)
				}
				agree(t, g, r, 1e-7, map[string]int64{"B": 2, "L": 7, "T": 7}, map[string]int64{"B": 1, "L": 3, "T": 9})
			})
		}
	}
}

// TestExportedLooksAlike changes something other than an attribute of a causal Attention. It must not be raised as
// one then.
func TestExportedLooksAlike(t *testing.T) {
	for name, change := range map[string]func(n *ir.Node) bool{
		"weights of keys, not of queries": func(n *ir.Node) bool {
			if n.Op.Name == "Softmax" {
				n.Attrs = n.Attrs.With("axis", int64(-2))
			}
			return n.Op.Name == "Softmax"
		},
		"a mask that sees later keys": func(n *ir.Node) bool {
			if n.Op.Name != "LessOrEqual" && n.Op.Name != "Not" {
				return false
			}
			for i, v := range n.Inputs {
				if v.Const != nil && v.Const.DType() == tensor.Int64 {
					n.Inputs[i] = ir.NewConst("later", tensor.FromSlice([]int64{1}, 1))
					return true
				}
			}
			return false
		},
	} {
		l := newLayer()
		var in []*ir.Value
		for _, s := range []string{"q", "k", "v"} {
			in = append(in, l.Input(s, ir.Tensor(tensor.Float32, "B", "L", 6)))
		}
		l.Output("y", l.Op("", "Attention", in, ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2), ir.A("is_causal", 1)))
		out, _, err := lower.Lower(l.graph(t), lower.Options{Opset: 17})
		if err != nil {
			t.Fatal(err)
		}
		done := false
		for _, n := range out.Nodes {
			done = done || change(n)
		}
		if !done {
			t.Fatalf("%s: nothing to change", name)
		}
		r := raised(t, out)
		for _, n := range r.Nodes {
			if n.Op.Name == "Attention" && n.Attrs.Bool("is_causal", false) {
				t.Errorf("%s: it is raised as causal", name)
			}
		}
		agree(t, out, r, 1e-7, map[string]int64{"B": 2, "L": 7})
	}
}

// TestExportedMasks lowers the selection of steps by lengths, and reads it again.
func TestExportedMasks(t *testing.T) {
	for _, version := range []int{13, 17, 24} {
		l := newLayer()
		l.Graph().Meta[ir.MetaTime] = "L"
		x := l.Input("x", ir.Tensor(tensor.Float32, "B", "L", 3))
		z := l.Input("z", ir.Tensor(tensor.Float32, "B", "L"))
		lengths := l.Input("lengths", ir.Tensor(tensor.Int64, "B"))
		for _, mode := range []string{"pool", "sum", "last"} {
			l.Output(mode, l.Op("essm", "Pick", []*ir.Value{x, lengths}, ir.A("mode", mode)))
		}
		for i, v := range []*ir.Value{x, z} {
			l.Output(fmt.Sprint("masked", i), l.Op("essm", "StepMask", []*ir.Value{v, l.Ints(0), lengths}, ir.A("axis", 1),
				ir.A("value", float64(i))))
		}
		g := l.graph(t)
		out, _, err := lower.Lower(g, lower.Options{Opset: version})
		if err != nil {
			t.Fatal(err)
		}
		r := raised(t, out)
		if count(r, "essm.Pick") != 3 || count(r, "essm.StepMask") != 2 || count(r, "Where", "ReduceSum") != 0 {
			t.Errorf("version %d: nodes %v", version, r.Nodes)
		}
		delete(out.Meta, ir.MetaOperators) // a file of another exporter, where lengths may be any numbers
		if r := raised(t, out); count(r, "essm.Pick", "essm.StepMask") != 0 {
			t.Errorf("version %d, not of essmc: nodes %v", version, r.Nodes)
		}
	}
}

// TestExportedScans lowers recurrences whose coefficients vary with time, and reads them again.
func TestExportedScans(t *testing.T) {
	series := func(l layer, name string, n int) *ir.Value {
		return l.Input(name, ir.Tensor(tensor.Float32, "B", "L", n))
	}
	numbers := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = -0.1 - 0.3*float64(i%5)
		}
		return x
	}
	selective := func(features, heads, columns, states, groups int, direct, state bool) func(l layer) []*ir.Value {
		return func(l layer) []*ir.Value {
			shared := states * groups
			in := []*ir.Value{series(l, "x", features), series(l, "delta", heads),
				l.floats("A", numbers(heads*columns), heads, columns), series(l, "b", shared), series(l, "c", shared), nil, nil}
			if direct {
				in[5] = l.floats("D", numbers(heads), heads)
			}
			if state {
				in[6] = l.Input("state", ir.Tensor(tensor.Float32, "B", features*states))
			}
			return l.Ops("essm", "SelectiveScan", 2, in, ir.A("groups", groups))
		}
	}
	lowRank := func(rank, window int, bidirectional, state bool) func(l layer) []*ir.Value {
		return func(l layer) []*ir.Value {
			const features, states = 2, 3
			r := rand.New(rand.NewPCG(uint64(rank), uint64(window)))
			double := func(name string, size float64, shape ...int) *ir.Value {
				n, _ := tensor.Size(shape)
				x := make([]float64, n)
				for i := range x {
					x[i] = size * (2*r.Float64() - 1)
				}
				return l.Const(name, tensor.FromSlice(x, shape...))
			}
			in := []*ir.Value{series(l, "u", features)}
			for _, name := range []string{"f", "g", "h", "b", "c", "later"} {
				shape := []int{features, states}
				if name == "g" || name == "h" {
					shape = []int{features, rank, states}
				}
				if name == "later" && !bidirectional {
					in = append(in, nil, nil)
					continue
				}
				in = append(in, double(name+"_re", 0.4, shape...), double(name+"_im", 0.4, shape...))
			}
			if state {
				in = append(in, l.Input("state", ir.Tensor(tensor.Float32, "B", 2*features*states+window*features)))
			}
			attrs := []ir.Attr{ir.A("window", window)}
			outputs := 2
			if bidirectional {
				attrs, outputs = append(attrs, ir.A("direction", "bidirectional")), 1
			}
			return l.Ops("essm", "DPLRScan", outputs, in, attrs...)
		}
	}
	for name, make := range map[string]func(l layer) []*ir.Value{
		"low rank":                          lowRank(1, 0, false, false),
		"low rank with state":               lowRank(2, 0, false, true),
		"low rank in a window":              lowRank(1, 4, false, false),
		"low rank in a window, with state":  lowRank(2, 4, false, true),
		"low rank, both directions":         lowRank(2, 0, true, false),
		"low rank, both directions, window": lowRank(1, 4, true, false),
		"Mamba":                             selective(6, 6, 3, 3, 1, true, true),
		"Mamba without D":                   selective(6, 6, 3, 3, 1, false, false),
		"Mamba-2":                           selective(12, 4, 1, 5, 1, true, true),
		"Mamba-2 in groups":                 selective(12, 4, 1, 5, 2, true, false),
		"all":                               selective(12, 4, 2, 2, 2, false, true),
		"gated": func(l layer) []*ir.Value {
			return l.Ops("essm", "GatedScan", 2, []*ir.Value{series(l, "f", 3), series(l, "v", 3)})
		},
		"gated with state": func(l layer) []*ir.Value {
			return l.Ops("essm", "GatedScan", 2, []*ir.Value{series(l, "f", 3), series(l, "v", 3),
				l.Input("state", ir.Tensor(tensor.Float32, "B", 3))})
		},
	} {
		for _, version := range []int{13, 17} {
			for _, both := range []bool{false, true} {
				if both && strings.Contains(name, "both directions") {
					continue // has no state
				}
				t.Run(fmt.Sprint(name, "/", version, both), func(t *testing.T) {
					l := newLayer()
					out := make(l)
					op := out[0].Def.Op.FullName()
					l.Output("y", out[0])
					if both {
						l.Output("last", out[1])
					}
					g := l.graph(t)
					lowered, _, err := lower.Lower(g, lower.Options{Opset: version})
					if err != nil {
						t.Fatal(err)
					}
					binds := []map[string]int64{{"B": 2, "L": 9}, {"B": 1, "L": 1}}
					agree(t, g, lowered, 1e-12, binds...)
					r := raised(t, lowered)
					if count(r, op) != 1 || len(r.Nodes) != 1 {
						t.Fatalf("nodes %v", r.Nodes)
					}
					agree(t, g, r, 1e-12, binds...)
					for _, n := range lowered.Nodes {
						if n.Op.Name == "Scan" {
							next := n.Attrs.Graph("body").Outputs[0].Def
							other := map[string]string{"Add": "Sub", "Sub": "Add"}[next.Op.Name]
							next.Op = ops.Default.Resolve("", other, version)
						}
					}
					if r := raised(t, lowered); count(r, op) != 0 {
						t.Errorf("what is no %s is raised", op)
					}
				})
			}
		}
	}
}
