package passes

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
)

// scaledWeights is the source of lazy float32 weights times factors, as float64 or rounded to float32.
type scaledWeights struct {
	of     *tensor.Tensor
	by     factors
	double bool
}

// weightsPart is the number of weights that are read at a time.
const weightsPart = 1 << 14

// turned returns the transposed weights, if the weights are computed from them.
func (s *scaledWeights) turned() *scaledWeights {
	if u := s.of.Turned(); u != nil && s.by.rows != nil {
		by := factors{len(s.by.rows), func(int) []float64 { return s.by.rows }, nil}
		return &scaledWeights{u, by, s.double}
	}
	return nil
}

// each calls visit for count products from number from on, until it returns false.
func (s *scaledWeights) each(from, count int, visit func(i int, p float64) bool) error {
	buf := make([]float32, min(count, weightsPart))
	row, column := from/s.by.columns, from%s.by.columns
	k := s.by.of(row)
	for at := 0; at < count; at += weightsPart {
		part := buf[:min(weightsPart, count-at)]
		if err := s.of.PeekFloat32s(part, from+at); err != nil {
			return err
		}
		for i, v := range part {
			if column == s.by.columns {
				row, column = row+1, 0
				k = s.by.of(row)
			}
			f := k[0]
			if len(k) > 1 {
				f = k[column]
			}
			column++
			if !visit(at+i, float64(v)*f) {
				return nil
			}
		}
	}
	return nil
}

// finite reports whether all products are in the range of float32.
func (s *scaledWeights) finite() bool {
	from := s
	if u := s.turned(); u != nil {
		from = u
	}
	ok := true
	err := from.each(0, s.of.Len(), func(_ int, p float64) bool {
		ok = math.Abs(p) <= math.MaxFloat32
		return ok
	})
	if err != nil {
		panic(&tensor.SourceError{Err: err})
	}
	return ok
}

func (s *scaledWeights) Fill(dst []byte) error {
	from, err := s.of.Peek()
	if err != nil {
		return err
	}
	if w := tensor.View[float32](from); s.double {
		scale(tensor.View[float64](dst), w, s.by)
	} else {
		scale(tensor.View[float32](dst), w, s.by)
	}
	return nil
}

func (s *scaledWeights) Part(dst []byte, at int) error {
	if s.double {
		y := tensor.View[float64](dst)
		return s.each(at/8, len(y), func(i int, p float64) bool { y[i] = p; return true })
	}
	return s.Float32s(tensor.View[float32](dst), at/4)
}

// Float32s writes products from number from on, rounded to float32.
func (s *scaledWeights) Float32s(dst []float32, from int) error {
	return s.each(from, len(dst), func(i int, p float64) bool { dst[i] = float32(p); return true })
}

func (s *scaledWeights) Release() { s.of.Release() }

func (s *scaledWeights) Turned() *tensor.Tensor {
	u := s.turned()
	if u == nil {
		return nil
	}
	return u.tensor()
}

// tensor returns the lazy tensor of the products.
func (s *scaledWeights) tensor() *tensor.Tensor {
	d := tensor.Float32
	if s.double {
		d = tensor.Float64
	}
	return tensor.Lazy(d, s.of.Shape(), s)
}
