// Package generate continues sequences of tokens with a language model: a model that takes tokens and returns logits
// for the next token at every step. It keeps the state of a stream instead of the sequence, so a token takes the
// same time at any length.
//
// It imports runtime, ir and ir/tensor only, so that a service can use it with plans only. Equal models, prompts and
// options give equal tokens. A model or prompt that cannot be continued is refused before the first token.
package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// Options are the settings of a generation. The zero value selects the most probable token each time, DefaultTokens
// times.
type Options struct {
	// MaxNewTokens is the maximum number of new tokens; 0 means DefaultTokens. At most MaxTokens are allowed,
	// including the prompt.
	MaxNewTokens int
	// Temperature divides the logits before a token is drawn. 0 takes the most probable token.
	Temperature float64
	// TopK leaves the given number of most probable tokens; 0: all.
	TopK int
	// TopP restricts the choice to the most probable tokens that together have at least this probability; 0 means
	// all.
	TopP float64
	// Seed selects the random numbers.
	Seed uint64
	// Stop are tokens that end the text. They are not part of it.
	Stop []int64
}

// Limits of a generation.
const (
	DefaultTokens = 64
	MaxTokens     = 1 << 24

	// prompts are read in chunks whose logits have about this number of bytes.
	chunkBytes = 32 << 20
	chunkSteps = 512
)

// OptionError is the error for an option that is out of range, or for a model or prompt that cannot be continued.
type OptionError struct {
	Name string // of the option, or "model"
	Msg  string
}

// Error returns a text such as "temperature: expected a number of at least 0, found -1".
func (e *OptionError) Error() string { return e.Name + ": " + e.Msg }

