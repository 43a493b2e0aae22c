package kernel

import (
	"errors"
	"reflect"
	"testing"
)

func TestFillParts(t *testing.T) { eachVariant(t, testFillParts) }

// FillParts packs as Pack does, rows and columns, also of matrices that are read in several parts.
func testFillParts(t *testing.T) {
	r := newRand()
	check := func(m, k int) {
		w := random(r, m*k)
		for _, rs := range []int{k, 1} {
			cs, reads := 1, 0
			if rs == 1 {
				cs = m
			}
			want := Pack(w, m, k, rs, cs)
			got := NewPacked(m, k)
			err := got.FillParts(rs, cs, func(dst []float32, from int) error {
				reads++
				copy(dst, w[from:from+len(dst)])
				return nil
			})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d × %d, strides %d and %d: differs, %v", m, k, rs, cs, err)
			}
			if min(m, k) > 100 && m*k > 1<<18 && reads < 2 {
				t.Errorf("%d × %d: %d reads", m, k, reads)
			}
		}
	}
	for _, m := range sizes {
		for _, k := range sizes {
			check(m, k)
		}
	}
	check(301, 1001)
	check(1003, 303)
	check(3, 150001)
	check(150001, 3)
	bad := errors.New("bad")
	if err := NewPacked(9, 5).FillParts(5, 1, func([]float32, int) error { return bad }); !errors.Is(err, bad) {
		t.Error(err)
	}
}
