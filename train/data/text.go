package data

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// MaxText is the number of bytes that a file of text may have.
const MaxText = 64 << 20

// TextOptions say how texts are read.
type TextOptions struct {
	Encode Encoder // nil: Bytes
	Length int     // tokens beyond this number are cut off; 0: none are
}

// TextFolder is a folder of texts: a folder for each class, and a .txt file in it for each sample. Files are read when
// a sample is asked for.
type TextFolder struct {
	options TextOptions
	names   []string
	paths   []string
	labels  []int
	sizes   []int
}

// Texts returns the texts in the folders of dir, in the order of classes and names. Classes are the folders that are
// given; nil: all folders, sorted.
func Texts(ctx context.Context, dir string, classes []string, o TextOptions) (*TextFolder, error) {
	if o.Encode == nil {
		o.Encode = Bytes{}
	}
	if classes == nil {
		list, err := files.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.IsDir() {
				classes = append(classes, e.Name())
			}
		}
		slices.SortFunc(classes, compareNames)
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%s: expected a folder for each class, found none", dir)
	}
	t := &TextFolder{options: o, names: classes}
	for k, name := range classes {
		folder := filepath.Join(dir, name)
		list, err := files.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if e.IsDir() || !strings.EqualFold(filepath.Ext(e.Name()), ".txt") {
				continue
			}
			path := filepath.Join(folder, e.Name())
			info, err := files.Stat(path)
			if err != nil {
				return nil, err
			}
			t.paths, t.labels, t.sizes = append(t.paths, path), append(t.labels, k), append(t.sizes, int(min(info.Size(), MaxText)))
		}
	}
	if len(t.paths) == 0 {
		return nil, fmt.Errorf("%s: expected .txt files in the folders %q, found none", dir, classes)
	}
	return t, nil
}

var imdb = Source{Name: "the Large Movie Review Dataset",
	URL:  "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
	Hint: "unpack it, and give the folder aclImdb"}

// IMDB returns the reviews of Maas and others, of the part "train" or "test" (25,000 samples each), from the folders
// neg (class 0) and pos (class 1) in dir/train and dir/test.
func IMDB(ctx context.Context, dir, split string, o TextOptions) (*TextFolder, error) {
	if split != "train" && split != "test" {
		return nil, splitError(split, "train", "test")
	}
	path := filepath.Join(dir, split)
	t, err := Texts(ctx, path, []string{"neg", "pos"}, o)
	if err != nil {
		return nil, imdb.Missing(path, err)
	}
	return t, nil
}

// Len implements Dataset.
func (t *TextFolder) Len() int { return len(t.paths) }

// Spec implements Dataset.
func (t *TextFolder) Spec() Spec {
	return Spec{Tokens: t.options.Encode.Tokens(), Steps: t.options.Length, Inputs: 1, Classes: t.names}
}

// Steps implements Dataset: the bytes of the file.
func (t *TextFolder) Steps(i int) int {
	if n := t.options.Length; n > 0 {
		return min(t.sizes[i], n)
	}
	return t.sizes[i]
}

// Text returns the text of a sample.
func (t *TextFolder) Text(ctx context.Context, i int) (string, error) {
	b, err := ReadFile(ctx, t.paths[i], MaxText)
	return string(b), err
}

// Each calls f for the text of each sample, as NewCharacters asks for them.
func (t *TextFolder) Each(ctx context.Context) func(f func(text string) error) error {
	return func(f func(text string) error) error {
		for i := range t.paths {
			text, err := t.Text(ctx, i)
			if err != nil {
				return err
			}
			if err := f(text); err != nil {
				return err
			}
		}
		return nil
	}
}

// With returns the same texts with other options.
func (t *TextFolder) With(o TextOptions) *TextFolder {
	out := *t
	if out.options = o; o.Encode == nil {
		out.options.Encode = Bytes{}
	}
	return &out
}

// Sample implements Dataset.
func (t *TextFolder) Sample(ctx context.Context, i int) (Sample, error) {
	text, err := t.Text(ctx, i)
	if err != nil {
		return Sample{}, err
	}
	tokens, err := EncodeText(ctx, t.options.Encode, text, t.options.Length)
	if err != nil {
		return Sample{}, fmt.Errorf("%s: %w", t.paths[i], err)
	}
	return Sample{[]*tensor.Tensor{tensor.FromSlice(tokens, len(tokens))}, class(t.labels[i])}, nil
}

// Corpus is one long text for a language model: sample i is the steps tokens from i·steps on, and each step's label is
// the token after it. A rest at the end that has fewer tokens is left out.
type Corpus struct {
	tokens       []int64
	steps, limit int
}

// NewCorpus returns the samples of some tokens, all in [0, limit).
func NewCorpus(tokens []int64, steps, limit int) (*Corpus, error) {
	if steps < 1 || len(tokens) < steps+1 {
		return nil, fmt.Errorf("corpus: expected at least one sample of %d steps and a token after it, found %d tokens",
			steps, len(tokens))
	}
	for i, v := range tokens {
		if v < 0 || v >= int64(limit) {
			return nil, fmt.Errorf("corpus: token %d: expected a number in [0, %d), found %d", i, limit, v)
		}
	}
	return &Corpus{tokens, steps, limit}, nil
}

// ReadCorpus reads a file of text.
func ReadCorpus(ctx context.Context, path string, e Encoder, steps int) (*Corpus, error) {
	b, err := ReadFile(ctx, path, MaxText)
	if err != nil {
		return nil, err
	}
	tokens, err := e.Encode(ctx, string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c, err := NewCorpus(tokens, steps, e.Tokens())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Len implements Dataset.
func (c *Corpus) Len() int { return (len(c.tokens) - 1) / c.steps }

// Spec implements Dataset.
func (c *Corpus) Spec() Spec {
	return Spec{Tokens: c.limit, Steps: c.steps, Inputs: 1, Labels: c.limit}
}

// Steps implements Dataset.
func (c *Corpus) Steps(int) int { return c.steps }

// Sample implements Dataset.
func (c *Corpus) Sample(_ context.Context, i int) (Sample, error) {
	from, to := i*c.steps, (i+1)*c.steps
	return Sample{[]*tensor.Tensor{tensor.FromSlice(c.tokens[from:to:to], c.steps)},
		tensor.FromSlice(c.tokens[from+1:to+1:to+1], c.steps)}, nil
}
