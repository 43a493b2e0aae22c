package data

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

// memory is samples with one input that are kept in memory, one after the other.
type memory struct {
	spec    Spec
	numbers []float32 // all steps of all samples
	tokens  []int64
	spans   []span
	labels  []int64
	values  []float32 // Spec.Targets for each sample
}

// span is the steps of a sample.
type span struct{ from, to int }

func (m *memory) Len() int        { return len(m.spans) }
func (m *memory) Spec() Spec      { return m.spec }
func (m *memory) Steps(i int) int { return m.spans[i].to - m.spans[i].from }

// add says that the next sample ends with the steps that there are.
func (m *memory) add() {
	from, to := 0, len(m.tokens)
	if !m.spec.Token() {
		to = len(m.numbers) / m.spec.Features
	}
	if n := len(m.spans); n > 0 {
		from = m.spans[n-1].to
	}
	m.spans = append(m.spans, span{from, to})
	m.spec.Steps = max(m.spec.Steps, to-from)
}

func (m *memory) Sample(_ context.Context, i int) (Sample, error) {
	from, to := m.spans[i].from, m.spans[i].to
	var s Sample
	if m.spec.Token() {
		s.Inputs = []*tensor.Tensor{tensor.FromSlice(m.tokens[from:to:to], to-from)}
	} else {
		h := m.spec.Features
		s.Inputs = []*tensor.Tensor{tensor.FromSlice(m.numbers[from*h:to*h:to*h], to-from, h)}
	}
	s.Target = m.target(i)
	return s, nil
}

// target returns the target of a sample.
func (m *memory) target(i int) *tensor.Tensor {
	if k := m.spec.Targets; k > 0 {
		return tensor.FromSlice(m.values[i*k:(i+1)*k:(i+1)*k], k)
	}
	return tensor.Scalar(m.labels[i])
}

// Collect returns a set of samples that are kept as they are. If the specification states no number of steps, it gets
// that of the longest input.
func Collect(spec Spec, samples []Sample) (Dataset, error) {
	longest := 0
	for i, s := range samples {
		if err := spec.Check(fmt.Sprintf("sample %d", i), s); err != nil {
			return nil, err
		}
		longest = max(longest, s.Steps())
	}
	if spec.Steps == 0 {
		spec.Steps = longest
	}
	return &collected{spec, samples}, nil
}

type collected struct {
	spec    Spec
	samples []Sample
}

func (c *collected) Len() int                                        { return len(c.samples) }
func (c *collected) Spec() Spec                                      { return c.spec }
func (c *collected) Steps(i int) int                                 { return c.samples[i].Steps() }
func (c *collected) Sample(_ context.Context, i int) (Sample, error) { return c.samples[i], nil }

// ArrayOptions say what arrays are.
type ArrayOptions struct {
	Classes int  // classes are in [0, Classes); 0: targets are numbers to be estimated
	Tokens  int  // inputs are tokens in [0, Tokens); 0: they are features
	Raw     bool // inputs of type uint8 are not divided by 255
}

