package s4

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models/backbone"
)

// system is continuous diagonal systems of one input and one output: one for each channel and feature. Its values are
// float64, (channels, features, states).
type system struct {
	n                  *backbone.Network
	features, channels int
	re, im             *ir.Value // the diagonal; im is nil where it is 0
	dt                 *ir.Value // step sizes, also (channels, features, 1)
	method             string    // of the discretization
	window             int       // lags of the kernel; 0: all
}

// each brings a matrix with a row for each of so many systems, which features share in turn, to all channels and
// features.
func (s *system) each(v *ir.Value, systems int) *ir.Value {
	if r := s.features / systems; r > 1 {
		v = s.n.Do("Tile", []*ir.Value{v, s.n.Ints("repeats", int64(r), 1)})
	}
	v = s.n.Do("Unsqueeze", []*ir.Value{v, s.n.Ints("first", 0)})
	if s.channels > 1 {
		v = s.n.Do("Tile", []*ir.Value{v, s.n.Ints("channels", int64(s.channels), 1, 1)})
	}
	return v
}

// zero returns zeros, of the shape of re.
func (s *system) zero() *ir.Value { return s.n.Do("Mul", []*ir.Value{s.re, s.n.Scalar("zero", 0)}) }

// imag returns the imaginary part of the diagonal.
func (s *system) imag() *ir.Value {
	if s.im == nil {
		return s.zero()
	}
	return s.im
}

// apply returns y = 2 Re(c z) + direct·x in one direction, with the states z of inputs x, and the next states if there
// is a state. The factor 2 stands for the conjugate states; real systems have it too.
func (s *system) apply(x *ir.Value, c backbone.Complex, direct, state *ir.Value, direction string) (y, next *ir.Value) {
	n := s.n
	d := n.Ops("essm", "Discretize", 4, []*ir.Value{s.re, s.imag(), n.Do("Log", []*ir.Value{s.dt})},
		ir.A("method", s.method), ir.A("rate", n.Rate))
	two, row := n.Scalar("two", 2), n.Ints("row", 2)
	out := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		return n.Do("Unsqueeze", []*ir.Value{n.Do("Mul", []*ir.Value{v, two}), row})
	}
	ones := n.Do("Unsqueeze", []*ir.Value{n.Do("Exp", []*ir.Value{s.zero()}), n.Ints("column", 3)})
	attrs := []ir.Attr{ir.A("direction", direction)}
	if s.window > 0 {
		attrs = append(attrs, ir.A("window", s.window))
	}
	in := []*ir.Value{x, d[0], d[1], d[2], d[3], ones, out(c.Re), nil, out(c.Im), direct, state}
	if state == nil {
		return n.Op("essm", "SSM", in, attrs...), nil
	}
	both := n.Ops("essm", "SSM", 2, in, attrs...)
	return both[0], both[1]
}

// softmax returns the convolution with the kernels of DSS, normalized over the sequence, for the products w and later
// of the inputs' and outputs' factors; later is the zero value without a backward half. The factor 2 is not there.
func (s *system) softmax(x *ir.Value, w, later backbone.Complex) *ir.Value {
	for _, v := range []*backbone.Complex{&w, &later} {
		if v.Re != nil && v.Im == nil {
			v.Im = s.n.Do("Mul", []*ir.Value{v.Re, s.n.Scalar("zero", 0)})
		}
	}
	dt := s.n.Do("Mul", []*ir.Value{s.dt, s.n.Scalar("rate", s.n.Rate)})
	lambda := backbone.Complex{Re: s.re, Im: s.imag()}
	conv := backbone.Softmax{Network: s.n, Features: s.features, Channels: s.channels, Window: s.window, Epsilon: 1e-7}
	return conv.Apply(x, lambda.Scale(s.n, dt), lambda, w, later)
}
