package backbone

import (
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Activations lists the nonlinearities that keep the number of features.
var Activations = []string{"id", "identity", "linear", "none", "tanh", "relu", "gelu", "elu", "swish", "silu",
	"sigmoid", "softplus", "sqrelu", "relu2", "laplace"}

// Activation applies a nonlinearity by the name that state-spaces/s4 has for it. Those that begin with glu halve the
// features: the first half is scaled by a function of the second one.
func (n *Network) Activation(x *Value, kind string) *Value {
	if gate, ok := strings.CutPrefix(kind, "glu"); ok {
		gate = strings.TrimPrefix(gate, "-")
		if gate == "" {
			gate = "sigmoid"
		}
		halves := n.Ops("", "Split", 2, []*Value{x}, ir.A("axis", -1), ir.A("num_outputs", 2))
		return n.Do("Mul", []*Value{halves[0], n.Activation(halves[1], gate)})
	}
	scalar := func(name string, v float32) *Value { return n.Const(name, tensor.Scalar(v)) }
	switch kind {
	case "tanh":
		return n.Do("Tanh", []*Value{x})
	case "relu":
		return n.Do("Relu", []*Value{x})
	case "gelu":
		return n.Do("Gelu", []*Value{x})
	case "elu":
		return n.Do("Elu", []*Value{x})
	case "swish", "silu":
		return n.Do("Mul", []*Value{x, n.Do("Sigmoid", []*Value{x})})
	case "sigmoid":
		return n.Do("Sigmoid", []*Value{x})
	case "softplus":
		return n.Do("Softplus", []*Value{x})
	case "sqrelu", "relu2":
		y := n.Do("Relu", []*Value{x})
		return n.Do("Mul", []*Value{y, y})
	case "laplace": // ½(1 + erf((x - 0.707107)/(0.282095√2)))
		y := n.Do("Sub", []*Value{x, scalar("mu", 0.707107)})
		y = n.Do("Erf", []*Value{n.Do("Div", []*Value{y, scalar("sigma", 0.3989425)})})
		return n.Do("Mul", []*Value{n.Do("Add", []*Value{y, scalar("one", 1)}), scalar("half", 0.5)})
	}
	return x
}