func (o *Options) check() error {
	wrong := func(name, format string, args ...any) error { return &OptionError{name, fmt.Sprintf(format, args...)} }
	switch {
	case o.MaxNewTokens < 0 || o.MaxNewTokens > MaxTokens:
		return wrong("max new tokens", "expected 0 to %d, found %d", MaxTokens, o.MaxNewTokens)
	case !(o.Temperature >= 0) || math.IsInf(o.Temperature, 0):
		return wrong("temperature", "expected a number of at least 0, found %v", o.Temperature)
	case o.TopK < 0:
		return wrong("top k", "expected at least 0, found %d", o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return wrong("top p", "expected a number from 0 to 1, found %v", o.TopP)
	case o.Temperature == 0 && (o.TopK > 0 || o.TopP > 0):
		return wrong("temperature", "expected a number above 0, since tokens are drawn only with one, found 0")
	}
	return nil
}

// Generator continues one sequence. Only one goroutine can use it at a time.
type Generator struct {
	s             *runtime.Stream
	input, output string
	elem          tensor.DType // of tokens
	vocab         int
	out           map[string]tensor.Datum
	one           *tensor.Tensor
	logits        []float32 // after the last token
	seen          int
}

// New returns a generator for a model whose only required input is tokens, int64 or int32 [B,L], and whose first
// output is logits [B,L,V]. For other models, the error is an *OptionError that describes what is missing.
func New(m *runtime.Model) (*Generator, error) { return newGenerator(context.Background(), m) }

func newGenerator(ctx context.Context, m *runtime.Model) (*Generator, error) {
	g := &Generator{out: map[string]tensor.Datum{}}
	lacks := func(format string, args ...any) error {
		return &OptionError{"model", "not a language model: expected one input of tokens, int64[B,L], and logits at " +
			"every step, float[B,L,V]; found " + fmt.Sprintf(format, args...)}
	}
	for _, p := range m.Inputs() {
		t, ok := ir.AsTensor(p.Type)
		switch {
		case p.Optional:
		case g.input != "":
			return nil, lacks("the inputs %s and %s", g.input, p.Name)
		case !ok || t.Elem != tensor.Int64 && t.Elem != tensor.Int32 || len(t.Shape) != 2:
			return nil, lacks("input %s, %v", p.Name, p.Type)
		default:
			g.input, g.elem = p.Name, t.Elem
		}
	}
	if g.input == "" {
		return nil, lacks("no input")
	}
	s, err := m.NewStreamContext(ctx, 1)
	if errors.Is(err, runtime.ErrStream) {
		return nil, lacks("one that %v", err)
	}
	if err != nil {
		return nil, err
	}
	timing := s.Timing()
	p := s.Outputs()[0]
	t, ok := ir.AsTensor(p.Type)
	if !ok || t.Elem != tensor.Float32 || len(t.Shape) != 3 || timing.Outputs[0].Kind != stepgraph.Sequence ||
		timing.Outputs[0].Axis != 1 {
		return nil, lacks("output %s, %v", p.Name, p.Type)
	}
	vocab, known := t.Shape[2].Known()
	if !known || vocab < 1 {
		return nil, lacks("output %s, %v, whose number of logits is not known", p.Name, p.Type)
	}
	if timing.Latency > 0 || timing.Multiple > 1 {
		return nil, lacks("output %s, which looks ahead", p.Name)
	}
	g.s, g.output, g.vocab = s, p.Name, int(vocab)
	g.one = tensor.New(g.elem, 1, 1)
	return g, nil
}

// Vocabulary returns the number of logits: tokens are below it.
func (g *Generator) Vocabulary() int { return g.vocab }

// Logits returns the logits of the token after the last one of Feed. They are valid until the next one.
func (g *Generator) Logits() []float32 { return g.logits }

// Feed passes tokens to the model. Long prompts are read in chunks, so that memory does not grow with them.
func (g *Generator) Feed(ctx context.Context, tokens []int64) error {
	for i, k := range tokens {
		if k < 0 || k >= int64(g.vocab) {
			return &OptionError{"prompt", fmt.Sprintf("token %d is %d, which is outside of the vocabulary, 0 to %d", i,
				k, g.vocab-1)}
		}
	}
	if len(tokens) > MaxTokens-g.seen {
		return &OptionError{"prompt", fmt.Sprintf("expected at most %d tokens in all, found %d", MaxTokens,
			g.seen+len(tokens))}
	}
	most := max(1, min(chunkSteps, chunkBytes/(4*g.vocab)))
	for len(tokens) > 0 {
		n := min(most, len(tokens))
		x := g.one
		if n > 1 {
			x = tensor.New(g.elem, 1, n)
		}
		for i, k := range tokens[:n] {
			if g.elem == tensor.Int64 {
				tensor.Data[int64](x)[i] = k
			} else {
				tensor.Data[int32](x)[i] = int32(k)
			}
		}
		if n > 1 {
			clear(g.out) // of another length
		}
		if err := g.s.Step(ctx, map[string]tensor.Datum{g.input: x}, g.out); err != nil {
			return err
		}
		y, ok := g.out[g.output].(*tensor.Tensor)
		if !ok || y.Len() != n*g.vocab {
			return &OptionError{"model", fmt.Sprintf("expected %d logits for %d tokens, found %s", n*g.vocab, n,
				tensor.Describe(g.out[g.output]))}
		}
		g.logits = append(g.logits[:0], tensor.Data[float32](y)[(n-1)*g.vocab:]...)
		if n > 1 {
			clear(g.out)
		}
		g.seen += n
		tokens = tokens[n:]
	}
	return nil
}

// Tokens continues a prompt of at least one token, and yields each new token as soon as it is known. An error is the
// last element. The prompt's own tokens are not yielded.
func Tokens(ctx context.Context, m *runtime.Model, prompt []int64, o Options) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		g, err := newGenerator(ctx, m)
		if err != nil {
			yield(0, err)
			return
		}
		defer g.Close()
		g.Tokens(ctx, prompt, o)(yield)
	}
}

// Tokens is the function Tokens for a generator, which may have seen tokens before.
func (g *Generator) Tokens(ctx context.Context, prompt []int64, o Options) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if err := g.tokens(ctx, prompt, o, func(k int64) bool { return yield(k, nil) }); err != nil {
			yield(0, err)
		}
	}
}

func (g *Generator) tokens(ctx context.Context, prompt []int64, o Options, yield func(int64) bool) error {
	if err := o.check(); err != nil {
		return err
	}
	count := o.MaxNewTokens
	if count == 0 {
		count = DefaultTokens
	}
	if len(prompt) == 0 && g.seen == 0 {
		return &OptionError{"prompt", "expected at least one token, found none"}
	}
	if n := g.seen + len(prompt); n > MaxTokens-count {
		return &OptionError{"prompt", fmt.Sprintf("expected at most %d tokens in all, found %d and %d new ones",
			MaxTokens, n, count)}
	}
	if err := g.Feed(ctx, prompt); err != nil {
		return err
	}
	s := sampler{o: o, r: rand.New(rand.NewPCG(o.Seed, 0x67656e)), order: make([]int, g.vocab),
		weight: make([]float64, g.vocab)}
	for i := range count {
		k, err := s.next(g.logits)
		if err != nil {
			return fmt.Errorf("token %d: %w", g.seen, err)
		}
		if slices.Contains(o.Stop, int64(k)) || !yield(int64(k)) {
			return nil
		}
		if i < count-1 {
			if err := g.Feed(ctx, []int64{int64(k)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close drops the state.
func (g *Generator) Close() error { return g.s.Close() }
