package data

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/philox"
	"github.com/essmc/essmc/ir/tensor"
)

// grid is one picture of 3 × 4 pixels with two features: row·10 + column, and its negative.
func grid() (Spec, Sample) {
	v := make([]float32, 0, 24)
	for y := range 3 {
		for x := range 4 {
			v = append(v, float32(10*y+x+1), -float32(10*y+x+1))
		}
	}
	return Spec{Features: 2, Steps: 12, Inputs: 1, Height: 3, Width: 4, Classes: numbered(1)},
		Sample{[]*tensor.Tensor{tensor.FromSlice(v, 12, 2)}, class(0)}
}

// TestPictures compares flips and crops with a picture that is looked up pixel by pixel, and checks that all places
// occur.
func TestPictures(t *testing.T) {
	spec, x := grid()
	before := slices.Clone(tensor.Data[float32](x.Inputs[0]))
	flip, err := NewFlip(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, border := range []int{0, 1, 2, 5} {
		crop, err := NewCrop(spec, border)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for dy := -border; dy <= border; dy++ {
			for dx := -border; dx <= border; dx++ {
				for _, mirrored := range []bool{false, true} {
					want[fmt.Sprint(looked(before, dy, dx, mirrored))] = true
				}
			}
		}
		found := map[string]bool{}
		for i := range uint32(3000) {
			r := philox.New(1, 2, i, 3)
			y, err := flip.Apply(x, r)
			if err == nil {
				y, err = crop.Apply(y, r)
			}
			if err != nil || spec.Check("x", y) != nil {
				t.Fatal(err)
			}
			found[fmt.Sprint(tensor.Data[float32](y.Inputs[0]))] = true
		}
		for s := range found {
			if !want[s] {
				t.Errorf("border %d: unexpected picture %s", border, s)
			}
		}
		if len(found) != len(want) {
			t.Errorf("border %d: %d of %d pictures occurred", border, len(found), len(want))
		}
	}
	if !slices.Equal(tensor.Data[float32](x.Inputs[0]), before) {
		t.Error("the picture was written to")
	}
	if _, err := NewFlip(Spec{Features: 1, Steps: 3, Inputs: 1}); err == nil {
		t.Error("expected an error for sequences that are not pictures")
	}
	if _, err := NewCrop(spec, -1); err == nil {
		t.Error("expected an error for a negative border")
	}
}

// looked returns the picture that is cut out at (dy, dx) of the picture, mirrored or not, with zeros around it.
func looked(v []float32, dy, dx int, mirrored bool) []float32 {
	var out []float32
	for y := range 3 {
		for x := range 4 {
			sy, sx := y+dy, x+dx
			in := sy >= 0 && sy < 3 && sx >= 0 && sx < 4
			if mirrored {
				sx = 3 - sx
			}
			for f := range 2 {
				if in {
					out = append(out, v[(sy*4+sx)*2+f])
				} else {
					out = append(out, 0)
				}
			}
		}
	}
	return out
}

func TestStatistics(t *testing.T) {
	set, err := Arrays(tensor.FromSlice([]float32{1, 5, 3, 5, 8, 5, 0, 5}, 2, 2, 2), tensor.FromSlice([]int64{0, 0}, 2), nil, ArrayOptions{Classes: 1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := Statistics(t.Context(), set, 0)
	if err != nil || n.Mean[0] != 3 || math.Abs(float64(n.Std[0])-math.Sqrt((4+0+25+9)/4.)) > 1e-6 || n.Mean[1] != 5 || n.Std[1] != 1 {
		t.Errorf("mean %v, standard deviation %v, %v", n.Mean, n.Std, err)
	}
	if n, err := Statistics(t.Context(), set, 1); err != nil || n.Mean[0] != 2 || n.Std[0] != 1 {
		t.Errorf("of the first sample: %+v, %v", n, err)
	}
	s, err := set.Sample(t.Context(), 1)
	if err == nil {
		s, err = n.Apply(s, nil)
	}
	if got := tensor.Data[float32](s.Inputs[0]); err != nil || got[1] != 0 || got[0] != (8-n.Mean[0])/n.Std[0] {
		t.Errorf("%v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Statistics(ctx, set, 0); err != context.Canceled {
		t.Errorf("error %v", err)
	}
	for _, bad := range []*Normalize{{[]float32{0, 0}, []float32{1, 0}}, {[]float32{0, 0}, []float32{1, float32(math.Inf(1))}},
		{[]float32{float32(math.NaN()), 0}, []float32{1, 1}}, {[]float32{0}, []float32{1}}} {
		if _, err := bad.Check(set.Spec()); err == nil || !strings.Contains(err.Error(), "normalize") {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
}

func TestSteps(t *testing.T) {
	spec, x := grid()
	p := NewPermute(12, 7)
	after, err := p.Check(spec)
	if err != nil || after.Height != 0 || after.Steps != 12 {
		t.Fatalf("%+v, %v", after, err)
	}
	y, err := p.Apply(x, nil)
	if err != nil {
		t.Fatal(err)
	}
	from, to := tensor.Data[float32](x.Inputs[0]), tensor.Data[float32](y.Inputs[0])
	for i, k := range Permutation(12, 7) {
		if to[2*i] != from[2*k] || to[2*i+1] != from[2*k+1] {
			t.Errorf("step %d is %v, expected step %d", i, to[2*i:2*i+2], k)
		}
	}
	e := Every{5}
	if after, err = e.Check(spec); err != nil || after.Steps != 3 {
		t.Fatalf("%+v, %v", after, err)
	}
	if y, err = e.Apply(x, nil); err != nil || !slices.Equal(tensor.Data[float32](y.Inputs[0]), []float32{1, -1, 12, -12, 23, -23}) {
		t.Errorf("every fifth step: %v, %v", y.Inputs[0], err)
	}
	short := Sample{[]*tensor.Tensor{tensor.FromSlice([]int64{4, 5, 6}, 3), tensor.FromSlice([]int64{7}, 1)}, class(0)}
	if y, err = (Every{2}).Apply(short, nil); err != nil || !slices.Equal(tensor.Data[int64](y.Inputs[0]), []int64{4, 6}) ||
		!slices.Equal(tensor.Data[int64](y.Inputs[1]), []int64{7}) {
		t.Errorf("every second token: %v, %v", y.Inputs, err)
	}
	if _, err := p.Apply(short, nil); err == nil || !strings.Contains(err.Error(), "expected 12 steps, found 3") {
		t.Errorf("error %v", err)
	}
}

// pairs is a set of two inputs of different lengths.
type pairs struct{}

func (pairs) Len() int      { return 2 }
func (pairs) Steps(int) int { return 3 }
func (pairs) Spec() Spec    { return Spec{Tokens: 9, Inputs: 2, Classes: numbered(2)} }

func (pairs) Sample(_ context.Context, i int) (Sample, error) {
	k := int64(i)
	return Sample{[]*tensor.Tensor{tensor.FromSlice([]int64{k + 1}, 1), tensor.FromSlice([]int64{k + 5, 6, 7}[:3-i], 3-i)}, class(i)}, nil
}

// TestPairs checks the layout of tasks that compare two sequences: all first ones, then all second ones.
func TestPairs(t *testing.T) {
	b, err := newLoader(t, pairs{}, Options{Batch: 2, Padding: Padding{Token: 8}}).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if x, want := b.Input, []int64{1, 8, 8, 2, 8, 8, 5, 6, 7, 6, 6, 8}; !slices.Equal(x.Shape(), []int{4, 3}) || !slices.Equal(tensor.Data[int64](x), want) {
		t.Errorf("input %v, expected %v", tensor.Data[int64](x), want)
	}
	if n := tensor.Data[int64](b.Lengths); !slices.Equal(n, []int64{1, 1, 3, 2}) || !slices.Equal(b.Target.Shape(), []int{2}) {
		t.Errorf("lengths %v, targets %v", n, b.Target)
	}
}

// TestCheck lets each part of a sample differ from its specification.
func TestCheck(t *testing.T) {
	f := func(n int) *tensor.Tensor { return tensor.New(tensor.Float32, n, 2) }
	features := Spec{Features: 2, Steps: 3, Inputs: 1, Classes: numbered(2)}
	tokens := Spec{Tokens: 4, Inputs: 1, Labels: 4}
	numbers := Spec{Features: 2, Inputs: 1, Targets: 2}
	ids := tensor.FromSlice([]int64{0, 3}, 2)
	in := func(x ...*tensor.Tensor) []*tensor.Tensor { return x }
	for want, c := range map[string]struct {
		s Spec
		x Sample
	}{
		"x: expected 1 inputs, found 2":                               {features, Sample{in(f(1), f(1)), class(0)}},
		"x: input: expected float32 (steps, 2), found float32[1,3]":   {features, Sample{in(tensor.New(tensor.Float32, 1, 3)), class(0)}},
		"x: input: expected float32 (steps, 2), found int64[2]":       {features, Sample{in(ids), class(0)}},
		"x: input: expected at least one step, found none":            {features, Sample{in(f(0)), class(0)}},
		"x: input: expected at most 3 steps, found 4":                 {features, Sample{in(f(4)), class(0)}},
		"x: expected a target, found none":                            {features, Sample{in(f(1)), nil}},
		"x: target: expected a label in [0, 2), found 2":              {features, Sample{in(f(1)), class(2)}},
		"x: target: expected a label in [0, 2), found -100":           {features, Sample{in(f(1)), class(Ignore)}},
		"x: target: expected int64 labels of steps, or one class":     {features, Sample{in(f(1)), ids}},
		"x: input: expected int64 tokens (steps), found float32[1,2]": {tokens, Sample{in(f(1)), ids}},
		"x: input, step 1: expected a token in [0, 4), found 4":       {tokens, Sample{in(tensor.FromSlice([]int64{0, 4}, 2)), ids}},
		"x: target: expected a label in [0, 4), found -1":             {tokens, Sample{in(ids), tensor.FromSlice([]int64{Ignore, -1}, 2)}},
		"x: target: expected float32[2], found float32[1,2]":          {numbers, Sample{in(f(1)), f(1)}},
		"": {tokens, Sample{in(ids), tensor.FromSlice([]int64{Ignore, 1}, 2)}},
	} {
		err := c.s.Check("x", c.x)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}
