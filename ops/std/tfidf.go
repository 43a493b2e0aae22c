package std

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// TfIdfVectorizer counts n-grams.
var TfIdfVectorizer = ops.Register(&ir.Op{
	Name: "TfIdfVectorizer", Since: 9,
	Doc: "The number of occurrences of each n-gram of the pool in X, a vector or a row per sample, with up to " +
		"max_skip_count other elements between any two of its own; at ngram_indexes, weighted by mode.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:float"),
	Elems: elems("T", []tensor.DType{tensor.String, tensor.Int32, tensor.Int64}),
	Attrs: []ir.AttrSpec{
		{Name: "mode", Kind: ir.AttrString, Required: true, OneOf: []string{"TF", "IDF", "TFIDF"},
			Doc: "TF: counts; IDF: weights of n-grams that occur; TFIDF: counts times weights"},
		{Name: "min_gram_length", Kind: ir.AttrInt, Required: true, Doc: "smallest length of an n-gram"},
		{Name: "max_gram_length", Kind: ir.AttrInt, Required: true, Doc: "largest length of an n-gram"},
		{Name: "max_skip_count", Kind: ir.AttrInt, Required: true, Doc: "largest number of elements to skip"},
		{Name: "ngram_counts", Kind: ir.AttrInts, Required: true,
			Doc: "index in the pool of the first 1-gram, 2-gram, …"},
		{Name: "ngram_indexes", Kind: ir.AttrInts, Required: true, Doc: "index in the output of each n-gram"},
		{Name: "pool_int64s", Kind: ir.AttrInts, Doc: "the concatenated n-grams as integers"},
		{Name: "pool_strings", Kind: ir.AttrStrings, Doc: "or as strings"},
		{Name: "weights", Kind: ir.AttrFloats, Doc: "the weight of each n-gram; absent: 1"},
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		p, err := readPool(nil, n)
		if err != nil {
			return nil, err
		}
		x := tensorIn(n, 0)
		if x.NoRank {
			return one(noRank(tensor.Float32))
		}
		if len(x.Shape) < 1 || len(x.Shape) > 2 {
			return nil, fmt.Errorf("expected a vector or rows, found %v", x.Shape)
		}
		return one(typed(tensor.Float32, append(slices.Clone(x.Shape[:len(x.Shape)-1]), ir.Const(int64(p.size)))))
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		length, longest := ops.DimAt(n.In(0), -1, bind), max(getInt(n, "max_gram_length"), 0)
		apart := min(max(getInt(n, "max_skip_count"), 0)+1, length)
		return ops.Stated(n, bind, ops.Product(8, ops.Count(n.In(0), bind), apart, longest, longest))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		p, err := readPool(c, c.Node)
		if err != nil {
			return nil, err
		}
		if x.Rank() < 1 || x.Rank() > 2 {
			return nil, fmt.Errorf("expected a vector or rows, found %s", x)
		}
		words := x.Strings()
		if x.DType() != tensor.String {
			v, err := ops.Int64s(c, x)
			if err != nil {
				return nil, err
			}
			words = ops.Make[string](c, len(v))
			for i, k := range ops.All(c, v) {
				words[i] = strconv.FormatInt(k, 10)
			}
		}
		cols := x.Dim(-1)
		rows := product(x.Shape()[:x.Rank()-1])
		shape := append(slices.Clone(x.Shape()[:x.Rank()-1]), p.size)
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		out := ops.Make[float64](c, size)
		for r := range rows {
			c.Step(1)
			counts := p.count(c, words[r*cols:(r+1)*cols])
			for g, k := range ops.All(c, counts) {
				if p.mode == "IDF" {
					k = min(k, 1)
				}
				w := 1.0
				if p.mode != "TF" && len(p.weights) > 0 {
					w = p.weights[g]
				}
				out[r*p.size+p.at[g]] += w * k
			}
		}
		return ops.One(ops.Real(c, tensor.Float32, out, shape...))
	},
	Along: alongKeep(func(_ *ir.Node, axis, rank int) bool { return axis == rank-1 }), Tol: ir.Rounding,
})

