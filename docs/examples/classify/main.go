// Command classify prints the classes of texts with their probabilities, the most probable first.
//
//	go run ./docs/examples/classify -dir MODEL "a text" "another one"
//	go run ./docs/examples/classify -dir MODEL <lines.txt
//
// MODEL is a directory with tokenizer.json, model.onnx (or onnx/model.onnx), and config.json, whose id2label names the
// classes. The first output of the model has a number for each class, which softmax makes a probability.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/frontend/tokenizer"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "classify:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("classify", flag.ExitOnError)
	dir := flags.String("dir", ".", "the model directory")
	flags.Parse(args)
	texts := flags.Args()
	if len(texts) == 0 {
		lines := bufio.NewScanner(stdin)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			texts = append(texts, lines.Text())
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	c, err := load(*dir)
	if err != nil {
		return err
	}
	defer c.model.Close()
	for part := range slices.Chunk(texts, 32) { // 32 texts at a time bound the memory
		probabilities, err := c.classify(context.Background(), part)
		if err != nil {
			return err
		}
		for i, text := range part {
			fmt.Fprintln(stdout, text)
			p := probabilities[i]
			order := make([]int, len(p))
			for class := range order {
				order[class] = class
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
			for _, class := range order[:min(5, len(order))] {
				fmt.Fprintf(stdout, "  %.4f  %s\n", p[class], c.label(class))
			}
		}
	}
	return nil
}

// classifier has a model that gives float[texts, classes], its tokenizer, and the names of the classes.
type classifier struct {
	tok    *tokenizer.Tokenizer
	model  *runtime.Model
	labels map[string]string // by the number of the class
}

func load(dir string) (*classifier, error) {
	tok, err := tokenizer.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		return nil, err
	}
	var c struct {
		Labels map[string]string `json:"id2label"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	file := filepath.Join(dir, "model.onnx")
	if _, err := os.Stat(file); os.IsNotExist(err) {
		file = filepath.Join(dir, "onnx", "model.onnx")
	}
	model, err := open.Load(file, open.Options{})
	if err != nil {
		return nil, err
	}
	return &classifier{tok, model, c.Labels}, nil
}

// label returns the name of a class, or its number if it has none.
func (c *classifier) label(class int) string {
	number := strconv.Itoa(class)
	return cmp.Or(c.labels[number], number)
}

// classify returns the probability of each class for each text, cut off where the model takes no more tokens.
func (c *classifier) classify(ctx context.Context, texts []string) ([][]float64, error) {
	options := tokenizer.Options{}
	if n := c.tok.Config().MaxLength; n > 0 {
		options.Truncation = &tokenizer.Truncation{MaxLength: n}
	}
	batch, err := c.tok.Encode(ctx, texts, options)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, in := range c.model.Inputs() {
		names = append(names, in.Name)
	}
	in, err := batch.Tensors(names...)
	if err != nil {
		return nil, err
	}
	out, err := c.model.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	name := c.model.Outputs()[0].Name
	logits, ok := out[name].(*tensor.Tensor)
	if !ok || logits.DType() != tensor.Float32 || len(logits.Shape()) != 2 ||
		logits.Shape()[0] != len(texts) || logits.Shape()[1] == 0 {
		return nil, fmt.Errorf("output %q: expected float32[texts,classes], found %s", name, tensor.Describe(out[name]))
	}
	var probabilities [][]float64
	for row := range slices.Chunk(tensor.Data[float32](logits), logits.Shape()[1]) {
		probabilities = append(probabilities, softmax(row))
	}
	return probabilities, nil
}

func softmax(logits []float32) []float64 {
	p, sum, highest := make([]float64, len(logits)), 0.0, slices.Max(logits)
	for i, x := range logits {
		p[i] = math.Exp(float64(x - highest))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
