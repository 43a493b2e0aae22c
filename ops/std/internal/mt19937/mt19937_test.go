package mt19937

import "testing"

// The numbers are those of numpy.random.RandomState: randint(0, 2**32, dtype=uint32) and random_sample.
func TestSource(t *testing.T) {
	for seed, want := range map[uint32][3]uint32{0: {2357136044, 2546248239, 3071714933}, 5489: {3499211612, 581869302, 3890346734}} {
		m := New(seed)
		for i, w := range want {
			if got := m.Uint32(); got != w {
				t.Errorf("seed %d, number %d: found %d, expected %d", seed, i, got, w)
			}
		}
	}
	m := New(0)
	for i, w := range []float64{0.5488135039273248, 0.7151893663724195, 0.6027633760716439} {
		if got := m.Float64(); got != w {
			t.Errorf("number %d: found %v, expected %v", i, got, w)
		}
	}
	m = New(5489) // the 10000th number is stated by the C++ standard
	for range 9999 {
		m.Uint32()
	}
	if got := m.Uint32(); got != 4123659995 {
		t.Errorf("number 10000: found %d, expected 4123659995", got)
	}
}
