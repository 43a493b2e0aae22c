package s4

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models/backbone"
)

// lowRankModes are the names of the layers whose matrix is diagonal plus low rank.
var lowRankModes = []string{"nplr", "dplr", "s4"}

// lowRank is diagonal plus low-rank systems of one input and one output: one for each channel and feature. Its values
// are float64. Step sizes, diagonal, inputs' and outputs' factors are (channels · features, states); p has the rank in
// between.
type lowRank struct {
	n                  *backbone.Network
	features, channels int
	dt                 *ir.Value // also (channels · features, 1)
	lambda, p, b       backbone.Complex
	prepared           *ir.Value // the length for which outputs' factors are stored; 0: for none
	window             int       // lags of the kernel; 0: all
}

// each brings a value with a row for each of so many systems, which features share in turn, to all channels and
// features.
func (s *lowRank) each(v *ir.Value, systems int) *ir.Value {
	repeats := []int64{int64(s.features / systems * s.channels), 1, 1}
	if repeats[0] == 1 {
		return v
	}
	return s.n.Do("Tile", []*ir.Value{v, s.n.Ints("repeats", repeats[:len(v.Shape())]...)})
}

// eachComplex is each for both parts.
func (s *lowRank) eachComplex(v backbone.Complex, systems int) backbone.Complex {
	return backbone.Complex{Re: s.each(v.Re, systems), Im: s.each(v.Im, systems)}
}

// apply returns y, for (channels · features) outputs, and the next state if there is a state. later is the zero value
// unless the system has a backward half. c and later are (channels, features, states).
func (s *lowRank) apply(x *ir.Value, c, later backbone.Complex, state *ir.Value) (y, next *ir.Value) {
	n := s.n
	if s.channels > 1 {
		x = n.Do("Tile", []*ir.Value{x, n.Ints("channels", 1, 1, int64(s.channels))})
	}
	flat := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		return n.Do("Reshape", []*ir.Value{v, n.Ints("flat", int64(s.channels*s.features), -1)})
	}
	direction := "forward"
	if later.Re != nil {
		direction = "bidirectional"
	}
	attrs := []ir.Attr{ir.A("direction", direction), ir.A("rate", n.Rate)}
	if s.window > 0 {
		attrs = append(attrs, ir.A("window", s.window))
	}
	in := []*ir.Value{x, s.dt, s.lambda.Re, s.lambda.Im, s.p.Re, s.p.Im, s.b.Re, s.b.Im, flat(c.Re), flat(c.Im),
		s.prepared, flat(later.Re), flat(later.Im), state}
	if state == nil {
		return n.Op("essm", "DPLR", in, attrs...), nil
	}
	both := n.Ops("essm", "DPLR", 2, in, attrs...)
	return both[0], both[1]
}

// buildLowRank applies the layer's systems, whose tensors begin with prefix, without D.
func (l *Layer) buildLowRank(n *backbone.Network, x, state *ir.Value, kernel string, d int) (y, next *ir.Value) {
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	s := &lowRank{n: n, features: d, channels: l.Channels, window: l.LMax, prepared: n.Weight(kernel + "l_kernel")}
	systems := l.systems(d)
	negative := func(name, kind string) *ir.Value {
		return s.each(n.Do("Neg", []*ir.Value{transform(n, stored(name), kind)}), systems)
	}
	s.lambda = backbone.Complex{Re: negative("A_real", l.RealTransform), Im: negative("A_imag", l.ImagTransform)}
	s.dt = s.each(l.steps(n, stored("inv_dt")), d)
	first := n.Ints("first", 0)
	s.b = s.eachComplex(n.Complex(n.Do("Squeeze", []*ir.Value{stored("B"), first})), systems)
	p := n.Do("Transpose", []*ir.Value{stored("P")}, ir.A("perm", []int64{1, 0, 2, 3})) // systems first
	s.p = s.eachComplex(n.Complex(p), systems)
	half := func(i int) backbone.Complex {
		from, to := int64(i*l.Channels), int64((i+1)*l.Channels)
		return n.Complex(n.Do("Slice", []*ir.Value{stored("C"), n.Ints("from", from), n.Ints("to", to), first}))
	}
	var later backbone.Complex
	if l.Bidirectional {
		later = half(1)
	}
	return s.apply(x, half(0), later, state)
}

// checkLowRank checks what diagonal plus low-rank systems have in particular.
func (l *Layer) checkLowRank(d int) error {
	switch {
	case l.IsReal:
		return fmt.Errorf("is_real: expected false, since the states of mode %s are complex", l.Mode)
	case l.Bandlimit > 0:
		return fmt.Errorf("bandlimit: only the mode diag has it, expected null with mode %s", l.Mode)
	case l.InitMethod == "legt" && l.Rank < 2:
		return fmt.Errorf("rank: expected at least 2 with init legt, found %d", l.Rank)
	case l.InitMethod == "hippo" && l.systems(d)%2 != 0:
		return fmt.Errorf("n_ssm: expected an even number with init hippo, which has two kinds of systems, found %d",
			l.systems(d))
	case l.DState > maxLegS:
		return fmt.Errorf("d_state: expected at most %d with mode %s, found %d", maxLegS, l.Mode, l.DState)
	}
	return nil
}
