package synthetic

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// CopyingOptions are the rules of copying. The Mamba paper has Length 4096, Memorize 16 and Tokens 16, with Selective.
type CopyingOptions struct {
	Seed      uint64
	Samples   int
	Length    int  // steps of tokens to be remembered and of noise; the markers come after them
	Memorize  int  // tokens to be remembered
	Tokens    int  // tokens in all, with the noise (0) and the marker (the last one)
	Selective bool // the tokens are at random places; otherwise at the beginning
}

// Copying generates sequences of tokens in noise, and after them a marker for each token: there the token is to be
// returned, in the order of appearance. The rules are those of Arjovsky, Shah and Bengio ("Unitary evolution recurrent
// neural networks", 2016) and, for selective copying, of Gu and Dao ("Mamba", 2023), as in the code of state-spaces/s4:
// tokens are 1 to Tokens-2, each with the same probability.
//
// Inputs are Length + Memorize tokens. Targets are labels of steps: the tokens at the markers, data.Ignore before them.
type Copying struct{ o CopyingOptions }

// NewCopying returns a set of sequences.
func NewCopying(o CopyingOptions) (*Copying, error) {
	if err := checkSamples(o.Samples); err != nil {
		return nil, fmt.Errorf("copying: %w", err)
	}
	if o.Memorize < 1 || o.Memorize > o.Length || o.Length > 1<<24 || o.Tokens < 3 || o.Tokens > 1<<24 {
		return nil, fmt.Errorf("copying: expected 1 ≤ memorize ≤ length ≤ %d and 3 to %d tokens, found %d, %d and %d",
			1<<24, 1<<24, o.Memorize,
			o.Length, o.Tokens)
	}
	return &Copying{o}, nil
}

// Len implements data.Dataset.
func (c *Copying) Len() int { return c.o.Samples }

// Spec implements data.Dataset.
func (c *Copying) Spec() data.Spec {
	return data.Spec{Tokens: c.o.Tokens, Steps: c.Steps(0), Inputs: 1, Labels: c.o.Tokens}
}

// Steps implements data.Dataset.
func (c *Copying) Steps(int) int { return c.o.Length + c.o.Memorize }

// Sample implements data.Dataset.
func (c *Copying) Sample(_ context.Context, i int) (data.Sample, error) {
	r, n, k := random(c.o.Seed, streamCopying, i), c.o.Length, c.o.Memorize
	x, y := make([]int64, n+k), slices.Repeat([]int64{data.Ignore}, n+k)
	places := make([]int, 0, k)
	for j := range k {
		at := j
		if c.o.Selective { // Floyd's choice of k places of n
			last := n - k + j
			at = r.IntN(last + 1)
			if _, taken := slices.BinarySearch(places, at); taken {
				at = last
			}
		}
		place, _ := slices.BinarySearch(places, at)
		places = slices.Insert(places, place, at)
	}
	for j, at := range places {
		token := int64(1 + r.IntN(c.o.Tokens-2))
		x[at], y[n+j], x[n+j] = token, token, int64(c.o.Tokens-1)
	}
	return data.Sample{Inputs: []*tensor.Tensor{tensor.FromSlice(x, n+k)}, Target: tensor.FromSlice(y, n+k)}, nil
}
