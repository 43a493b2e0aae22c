package data

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Batch is some samples together. It belongs to the caller.
type Batch struct {
	// Input is (sequences, steps, features) of float32 or (sequences, steps) of int64, padded at the end: the first
	// inputs of all samples, then the second ones.
	Input *tensor.Tensor
	// Lengths are the steps of each sequence before it was padded, int64 (sequences).
	Lengths *tensor.Tensor
	// Target is (samples) for classes, (samples, n) for numbers, and (samples, steps) for labels, padded with Ignore.
	Target *tensor.Tensor

	Samples []int // the samples by their numbers in the set
	Epoch   int
	Number  int // of the batch in the epoch
}

// Bytes returns the memory of the batch.
func (b *Batch) Bytes() int64 {
	return int64(len(b.Input.Bytes())) + int64(len(b.Lengths.Bytes())) + int64(len(b.Target.Bytes()))
}

// Padding says how sequences are made equally long. The zero value pads with zeros to the longest sequence of a batch.
type Padding struct {
	Steps      int     // all batches have this many steps; 0: as many as the longest sequence. Longer sequences are an error
	MultipleOf int     // the number of steps is rounded up to a multiple of this; 0: it is not
	Number     float32 // pads features
	Token      int64   // pads tokens
}

// Collate puts samples together. They must be as the specification says.
func Collate(spec Spec, samples []Sample, p Padding) (*Batch, error) {
	if len(samples) == 0 {
		return nil, fmt.Errorf("batch: expected at least one sample, found none")
	}
	steps := 0
	for i, s := range samples {
		if err := spec.Check(fmt.Sprintf("sample %d of the batch", i), s); err != nil {
			return nil, err
		}
		steps = max(steps, s.Steps())
	}
	steps, err := p.steps(steps)
	if err != nil {
		return nil, err
	}
	b, n := &Batch{}, len(samples)
	lengths := make([]int64, spec.Inputs*n)
	shape := []int{spec.Inputs * n, steps}
	if !spec.Token() {
		shape = append(shape, spec.Features)
	}
	if _, err := tensor.Size(shape); err != nil {
		return nil, fmt.Errorf("batch %s: %w", tensor.ShapeString(shape), err)
	}
	if spec.Token() {
		b.Input = tensor.New(tensor.Int64, shape...)
		fill(tensor.Data[int64](b.Input), samples, spec.Inputs, steps, p.Token, lengths)
	} else {
		b.Input = tensor.New(tensor.Float32, shape...)
		fill(tensor.Data[float32](b.Input), samples, spec.Inputs, steps*spec.Features, p.Number, lengths)
	}
	b.Lengths = tensor.FromSlice(lengths, len(lengths))
	b.Target = targets(spec, samples, steps)
	return b, nil
}

// steps returns the number of steps of a batch whose longest sequence has the given number.
func (p Padding) steps(longest int) (int, error) {
	if p.Steps > 0 {
		if longest > p.Steps {
			return 0, fmt.Errorf("batch: expected sequences of at most %d steps (padding), found one of %d", p.Steps, longest)
		}
		longest = p.Steps
	}
	if p.MultipleOf > 1 {
		longest = (longest + p.MultipleOf - 1) / p.MultipleOf * p.MultipleOf
	}
	return longest, nil
}

// fill writes the inputs of samples to rows of the given width, pads them, and sets the lengths.
func fill[T float32 | int64](dst []T, samples []Sample, inputs, width int, pad T, lengths []int64) {
	for k := range inputs {
		for i, s := range samples {
			at := k*len(samples) + i
			row := dst[at*width : (at+1)*width]
			from := tensor.Data[T](s.Inputs[k])
			lengths[at] = int64(s.Inputs[k].Dim(0))
			for j := copy(row, from); j < width && pad != 0; j++ {
				row[j] = pad
			}
		}
	}
}

// targets puts the targets of samples together.
func targets(spec Spec, samples []Sample, steps int) *tensor.Tensor {
	switch {
	case spec.Targets > 0:
		var all []float32
		for _, s := range samples {
			all = append(all, tensor.Data[float32](s.Target)...)
		}
		return tensor.FromSlice(all, len(samples), spec.Targets)
	case spec.Labels == 0:
		all := make([]int64, len(samples))
		for i, s := range samples {
			all[i] = tensor.Data[int64](s.Target)[0]
		}
		return tensor.FromSlice(all, len(samples))
	}
	width := steps
	for _, s := range samples {
		width = max(width, s.Target.Len())
	}
	all := slices.Repeat([]int64{Ignore}, len(samples)*width)
	for i, s := range samples {
		copy(all[i*width:], tensor.Data[int64](s.Target))
	}
	return tensor.FromSlice(all, len(samples), width)
}