// Arrays returns a set of arrays: inputs (samples, steps, features), or (samples, steps) for tokens or for one feature;
// targets (samples) of integers for classes, (samples) or (samples, n) for numbers; lengths (samples), or nil if all
// samples have all steps. Features may be of any numeric type. Those of type uint8 are divided by 255.
func Arrays(inputs, targets, lengths *tensor.Tensor, o ArrayOptions) (Dataset, error) {
	shape := inputs.Shape()
	if len(shape) < 2 || len(shape) > 3 || o.Tokens > 0 && len(shape) != 2 {
		return nil, fmt.Errorf("inputs: expected an array (samples, steps, features) or (samples, steps), found %s", inputs)
	}
	n, steps := shape[0], shape[1]
	if n < 1 || steps < 1 || n > MaxSamples || inputs.Len() == 0 {
		return nil, fmt.Errorf("inputs: expected at least one sample and one step, found %s", inputs)
	}
	m := &memory{spec: Spec{Inputs: 1, Steps: steps, Tokens: o.Tokens}}
	if err := m.arrayTargets(targets, n, o.Classes); err != nil {
		return nil, err
	}
	length := slices.Repeat([]int64{int64(steps)}, n)
	if lengths != nil {
		if !slices.Equal(lengths.Shape(), []int{n}) || !lengths.DType().IsInt() {
			return nil, fmt.Errorf("lengths: expected integers (%d), found %s", n, lengths)
		}
		var err error
		if length, err = lengths.Int64s(); err != nil {
			return nil, err
		}
	}
	width := 1
	if len(shape) == 3 {
		width = shape[2]
	}
	for i, k := range length {
		if k < 1 || k > int64(steps) {
			return nil, fmt.Errorf("lengths: sample %d: expected 1 to %d steps, found %d", i, steps, k)
		}
		m.spans = append(m.spans, span{i * steps, i*steps + int(k)})
	}
	if o.Tokens > 0 {
		all, err := inputs.Int64s()
		if err != nil || !inputs.DType().IsInt() {
			return nil, fmt.Errorf("inputs: expected integers for tokens, found %s", inputs)
		}
		for i, s := range m.spans {
			for t, v := range all[s.from:s.to] {
				if v < 0 || v >= int64(o.Tokens) {
					return nil, fmt.Errorf("inputs: sample %d, step %d: expected a token in [0, %d), found %d", i, t, o.Tokens, v)
				}
			}
		}
		m.tokens = all
		return m, nil
	}
	m.spec.Features = width
	all, err := inputs.Float32s()
	if err != nil {
		return nil, fmt.Errorf("inputs: expected numbers, found %s: %w", inputs, err)
	}
	m.numbers = all
	if inputs.DType() == tensor.Uint8 && !o.Raw {
		m.numbers = slices.Clone(m.numbers)
		for i := range m.numbers {
			m.numbers[i] /= 255
		}
	}
	return m, nil
}

// arrayTargets sets the targets of n samples.
func (m *memory) arrayTargets(targets *tensor.Tensor, n, classes int) error {
	shape := targets.Shape()
	if len(shape) == 0 || shape[0] != n || len(shape) > 2 || len(shape) == 2 && (classes > 0 || shape[1] == 0) {
		return fmt.Errorf("targets: expected one for each of %d samples, found %s", n, targets)
	}
	if classes == 0 {
		values, err := targets.Float32s()
		if err != nil {
			return fmt.Errorf("targets: expected numbers, found %s: %w", targets, err)
		}
		for i, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("targets: sample %d: expected a finite number, found %v", i/(len(values)/n), v)
			}
		}
		m.values, m.spec.Targets = values, len(values)/n
		return nil
	}
	if !targets.DType().IsInt() {
		return fmt.Errorf("targets: expected integers for classes, found %s", targets)
	}
	labels, err := targets.Int64s()
	if err != nil {
		return err
	}
	for i, v := range labels {
		if v < 0 || v >= int64(classes) {
			return fmt.Errorf("targets: sample %d: expected a class in [0, %d), found %d", i, classes, v)
		}
	}
	m.labels, m.spec.Classes = labels, numbered(classes)
	return nil
}

// numbered returns the names of n classes that have none.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// ReadArrays is Arrays of files: .npy, FILE.npz:KEY, or .csv. An empty path of the lengths stands for none.
func ReadArrays(inputs, targets, lengths string, o ArrayOptions) (Dataset, error) {
	var all [3]*tensor.Tensor
	for i, path := range []string{inputs, targets, lengths} {
		if path == "" && i == 2 {
			continue
		}
		a, err := arrays.Read(path)
		if err != nil {
			return nil, err
		}
		all[i] = a.Tensor
	}
	set, err := Arrays(all[0], all[1], all[2], o)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", inputs, targets, err)
	}
	return set, nil
}
