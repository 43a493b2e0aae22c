package synthetic

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/essmc/essmc/internal/philox"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
)

// ListOpsOptions are the rules of expressions, with those of the Long Range Arena in place of zeros.
type ListOpsOptions struct {
	Seed    uint64
	Samples int
	Depth   int // of operators and values within each other; 0: 10
	Args    int // most arguments of an operator; 0: 10
	Least   int // tokens of an expression, without the end; 0: 501
	Most    int // 0: 1999
}

// ListOps generates expressions of nested operators over digits, such as [MAX 4 [MIN 2 3] 1 0], whose value, a digit,
// is the class. The rules are those of Nangia and Bowman ("ListOps: A diagnostic dataset for latent tree learning",
// 2018) as the Long Range Arena (Tay and others, 2021) uses them: a node is an operator with probability 0.25, and a
// digit otherwise or at the greatest depth; an operator has 2 to Args arguments. The operators are the minimum, the
// maximum, the median (of an even number the mean of the middle two, rounded down) and the sum modulo 10. Expressions
// with fewer than Least or more than Most tokens are drawn again.
//
// Inputs are tokens, of which there are 18: 0 padding, 1 unknown (never used), 2 the end, which each input has, 3 to 12
// the digits, then "[MIN", "[MAX", "[MED", "[SM" and "]".
type ListOps struct {
	o     ListOpsOptions
	steps []atomic.Int32 // of each sample; 0: not known yet
}

// The tokens.
const (
	listEnd    = 2
	listDigit  = 3
	listMin    = 13
	listClose  = 17
	listTokens = 18
	listRetry  = 1 << 20 // expressions that are drawn before the rules count as impossible
)

