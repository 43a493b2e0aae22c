package backbone

import (
	"fmt"
	"math"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// NormedSpecs lists the tensors of a convolution along time with weight norm: weights (outputs, inputs, taps).
func NormedSpecs(name string, outputs, inputs, taps int) []models.Spec {
	return []models.Spec{{Name: name + ".weight_g", Shape: []int{outputs, 1, 1}},
		{Name: name + ".weight_v", Shape: []int{outputs, inputs, taps}}, {Name: name + ".bias", Shape: []int{outputs}}}
}

// Normed returns the weights of a convolution with weight norm in float64: row i is g[i]·v[i]/|v[i]|.
func (n *Network) Normed(name string) *Value {
	v := tensor.Data[float32](n.w[name+".weight_v"])
	row := len(v) / n.w[name+".weight_v"].Dim(0)
	for i := 0; i < len(v); i += row {
		if zeros(v[i : i+row]) {
			n.Fail(fmt.Errorf("tensor %s.weight_v[%d]: expected a vector of another length than 0, by which weight "+
				"norm divides",
				name, i/row))
		}
	}
	long := n.Double(n.Weight(name + ".weight_v"))
	length := n.Do("Sqrt", []*Value{n.Do("ReduceSumSquare", []*Value{long, n.Ints("axes", 1, 2)})})
	return n.Do("Div", []*Value{n.Do("Mul", []*Value{long, n.Double(n.Weight(name + ".weight_g"))}), length})
}

func zeros(v []float32) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

// NormLengths sets every weight_g to the lengths of the rows of its weight_v, so that weight norm changes nothing at
// first.
func NormLengths(w models.Weights) {
	for name, g := range w {
		prefix, ok := strings.CutSuffix(name, ".weight_g")
		if !ok {
			continue
		}
		v, lengths := tensor.Data[float32](w[prefix+".weight_v"]), tensor.Data[float32](g)
		row := len(v) / len(lengths)
		for i := range lengths {
			sum := 0.0
			for _, x := range v[i*row : (i+1)*row] {
				sum += float64(float64(x) * float64(x))
			}
			lengths[i] = float32(math.Sqrt(sum))
		}
	}
}
