// Package data reads and makes data for training: sets of samples, and batches of them in a random order that can be
// repeated.
//
//	set, err := data.MNIST(ctx, "mnist", "train")
//	parts, err := data.Split(set, 1, 50000, 10000)
//	loader, err := data.NewLoader(parts[0], data.Options{Batch: 50, Seed: 1, Shuffle: true, Workers: 2})
//	for batch, err := range loader.Epoch(ctx) {
//		…
//	}
//
// A Dataset gives sample i, the same bits at each call. A Loader makes batches of samples, epoch after epoch. Whatever
// is random follows from the seed, the epoch and the number of the sample by package philox, so batches do not depend
// on the number of goroutines or on what was read before. The place in them is a Position, a small value: a loader that
// is given it goes on with the same bits.
//
// Sequences are as models take them: an input of a sample is (steps, features) of float32, or (steps) of int64 for
// tokens. Pictures are read row by row, each pixel a step. Batches are padded at the end.
//
// Packages below this one have speech (audio), generated tasks (synthetic) and the Parquet format (parquet). Files are
// untrusted: memory is bounded by their sizes, and errors name the file, the record or line, what was expected and what
// was found. Data sets that must be downloaded are not downloaded; if files are missing, the error lists them and where
// they come from.
package data

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Ignore is the label of a step that is not to be predicted: losses leave it out, as PyTorch's do.
const Ignore = -100

// MaxSamples is the number of samples that a set may have.
const MaxSamples = 1<<31 - 1

// Sample is one example of a task. Nobody writes to its tensors.
type Sample struct {
	// Inputs are sequences, (steps, features) of float32 or (steps) of int64. There is one, or two for tasks that
	// compare them.
	Inputs []*tensor.Tensor
	// Target is a class (an int64 without dimensions), float32 numbers to be estimated (n), or an int64 label for each
	// step (steps), Ignore for none.
	Target *tensor.Tensor
}

// Steps returns the number of steps of the longest input.
func (s Sample) Steps() int {
	n := 0
	for _, x := range s.Inputs {
		n = max(n, x.Dim(0))
	}
	return n
}

// Spec describes the samples of a set.
type Spec struct {
	Features int // numbers of a step; 0: tokens
	Tokens   int // tokens are in [0, Tokens); 0: features
	Steps    int // no input has more; 0: not known
	Inputs   int // sequences of a sample: 1 or 2

	Height, Width int // of pictures, whose pixels are the steps; 0: the samples are not pictures

	// Classes are the names of the classes; nil: the targets are not classes.
	Classes []string
	// Labels is the number of labels of a step: labels are in [0, Labels), or Ignore; 0: steps have no labels.
	Labels int
	// Targets is the number of numbers to be estimated.
	Targets int
}

// Token reports whether inputs are tokens.
func (s Spec) Token() bool { return s.Tokens > 0 }

// Dataset is samples that can be read in any order. Its methods may be called concurrently.
type Dataset interface {
	// Len returns the number of samples, at most MaxSamples.
	Len() int
	// Spec describes the samples.
	Spec() Spec
	// Steps returns the number of steps of the longest input of sample i, or an estimate if that is known only when it
	// is read. Batches are put together by it, so it is the same at each call.
	Steps(i int) int
	// Sample returns sample i, with the same bits at each call.
	Sample(ctx context.Context, i int) (Sample, error)
}

// class returns the target of a class.
func class(k int) *tensor.Tensor { return tensor.Scalar(int64(k)) }

// Check returns an error if a sample is not as the specification says. Errors begin with name.
func (s Spec) Check(name string, x Sample) error {
	if len(x.Inputs) != s.Inputs {
		return fmt.Errorf("%s: expected %d inputs, found %d", name, s.Inputs, len(x.Inputs))
	}
	for _, in := range x.Inputs {
		if err := s.checkInput(name, in); err != nil {
			return err
		}
	}
	if x.Target == nil {
		return fmt.Errorf("%s: expected a target, found none", name)
	}
	switch shape := x.Target.Shape(); {
	case s.Targets > 0:
		if x.Target.DType() != tensor.Float32 || !slices.Equal(shape, []int{s.Targets}) {
			return fmt.Errorf("%s: target: expected float32[%d], found %s", name, s.Targets, tensor.Describe(x.Target))
		}
	case x.Target.DType() != tensor.Int64 || s.Labels > 0 && len(shape) != 1 || s.Labels == 0 && len(shape) != 0:
		return fmt.Errorf("%s: target: expected int64 labels of steps, or one class, found %s",
			name, tensor.Describe(x.Target))
	default:
		limit := max(s.Labels, len(s.Classes))
		for _, v := range tensor.Data[int64](x.Target) {
			if (v < 0 || v >= int64(limit)) && (s.Labels == 0 || v != Ignore) {
				return fmt.Errorf("%s: target: expected a label in [0, %d), found %d", name, limit, v)
			}
		}
	}
	return nil
}

func (s Spec) checkInput(name string, in *tensor.Tensor) error {
	switch shape := in.Shape(); {
	case s.Token() && (in.DType() != tensor.Int64 || len(shape) != 1):
		return fmt.Errorf("%s: input: expected int64 tokens (steps), found %s", name, tensor.Describe(in))
	case !s.Token() && (in.DType() != tensor.Float32 || len(shape) != 2 || shape[1] != s.Features):
		return fmt.Errorf("%s: input: expected float32 (steps, %d), found %s", name, s.Features, tensor.Describe(in))
	case shape[0] == 0:
		return fmt.Errorf("%s: input: expected at least one step, found none", name)
	case s.Steps > 0 && shape[0] > s.Steps:
		return fmt.Errorf("%s: input: expected at most %d steps, found %d", name, s.Steps, shape[0])
	}
	if s.Token() {
		for t, v := range tensor.Data[int64](in) {
			if v < 0 || v >= int64(s.Tokens) {
				return fmt.Errorf("%s: input, step %d: expected a token in [0, %d), found %d", name, t, s.Tokens, v)
			}
		}
	}
	return nil
}
