package command

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// randomInputs adds random inputs for the other required ones: normal numbers, integers in the vocabulary of their
// table, short words. Equal models get equal inputs.
func randomInputs(model *runtime.Model, given map[string]tensor.Datum,
	dims map[string]int64) (map[string]tensor.Datum, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[string]tensor.Datum{}
	for i, p := range model.Inputs() {
		if d, ok := given[p.Name]; ok {
			in[p.Name] = d
			continue
		}
		if p.Optional {
			continue
		}
		d, err := randomDatum(rng, p.Type, dims, vocabulary(model.Graph(), model.Graph().Inputs[i]))
		if errors.Is(err, errUnknownSize) {
			return nil, fmt.Errorf("input %q: %w; give it by --shape %s=%s", p.Name, err, p.Name, template(p.Type))
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		in[p.Name] = d
	}
	return in, nil
}

// randomItems is the length of random sequences.
const randomItems = 3

func randomDatum(rng *rand.Rand, t ir.Type, dims map[string]int64, vocabulary int) (tensor.Datum, error) {
	switch t := t.(type) {
	case *ir.TensorType:
		shape, err := sizes(t, dims)
		if err != nil {
			return nil, err
		}
		return randomTensor(rng, t.Elem, shape, vocabulary)
	case *ir.SequenceType:
		s := &tensor.Sequence{}
		for range randomItems {
			d, err := randomDatum(rng, t.Elem, dims, vocabulary)
			if err != nil {
				return nil, err
			}
			s.Items = append(s.Items, d)
		}
		return s, nil
	}
	return nil, fmt.Errorf("there are no random values of type %v", t)
}

// errUnknownSize is the error for a dimension that nothing states.
var errUnknownSize = errors.New("unknown size")

// template returns the dimensions of a type for --shape, with 1 for unknown ones.
func template(t ir.Type) string {
	tt, ok := ir.AsTensor(t)
	if !ok || tt.NoRank {
		return "DIM,…"
	}
	dims := make([]string, len(tt.Shape))
	for i, d := range tt.Shape {
		dims[i] = d.String()
		if d.IsUnknown() {
			dims[i] = "1"
		} else if _, known := d.Known(); !known {
			dims[i] = "_"
		}
	}
	return strings.Join(dims, ",")
}

// sizes returns a shape as numbers. It returns an error if a dimension is unknown, or if the machine has too little
// memory.
func sizes(t *ir.TensorType, dims map[string]int64) ([]int, error) {
	if t.NoRank {
		return nil, fmt.Errorf("%w: %v", errUnknownSize, t)
	}
	shape, elements := make([]int, len(t.Shape)), 1.0
	for k, d := range t.Shape {
		n, err := d.Eval(dims)
		if err != nil {
			return nil, fmt.Errorf("%w: dimension %d of %v", errUnknownSize, k, t)
		}
		shape[k] = int(n)
		elements *= float64(n)
	}
	if limit := ram.Total(); elements > 1<<34 || limit > 0 && elements*16 > float64(limit) {
		return nil, fmt.Errorf("%s does not fit into memory", tensor.ShapeString(shape))
	}
	return shape, nil
}

func randomTensor(rng *rand.Rand, elem tensor.DType, shape []int, vocabulary int) (*tensor.Tensor, error) {
	n, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	switch {
	case elem == tensor.String:
		words := make([]string, n)
		for i := range words {
			words[i] = string([]byte{byte('a' + rng.IntN(26)), byte('a' + rng.IntN(26))})
		}
		return tensor.FromStrings(words, shape...), nil
	case elem.IsComplex():
		v := make([]complex64, n)
		for i := range v {
			v[i] = complex(float32(rng.NormFloat64()), float32(rng.NormFloat64()))
		}
		return tensor.FromSlice(v, shape...).Convert(elem, false)
	}
	v := make([]float64, n)
	for i := range v {
		switch {
		case elem.IsInt():
			v[i] = float64(rng.IntN(min(vocabulary, 1<<min(elem.Bits()-1, 62))))
		case elem == tensor.Bool:
			v[i] = float64(rng.IntN(2))
		default:
			v[i] = rng.NormFloat64()
		}
	}
	return tensor.FromFloat64s(elem, v, shape...)
}

// vocabulary returns the number of values of an input of tokens: the rows of the smallest table that it indexes. It
// returns 1, which allows 0 only, if there is no table.
func vocabulary(g *ir.Graph, v *ir.Value) int {
	limit := math.MaxInt
	for _, u := range g.Uses()[v] {
		if u.Node == nil {
			continue
		}
		table := -1
		switch {
		case u.Node.Op.FullName() == "essm.Embedding" && u.Index == 0:
			table = 1
		case u.Node.Op.FullName() == "Gather" && u.Index == 1:
			table = 0
		}
		if table < 0 || len(u.Node.In(table).Shape()) == 0 {
			continue
		}
		if n, ok := u.Node.In(table).Shape()[0].Known(); ok {
			limit = min(limit, int(n))
		}
	}
	if limit == math.MaxInt || limit < 1 {
		return 1
	}
	return limit
}
