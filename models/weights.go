package models

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/config"
)

// Weights maps the names of a model's tensors in checkpoints (docs/math.md, Model directory) to the tensors.
type Weights map[string]*tensor.Tensor

// Spec describes one tensor of a model: float32 of this shape, or int64.
type Spec struct {
	Name  string
	Shape []int
	// Statistic marks tensors without a gradient: the running statistics of batch norms.
	Statistic bool
	// Int marks tensors of int64, of numbers of at least 0: settings that checkpoints keep among the weights.
	Int bool
}

// Type is the type of the elements.
func (s Spec) Type() tensor.DType {
	if s.Int {
		return tensor.Int64
	}
	return tensor.Float32
}

// Size returns the number of elements.
func (s Spec) Size() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Extras is a Config whose checkpoints may hold tensors that are no part of the model.
type Extras interface {
	Config
	// Extra reports whether the tensor of a name is left out.
	Extra(name string) bool
}

// maxHints bounds the names that Check compares to a missing one.
const maxHints = 64

// Check compares the tensors with the configuration: all that it needs and no others, of the right types and shapes
// and with finite numbers. The error names the first tensor at fault and the number of others.
func Check(c Config, w Weights) error { return check(nil, c, w) }

// CheckContext is Check, which ends with the cause when ctx is done. ctx may be nil.
func CheckContext(ctx context.Context, c Config, w Weights) (err error) {
	defer ends.Catch("", &err)
	return check(ends.Of(ctx), c, w)
}

func check(watch *ends.Watch, c Config, w Weights) error {
	specs, err := c.Specs(w)
	if err != nil {
		return err
	}
	var faults []string
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("tensor %s: ", config.Shorten(name))+fmt.Sprintf(format, args...))
	}
	known := map[string]bool{}
	for _, s := range specs {
		known[s.Name] = true
	}
	var extra []string
	extras, _ := c.(Extras)
	for name := range w {
		if !known[name] && !strings.HasSuffix(name, ".num_batches_tracked") && (extras == nil || !extras.Extra(name)) {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, s := range specs {
		watch.Step(8)
		want := s.Type().String() + tensor.ShapeString(s.Shape)
		t := w[s.Name]
		switch {
		case t == nil:
			hint := ""
			if near := spell.Nearest(s.Name, extra[:min(len(extra), maxHints)]); near != "" &&
				spell.Distance(s.Name, near) < 4 && spell.Close(s.Name, []string{near}) != "" {
				hint = "; there is " + config.Shorten(near)
			}
			fault(s.Name, "is missing, expected %s%s", want, hint)
		case t.DType() != s.Type() || !slices.Equal(t.Shape(), s.Shape):
			fault(s.Name, "expected %s, found %s", want, t)
		case s.Int:
			v := tensor.Data[int64](t)
			_ = watch.Parts(len(v), func(from, to int) error {
				at := slices.IndexFunc(v[from:to], func(x int64) bool { return x < 0 })
				if at < 0 {
					return nil
				}
				at += from
				fault(s.Name+indexString(s.Shape, at), "expected a number of at least 0, found %d", v[at])
				return errBad
			})
		default:
			v := tensor.Data[float32](t)
			_ = watch.Parts(len(v), func(from, to int) error {
				at, why := badValue(s, v[from:to])
				if at < 0 {
					return nil
				}
				at += from
				fault(s.Name+indexString(s.Shape, at), "expected %s, found %v", why, v[at])
				return errBad
			})
		}
	}
	for _, name := range extra {
		fault(name, "is not part of the model")
	}
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return errors.New(faults[0])
	}
	return fmt.Errorf("%s (and %d more)", faults[0], len(faults)-1)
}

// errBad ends the search for a bad value.
var errBad = errors.New("a bad value")

// badValue returns the index of an element that is not allowed, or -1 if there is none.
func badValue(s Spec, v []float32) (at int, want string) {
	variance := strings.HasSuffix(s.Name, ".running_var")
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return i, "a finite number"
		}
		if variance && x < 0 {
			return i, "a variance of at least 0"
		}
	}
	return -1, ""
}

// indexString returns the index of element at as "[0,3]".
func indexString(shape []int, at int) string {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i], at = at%shape[i], at/shape[i]
	}
	return tensor.ShapeString(index)
}
