package tensor

import "unsafe"

// roundable is a Source of float64 that gives its elements rounded to float32, too.
type roundable interface {
	Float32s(dst []float32, from int) error
}

// turned is a Source of a matrix that is the transpose of another one.
type turned interface {
	Turned() *Tensor
}

// Turned returns a matrix of which t is the transpose, if t is computed from it: it is read by parts, in its order,
// faster than t. It returns nil for other tensors.
func (t *Tensor) Turned() *Tensor {
	if t.lazy == nil || len(t.shape) != 2 {
		return nil
	}
	if s, ok := t.lazy.from.(turned); ok {
		return s.Turned()
	}
	return nil
}

// Float32s returns the elements rounded to float32: those of a float32 tensor themselves, which must not be changed.
// Strings and complex numbers are an error.
func (t *Tensor) Float32s() ([]float32, error) {
	if t.dtype == Float32 {
		return Data[float32](t), nil
	}
	out := make([]float32, t.Len())
	if t.dtype == Float64 {
		return out, t.PeekFloat32s(out, 0)
	}
	x, err := t.Float64s()
	for i, v := range x {
		out[i] = float32(v)
	}
	return out, err
}

// PeekFloat32s writes elements of a float32 or float64 tensor from number from on to dst, rounded to float32. As
// PeekPart, it does not make a lazy tensor keep its storage.
func (t *Tensor) PeekFloat32s(dst []float32, from int) error {
	if t.dtype == Float32 {
		return t.PeekPart(bytesOf(dst), 4*from)
	}
	if t.lazy != nil && t.lazy.data.Load() == nil {
		if s, ok := t.lazy.from.(roundable); ok {
			return s.Float32s(dst, from)
		}
	}
	for i, v := range Data[float64](t)[from : from+len(dst)] {
		dst[i] = float32(v)
	}
	return nil
}

func bytesOf(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

// LazyTranspose returns the transpose of a lazy matrix as a lazy one, the same one each time.
func LazyTranspose(t *Tensor) *Tensor {
	if u := t.Turned(); u != nil {
		return u
	}
	u, ok := t.lazy.transposes.Load(t.Dim(1))
	if !ok {
		u, _ = t.lazy.transposes.LoadOrStore(t.Dim(1), Lazy(t.dtype, []int{t.Dim(1), t.Dim(0)}, &transpose{t}))
	}
	return u.(*Tensor)
}

type transpose struct{ of *Tensor }

func (s *transpose) Fill(dst []byte) error {
	from, err := s.of.Peek()
	if err != nil {
		return err
	}
	rows, columns := s.of.Dim(0), s.of.Dim(1)
	switch s.of.dtype.Bits() {
	case 8:
		transposed(dst, from, rows, columns)
	case 16:
		transposed(View[uint16](dst), View[uint16](from), rows, columns)
	case 32:
		transposed(View[uint32](dst), View[uint32](from), rows, columns)
	default:
		transposed(View[uint64](dst), View[uint64](from), rows, columns)
	}
	return nil
}

// transposed works in blocks, whose columns fit in the first cache.
func transposed[T uint8 | uint16 | uint32 | uint64](y, x []T, rows, columns int) {
	const block = 32
	for top := 0; top < rows; top += block {
		bottom := min(top+block, rows)
		for j := range columns {
			to := y[j*rows:][:rows]
			for i := top; i < bottom; i++ {
				to[i] = x[i*columns+j]
			}
		}
	}
}

func (s *transpose) Part(dst []byte, at int) error {
	width := s.of.dtype.Bits() / 8
	rows, columns := s.of.Dim(0), s.of.Dim(1)
	for i := 0; i < len(dst); i += width {
		k := (at + i) / width // an element of column k/rows, row k%rows of the source
		if err := s.of.PeekPart(dst[i:i+width], (k%rows*columns+k/rows)*width); err != nil {
			return err
		}
	}
	return nil
}

func (s *transpose) Release() { s.of.Release() }

func (s *transpose) Turned() *Tensor { return s.of }

// LazyFloat32 returns the numbers of a lazy float16 or bfloat16 tensor as lazy float32 ones.
func LazyFloat32(t *Tensor) *Tensor { return Lazy(Float32, t.shape, &widening{t}) }

type widening struct{ of *Tensor }

func (s *widening) Fill(dst []byte) error {
	from, err := s.of.Peek()
	if err == nil {
		s.widen(dst, from)
	}
	return err
}

func (s *widening) Part(dst []byte, at int) error {
	const most = 1 << 14
	var buf []byte
	for len(dst) > 0 {
		n := min(len(dst), 2*most)
		if buf == nil {
			buf = uncleared(n / 2)
		}
		if err := s.of.PeekPart(buf[:n/2], at/2); err != nil {
			return err
		}
		s.widen(dst[:n], buf[:n/2])
		dst, at = dst[n:], at+n
	}
	return nil
}

func (s *widening) widen(dst, from []byte) {
	y := View[float32](dst)
	if s.of.dtype == Float16 {
		for i, v := range View[F16](from) {
			y[i] = v.Float32()
		}
		return
	}
	for i, v := range View[BF16](from) {
		y[i] = v.Float32()
	}
}

func (s *widening) Release() { s.of.Release() }

func (s *widening) Turned() *Tensor {
	if t := s.of.Turned(); t != nil {
		return LazyFloat32(t)
	}
	return nil
}