var (
	listWords = []string{"", "", "", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"}
	digits    = listWords[listDigit:listMin]
)

// NewListOps returns a set of expressions.
func NewListOps(o ListOpsOptions) (*ListOps, error) {
	if err := checkSamples(o.Samples); err != nil {
		return nil, fmt.Errorf("ListOps: %w", err)
	}
	if o.Depth == 0 {
		o.Depth = 10
	}
	if o.Args == 0 {
		o.Args = 10
	}
	if o.Least == 0 {
		o.Least = 501
	}
	if o.Most == 0 {
		o.Most = 1999
	}
	if o.Depth < 1 || o.Depth > 64 || o.Args < 2 || o.Args > 1000 || o.Least < 1 || o.Most < o.Least || o.Most > 1<<20 {
		return nil, fmt.Errorf("ListOps: expected a depth of 1 to 64, 2 to 1000 arguments and 1 ≤ least ≤ most ≤ %d tokens, found %d, %d, %d and %d",
			1<<20, o.Depth, o.Args, o.Least, o.Most)
	}
	l := &ListOps{o: o, steps: make([]atomic.Int32, o.Samples)}
	if _, _, err := l.draw(0); err != nil { // the rules may have no such expression
		return nil, err
	}
	return l, nil
}

// Len implements data.Dataset.
func (l *ListOps) Len() int { return l.o.Samples }

// Spec implements data.Dataset.
func (l *ListOps) Spec() data.Spec {
	return data.Spec{Tokens: listTokens, Steps: l.o.Most + 1, Inputs: 1, Classes: digits}
}

// Steps implements data.Dataset.
func (l *ListOps) Steps(i int) int {
	if n := l.steps[i].Load(); n > 0 {
		return int(n)
	}
	tokens, _, err := l.draw(i)
	if err != nil {
		return l.o.Most + 1 // Sample returns the error
	}
	l.steps[i].Store(int32(len(tokens)))
	return len(tokens)
}

// Sample implements data.Dataset.
func (l *ListOps) Sample(_ context.Context, i int) (data.Sample, error) {
	tokens, value, err := l.draw(i)
	return data.Sample{Inputs: []*tensor.Tensor{tensor.FromSlice(tokens, len(tokens))}, Target: tensor.Scalar(int64(value))}, err
}

// draw returns the tokens of a sample and its value.
func (l *ListOps) draw(i int) ([]int64, int, error) {
	t := &tree{ListOpsOptions: l.o, r: random(l.o.Seed, streamListOps, i)}
	for range listRetry {
		t.tokens = t.tokens[:0]
		if value := t.node(1); len(t.tokens) >= l.o.Least && len(t.tokens) <= l.o.Most {
			return append(t.tokens, listEnd), value, nil
		}
	}
	return nil, 0, fmt.Errorf("ListOps: expected expressions of %d to %d tokens with depth %d and %d arguments, found none in %d",
		l.o.Least,
		l.o.Most, l.o.Depth, l.o.Args, listRetry)
}

// tree is an expression that is being drawn.
type tree struct {
	ListOpsOptions
	r      *philox.Source
	tokens []int64
}

// node draws an expression at a depth and returns its value. It ends early, with any value, once there are too many
// tokens.
func (t *tree) node(depth int) int {
	if depth == t.Depth || t.r.Float64() > 0.25 {
		v := t.r.IntN(10)
		t.tokens = append(t.tokens, int64(listDigit+v))
		return v
	}
	n, at := 2+t.r.IntN(t.Args-1), len(t.tokens)
	t.tokens = append(t.tokens, 0)
	args := make([]int, n)
	for k := range args {
		if args[k] = t.node(depth + 1); len(t.tokens) > t.Most {
			return 0
		}
	}
	op := t.r.IntN(4)
	t.tokens[at] = int64(listMin + op)
	t.tokens = append(t.tokens, listClose)
	switch op {
	case 0:
		return slices.Min(args)
	case 1:
		return slices.Max(args)
	case 2:
		slices.Sort(args)
		return (args[(n-1)/2] + args[n/2]) / 2
	}
	sum := 0
	for _, v := range args {
		sum += v
	}
	return sum % 10
}

// ListOpsText encodes expressions as text into the tokens of ListOps, with the end. Parentheses, which the published
// files have, are left out.
type ListOpsText struct{}

// Tokens implements data.Encoder.
func (ListOpsText) Tokens() int { return listTokens }

// Encode implements data.Encoder.
func (ListOpsText) Encode(_ context.Context, text string) ([]int64, error) {
	var out []int64
	for word := range strings.FieldsSeq(strings.NewReplacer("(", " ", ")", " ").Replace(text)) {
		k := slices.Index(listWords[listDigit:], word)
		if k < 0 {
			return nil, fmt.Errorf("expected a digit, an operator such as [MAX, or ], found %.40q", word)
		}
		out = append(out, int64(k+listDigit))
	}
	return append(out, listEnd), nil
}

// Text returns the words of tokens.
func (ListOpsText) Text(tokens []int64) string {
	var out []string
	for _, k := range tokens {
		if k < 0 || k >= listTokens {
			out = append(out, strconv.FormatInt(k, 10))
		} else if word := listWords[k]; word != "" {
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

var arena = data.Source{Name: "the Long Range Arena",
	URL:  "https://storage.googleapis.com/long-range-arena/lra_release.gz",
	Hint: "unpack it, and give the folder listops-1000"}

// ReadListOps reads the published expressions of the part "train" (96,000 samples), "val" or "test" (2000 each) from
// the folder dir: basic_train.tsv, basic_val.tsv or basic_test.tsv, with the columns Source and Target.
func ReadListOps(ctx context.Context, dir, split string) (data.Dataset, error) {
	if !slices.Contains([]string{"train", "val", "test"}, split) {
		return nil, fmt.Errorf("part of the data: expected train, val or test, found %q", split)
	}
	path := filepath.Join(dir, "basic_"+split+".tsv")
	set, err := data.Table(ctx, path, data.TableOptions{Label: "Target", Text: "Source", Encode: ListOpsText{}, Classes: digits})
	return set, arena.Missing(path, err)
}
