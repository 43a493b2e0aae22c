package ir

import (
	"runtime"
	"testing"
	"weak"

	"github.com/essmc/essmc/ir/tensor"
)

// TestForget checks that a Verifier that has forgotten a graph keeps no constant of it alive, and verifies as before.
func TestForget(t *testing.T) {
	op := &Op{Name: "Neg", Since: 1, In: []Param{{Name: "x"}}, Out: []Param{{Name: "y"}}, Infer: func(n *Node) ([]Type, error) { return []Type{n.Inputs[0].Type}, nil }}
	v := new(Verifier)
	graph := func() (*Graph, weak.Pointer[tensor.Tensor]) {
		k := NewConst("k", tensor.FromSlice(make([]float32, 1<<16), 1<<16))
		n := &Node{Op: op, Inputs: []*Value{k}}
		n.Outputs = []*Value{{Name: "y", Type: k.Type, Def: n}}
		g := &Graph{Name: "g", Opsets: map[string]int{"": 1}, Nodes: []*Node{n}, Outputs: n.Outputs}
		if err := v.Verify(g); err != nil {
			t.Fatal(err)
		}
		return g, weak.Make(k.Const)
	}
	g, alive := graph()
	g.Nodes, g.Outputs = nil, nil
	v.Forget()
	runtime.GC()
	if alive.Value() != nil {
		t.Error("the constant of a node that is gone is still there")
	}
	g, _ = graph()
	g.Nodes[0].Outputs[0].Type = &TensorType{Elem: tensor.Int8}
	v.Forget()
	if v.Verify(g) == nil {
		t.Error("a wrong type is not found")
	}
}
