// Package mt19937 is the Mersenne Twister, seeded and read as in numpy's RandomState. The reference implementation of
// ONNX's random operators uses it, so equal seeds give equal numbers. It imports nothing.
package mt19937

// Source is a generator. It is not safe for concurrent use.
type Source struct {
	state [624]uint32
	next  int
}

// New returns a generator with a seed.
func New(seed uint32) *Source {
	m := &Source{next: 624}
	m.state[0] = seed
	for i := 1; i < 624; i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	return m
}

// Uint32 returns 32 random bits.
func (m *Source) Uint32() uint32 {
	if m.next == 624 {
		for i := range m.state {
			y := m.state[i]&0x80000000 | m.state[(i+1)%624]&0x7fffffff
			v := m.state[(i+397)%624] ^ y>>1
			if y&1 == 1 {
				v ^= 0x9908b0df
			}
			m.state[i] = v
		}
		m.next = 0
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Float64 returns a number in [0, 1) with 53 random bits.
func (m *Source) Float64() float64 {
	a, b := m.Uint32()>>5, m.Uint32()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}
