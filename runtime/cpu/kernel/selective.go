package kernel

// Selective is a selective scan: real diagonal systems whose step sizes, inputs and outputs vary with time. Feature
// e has N states, and shares b and c with the features of its group. The features of a group are divided into
// blocks, which are computed separately.
type Selective struct {
	N        int // states of a feature
	features int
	group    int       // features of a group
	lanes    int       // features of a block
	one      bool      // all states of a feature have one rate
	rates    []float32 // per block: a vector of its features for each state, or one
	direct   []float32 // per feature, and zeros
}

// NewSelective returns a scan of the given sizes, without constants. With one, all states of a feature have one rate.
func NewSelective(features, groups, n int, one bool) *Selective {
	return &Selective{N: n, features: features, group: features / groups, lanes: machine.selective, one: one}
}

// columns returns the number of rates of a feature.
func (s *Selective) columns() int {
	if s.one {
		return 1
	}
	return s.N
}

// Bytes returns the size of the constants.
func (s *Selective) Bytes() int64 {
	return 4 * (int64(s.Blocks())*int64(s.columns())*int64(s.lanes) + int64(s.features+s.lanes))
}

// With returns the scan with the constants of heads, which have features in turn: the rates a, one per state of each
// head or one per head, and the factors of the direct term, one per head, or nil.
func (s *Selective) With(heads int, a, direct []float32) *Selective {
	full := s.Sized()
	full.Fill(heads, a, direct)
	return full
}

// Sized returns the scan with memory for constants, for Fill.
func (s *Selective) Sized() *Selective {
	full := *s
	full.rates, full.direct = make([]float32, s.Blocks()*s.columns()*s.lanes), make([]float32, s.features+s.lanes)
	return &full
}

// Fill sets the constants to those that With describes, in place.
func (s *Selective) Fill(heads int, a, direct []float32) {
	columns, per := s.columns(), s.features/heads
	if direct != nil {
		for e := range s.features {
			s.direct[e] = direct[e/per]
		}
	}
	for k := range s.Blocks() {
		from, count := s.Block(k)
		for j := range columns {
			for i := range count {
				s.rates[(k*columns+j)*s.lanes+i] = a[(from+i)/per*columns+j]
			}
		}
	}
}

// perGroup returns the number of blocks of a group.
func (s *Selective) perGroup() int { return (s.group + s.lanes - 1) / s.lanes }

// Blocks returns the number of blocks.
func (s *Selective) Blocks() int {
	if s.group == 0 {
		return 0
	}
	return s.features / s.group * s.perGroup()
}

// Block returns the first feature of a block, and their number.
func (s *Selective) Block(k int) (from, count int) {
	g, i := k/s.perGroup(), k%s.perGroup()
	return g*s.group + i*s.lanes, min(s.lanes, s.group-i*s.lanes)
}

// Groups returns the number of groups.
func (s *Selective) Groups() int { return s.features / max(s.group, 1) }

// Group returns the group of a block.
func (s *Selective) Group(k int) int { return k / s.perGroup() }

// States returns the size of the states of a block, in the order of Scan.
func (s *Selective) States() int { return s.N * s.lanes }

// Scan advances the states z of block k over rows, oldest first: s = exp(Δa) s + Δ x b, y = c·s + direct·x. x, y and delta
// begin at the block's first feature; their rows are stride and ldd numbers apart. b and c begin at the group's first
// number; their rows are ldb apart.
func (s *Selective) Scan(k int, y, x []float32, stride int, delta []float32, ldd int, b, c []float64, ldb, rows int,
	z []float64) {
	from, count := s.Block(k)
	if rows == 0 || count == 0 {
		return
	}
	columns := s.columns()
	rates, direct := s.rates[k*columns*s.lanes:][:columns*s.lanes], s.direct[from:][:s.lanes]
	if s.N > 0 && s.wide(y, x, stride, delta, ldd, rates, b, c, ldb, direct, rows, count, z) {
		return
	}
	for r := range rows {
		for i := range count {
			step, u := delta[r*ldd+i], x[r*stride+i]
			in, sum, change := float64(step*u), 0.0, 0.0
			for j := range s.N {
				if j < columns {
					change = expm1(float64(step * rates[j*s.lanes+i]))
				}
				q := &z[j*s.lanes+i]
				*q += change**q + in*b[r*ldb+j]
				sum += c[r*ldb+j] * *q
			}
			y[r*stride+i] = float32(sum) + direct[i]*u
		}
	}
}

// LoadStates sets the states of block k from its features' states, N in turn. Nil means zeros.
func LoadStates[T float32 | float64](s *Selective, k int, z []float64, from []T) {
	clear(z)
	if from == nil {
		return
	}
	_, count := s.Block(k)
	for i := range count {
		at := z[i:]
		for j, v := range from[i*s.N : (i+1)*s.N] {
			at[j*s.lanes] = float64(v)
		}
	}
}

// SaveStates writes the states of block k as LoadStates reads them.
func SaveStates[T float32 | float64](s *Selective, k int, z []float64, to []T) {
	_, count := s.Block(k)
	for i := range count {
		at := z[i:]
		row := to[i*s.N : (i+1)*s.N]
		for j := range row {
			row[j] = T(at[j*s.lanes])
		}
	}
}

// Gated advances the states z of n features over rows, oldest first: h[t] = f[t] h[t-1] + v[t]. Rows are stride numbers
// apart. h may be f or v.
func Gated(h, f, v []float32, stride, n, rows int, z []float64) {
	if rows == 0 || n == 0 {
		return
	}
	for i := gatedWide(h, f, v, stride, n, rows, z); i < n; i++ {
		s := z[i]
		for r := range rows {
			at := r*stride + i
			s = float64(f[at])*s + float64(v[at])
			h[at] = float32(s)
		}
		z[i] = s
	}
}

// expm1 returns eˣ - 1 with a relative error below 1e-9.
func expm1(x float64) float64 {
	if x > 0.35 || x < -0.35 || x != x {
		return exp64(x) - 1
	}
	p := 1.0 / 40320
	p = p*x + 1.0/5040
	p = p*x + 1.0/720
	p = p*x + 1.0/120
	p = p*x + 1.0/24
	p = p*x + 1.0/6
	p = p*x + 0.5
	return (p*x + 1) * x
}
