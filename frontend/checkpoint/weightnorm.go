package checkpoint

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
)

// normSpellings are the two ways in which torch names the lengths and directions of a weight with weight norm.
var normSpellings = [][2]string{{"weight_g", "weight_v"}, {"parametrizations.weight.original0",
	"parametrizations.weight.original1"}}

// foldWeightNorm replaces g and v of the linear layers of S4 and DSS with weight norm (output_linear) by the weight
// g·v/‖v‖, where the norm is over all dimensions but the first, as in torch. It computes in float64, and rounds once.
func foldWeightNorm(watch *ends.Watch, tensors map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := tensors
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		for _, s := range normSpellings {
			for i, part := range s {
				layer, ok := strings.CutSuffix(name, "."+part)
				if !ok || !strings.HasSuffix(layer, ".output_linear") && !strings.Contains(layer, ".output_linear.") {
					continue
				}
				other := layer + "." + s[1-i]
				if tensors[other] == nil {
					return nil, fmt.Errorf("tensor %s: %s is missing, and weight norm has both", name, other)
				}
				if i == 1 {
					continue // done with the lengths
				}
				if out[layer+".weight"] != nil {
					return nil, fmt.Errorf("tensor %s: there is a %s.weight, too; expected one of them", name, layer)
				}
				w, err := normed(watch, tensors[name], tensors[other], other)
				if err != nil {
					return nil, err
				}
				if len(out) == len(tensors) {
					out = maps.Clone(tensors)
				}
				delete(out, name)
				delete(out, other)
				out[layer+".weight"] = w
			}
		}
	}
	return out, nil
}

// normed returns g·v/‖v‖ in float32. name is that of v.
func normed(watch *ends.Watch, g, v *tensor.Tensor, name string) (*tensor.Tensor, error) {
	if v.Rank() < 2 || v.Len() == 0 || g.Len() != v.Dim(0) || g.Rank() == 0 || g.Dim(0) != v.Dim(0) {
		return nil, fmt.Errorf("tensor %s: weight norm expects one length for each row, found %s and lengths %s", name,
			v, g)
	}
	g, err := converted(watch, g, tensor.Float64)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: lengths: %w", name, err)
	}
	long, err := converted(watch, v, tensor.Float64)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	w := tensor.NewParts(watch.Check, tensor.Float32, v.Shape()...)
	x, y, lengths := tensor.Data[float64](long), tensor.Data[float32](w), tensor.Data[float64](g)
	row := len(x) / len(lengths)
	for i, length := range lengths {
		watch.Step(1 + row/8)
		sum := 0.0
		for _, e := range x[i*row : (i+1)*row] {
			sum += float64(e * e)
		}
		if sum == 0 {
			return nil, fmt.Errorf("tensor %s[%d]: expected a vector of another length than 0, by which weight norm "+
				"divides", name, i)
		}
		for j := i * row; j < (i+1)*row; j++ {
			y[j] = float32(length * x[j] / math.Sqrt(sum))
		}
	}
	return w, nil
}