// pool holds the n-grams to count.
type pool struct {
	mode            string
	least, most     int
	skip            int
	grams           map[string]int // number of each n-gram, by its words joined with key
	at              []int          // index in the output of each n-gram
	weights         []float64
	size            int // size of the output
	longest, number int
	word            int // bytes of the longest word of the n-grams
}

const maxGram = 1 << 16

func key(words []string) string {
	var b strings.Builder
	for _, w := range words { // lengths make the key unambiguous
		fmt.Fprintf(&b, "%d:%s", len(w), w)
	}
	return b.String()
}

func readPool(c *ir.EvalCtx, n *ir.Node) (*pool, error) {
	p := &pool{mode: n.Attrs.Str("mode", ""), grams: map[string]int{}, weights: n.Attrs.Floats("weights", nil)}
	least, most, skip := n.Attrs.Int("min_gram_length", 0), n.Attrs.Int("max_gram_length", 0),
		n.Attrs.Int("max_skip_count", 0)
	if least < 1 || most < least || most > maxGram || skip < 0 || skip > maxGram {
		return nil, fmt.Errorf(
			"n-grams of %d to %d elements with %d left out: expected 1 ≤ min ≤ max ≤ %d, and at most as many left out",
			least, most, skip, maxGram)
	}
	p.least, p.most, p.skip = int(least), int(most), int(skip)
	words := n.Attrs.Strs("pool_strings", nil)
	if ints := n.Attrs.Ints("pool_int64s", nil); ints != nil {
		if words != nil {
			return nil, fmt.Errorf("pool_strings and pool_int64s are both given")
		}
		for _, k := range ops.All(c, ints) {
			words = append(words, strconv.FormatInt(k, 10))
		}
	}
	p.word = ops.Longest(words)
	starts := n.Attrs.Ints("ngram_counts", nil)
	for i, s := range starts {
		end := int64(len(words))
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		length := int64(i + 1)
		if s < 0 || s > end || end > int64(len(words)) || (end-s)%length != 0 {
			return nil, fmt.Errorf("ngram_counts %v: %d-grams from %d to %d in a pool of %d", starts, length, s, end,
				len(words))
		}
		for ; s < end; s += length {
			c.Step(100 * int(length))
			if k := key(words[s : s+length]); length >= least && length <= most {
				p.grams[k] = p.number
				p.longest = int(length)
			}
			p.number++
		}
	}
	for _, i := range ops.All(c, n.Attrs.Ints("ngram_indexes", nil)) {
		if i < 0 || i >= ops.MaxElems {
			return nil, fmt.Errorf("ngram_indexes: %d", i)
		}
		p.at = append(p.at, int(i))
		p.size = max(p.size, int(i)+1)
	}
	if len(p.at) != p.number || len(p.weights) > 0 && len(p.weights) != p.number {
		return nil, fmt.Errorf("%d n-grams, %d ngram_indexes, %d weights: expected as many", p.number, len(p.at),
			len(p.weights))
	}
	return p, nil
}

// count returns the number of occurrences of each n-gram: at every start, with every distance between its elements.
// Single elements are counted once.
func (p *pool) count(c *ir.EvalCtx, words []string) []float64 {
	counts := ops.Make[float64](c, p.number)
	var gram []string
	for distance := 1; distance <= p.skip+1; distance++ {
		if distance > len(words) && distance > 1 {
			break
		}
		for start := range len(words) {
			c.Step(1)
			gram = gram[:0]
			for i := start; i < len(words) && len(gram) < p.longest; i += distance {
				c.Step(100 + 50*len(gram))
				if len(words[i]) > p.word {
					break
				}
				gram = append(gram, words[i])
				if len(gram) < p.least || len(gram) == 1 && distance > 1 {
					continue
				}
				if g, ok := p.grams[key(gram)]; ok {
					counts[g]++
				}
			}
		}
	}
	return counts
}
