package std

// mt19937 is the Mersenne Twister, seeded and read as in numpy's RandomState. The standard's reference implementation
// uses it, so equal seeds give equal numbers.
type mt19937 struct {
	state [624]uint32
	next  int
}

func newMT19937(seed uint32) *mt19937 {
	m := &mt19937{next: 624}
	m.state[0] = seed
	for i := 1; i < 624; i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	return m
}

func (m *mt19937) uint32() uint32 {
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

// float64 returns a number in [0, 1) with 53 random bits.
func (m *mt19937) float64() float64 {
	a, b := m.uint32()>>5, m.uint32()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}
