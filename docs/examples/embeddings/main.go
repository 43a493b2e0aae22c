// Command embeddings lists the lines of standard input, those nearest in meaning to a text first.
//
//	go run ./docs/examples/embeddings -dir MODEL "a text" <lines.txt
//
// MODEL is a directory with tokenizer.json and model.onnx (or onnx/model.onnx), such as those of sentence
// transformers. The embedding of a text is the mean of the model's first output over the tokens of the text, with
// length 1; the similarity of two texts is the cosine of the angle between their embeddings, from -1 to 1.
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/frontend/tokenizer"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embeddings:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("embeddings", flag.ExitOnError)
	dir := flags.String("dir", ".", "the model directory")
	top := flags.Int("top", 10, "how many lines to list")
	flags.Parse(args)
	if flags.NArg() == 0 {
		return fmt.Errorf("expected a text to look for; usage: embeddings [-dir MODEL] [-top N] TEXT <LINES")
	}
	texts := []string{strings.Join(flags.Args(), " ")}
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		texts = append(texts, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	e, err := load(*dir)
	if err != nil {
		return err
	}
	defer e.model.Close()
	vectors, err := e.embed(context.Background(), texts)
	if err != nil {
		return err
	}
	query, texts, vectors := vectors[0], texts[1:], vectors[1:]
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(dot(query, vectors[b]), dot(query, vectors[a]))
	})
	for _, i := range order[:min(max(*top, 0), len(order))] {
		fmt.Fprintf(stdout, "%.4f  %s\n", dot(query, vectors[i]), texts[i])
	}
	return nil
}

// embedder has a model that gives float[texts, tokens, features], and its tokenizer.
type embedder struct {
	tok   *tokenizer.Tokenizer
	model *runtime.Model
}

func load(dir string) (*embedder, error) {
	tok, err := tokenizer.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "model.onnx")
	if _, err := os.Stat(file); os.IsNotExist(err) {
		file = filepath.Join(dir, "onnx", "model.onnx")
	}
	model, err := open.Load(file, open.Options{})
	if err != nil {
		return nil, err
	}
	return &embedder{tok, model}, nil
}

// embed returns the embedding of each text, cut off where the model takes no more tokens. It computes 32 texts at a
// time, which bounds the memory.
func (e *embedder) embed(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	var names []string
	for _, in := range e.model.Inputs() {
		names = append(names, in.Name)
	}
	options := tokenizer.Options{}
	if n := e.tok.Config().MaxLength; n > 0 {
		options.Truncation = &tokenizer.Truncation{MaxLength: n}
	}
	for part := range slices.Chunk(texts, 32) {
		batch, err := e.tok.Encode(ctx, part, options)
		if err != nil {
			return nil, err
		}
		in, err := batch.Tensors(names...)
		if err != nil {
			return nil, err
		}
		// The mask is not an input of every model.
		masks, err := batch.Tensors("attention_mask")
		if err != nil {
			return nil, err
		}
		out, err := e.model.Run(ctx, in)
		if err != nil {
			return nil, err
		}
		mask := tensor.Data[int64](masks["attention_mask"].(*tensor.Tensor))
		name := e.model.Outputs()[0].Name
		hidden, ok := out[name].(*tensor.Tensor)
		if !ok || hidden.DType() != tensor.Float32 || len(hidden.Shape()) != 3 ||
			hidden.Shape()[0] != len(part) || hidden.Shape()[0]*hidden.Shape()[1] != len(mask) {
			return nil, fmt.Errorf("output %q: expected float32[texts,tokens,features], found %s", name,
				tensor.Describe(out[name]))
		}
		vectors = append(vectors, pool(hidden, mask)...)
	}
	return vectors, nil
}

// pool returns the mean of each text's tokens that the mask has, with length 1.
func pool(hidden *tensor.Tensor, mask []int64) [][]float32 {
	data, features := tensor.Data[float32](hidden), hidden.Shape()[2]
	vectors := make([][]float32, hidden.Shape()[0])
	tokens := hidden.Shape()[1]
	for i := range vectors {
		sum := make([]float32, features)
		for t := i * tokens; t < (i+1)*tokens; t++ {
			for f := range sum {
				sum[f] += float32(mask[t]) * data[t*features+f]
			}
		}
		// A mean has the direction of its sum.
		length := float32(math.Sqrt(float64(dot(sum, sum))))
		for f := range sum {
			sum[f] /= max(length, 1e-12)
		}
		vectors[i] = sum
	}
	return vectors
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
