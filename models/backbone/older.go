package backbone

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
)

// NewOlder is New for code whose encoder, if it has one part, and decoder have no numbers in the names of their
// tensors.
func NewOlder(modelType string, kinds map[string]func() Layer) *Config {
	c := New(modelType, kinds)
	c.older = true
	return c
}

// OlderLinearSpecs lists the tensors of a linear layer of code whose bias may be a column: as it is in w, or else a
// row.
func OlderLinearSpecs(w models.Weights, name string, outputs, inputs int) []models.Spec {
	all := LinearSpecs(name, outputs, inputs)
	if b := w[name+".bias"]; b != nil && slices.Equal(b.Shape(), []int{outputs, 1}) {
		all[1].Shape = []int{outputs, 1}
	}
	return all
}

// OlderLinear is Linear where the bias may be a column.
func (n *Network) OlderLinear(x *Value, name string) *Value {
	bias := n.Weight(name + ".bias")
	if len(n.Shape(name+".bias")) == 2 {
		bias = n.Do("Squeeze", []*Value{bias, n.Ints("column", 1)})
	}
	return n.Op("essm", "Linear", []*Value{x, n.Weight(name + ".weight"), bias})
}

// Softmax is systems of one input and one output for each channel and feature, whose kernels are normalized over the
// sequence.
type Softmax struct {
	*Network
	Features, Channels int
	Window             int // lags of the kernel; 0: all
	Epsilon            float64
}

// Apply returns the outputs for the states a = λΔ, which are (features, states) or (1, states) or (channels, features,
// states), as λ is, and factors w and, unless it is the zero value, later: (channels, features, states).
func (s *Softmax) Apply(x *Value, a, lambda, w, later Complex) *Value {
	all := int64(s.Channels * s.Features)
	zero := s.Do("Mul", []*Value{w.Re, s.Scalar("zero", 0)})
	flat := func(v *Value, spread bool) *Value {
		if v == nil {
			return nil
		}
		if spread {
			v = s.Do("Add", []*Value{v, zero})
		}
		return s.Do("Reshape", []*Value{v, s.Ints("flat", all, -1)})
	}
	if s.Channels > 1 {
		x = s.Do("Tile", []*Value{x, s.Ints("channels", 1, 1, int64(s.Channels))})
	}
	direction := "forward"
	if later.Re != nil {
		direction = "bidirectional"
	}
	return s.Op("essm", "SoftmaxConv", []*Value{x, flat(a.Re, true), flat(a.Im, true), flat(lambda.Re, true),
		flat(lambda.Im, true), flat(w.Re, false), flat(w.Im, false), flat(later.Re, false), flat(later.Im, false)},
		ir.A("direction", direction), ir.A("window", s.Window), ir.A("epsilon", s.Epsilon))
}
