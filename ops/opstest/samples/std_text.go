package samples

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

func words(v ...string) tensor.Datum { return tensor.FromStrings(v, len(v)) }

func textSamples(o *ir.Op) []opstest.Sample {
	gram := func(s opstest.Sample, mode string, more ...ir.Attr) opstest.Sample {
		return s.With(append(more, ir.A("mode", mode), ir.A("min_gram_length", 1), ir.A("max_gram_length", 2),
			ir.A("max_skip_count", 1),
			ir.A("ngram_counts", []int64{0, 3}), ir.A("ngram_indexes", []int64{0, 1, 2, 4, 3}))...)
	}
	switch o.Name {
	case "StringConcat":
		return []opstest.Sample{of(words("a", "b"), words("c", "")),
			of(tensor.FromStrings([]string{"x"}), words("c", "d", "e"))}
	case "StringSplit":
		return []opstest.Sample{of(words("a b", " c  d e ", "")).Gives(2),
			of(words("a,b", ",c,,")).With(ir.A("delimiter", ",")).Gives(2),
			of(words("a b c", "d")).With(ir.A("maxsplit", 1)).Gives(2), of(words()).Gives(2)}
	case "StringNormalizer":
		return []opstest.Sample{of(words("a", "B", "c")).With(ir.A("stopwords", []string{"b"}),
			ir.A("case_change_action", "UPPER")), of(tensor.FromStrings([]string{"a", "B"}, 1,
			2)).With(ir.A("stopwords", []string{"a", "B"}), ir.A("is_case_sensitive", 1)), of(words("Ä"))}
	case "RegexFullMatch":
		return []opstest.Sample{of(words("ab", "abc", "")).With(ir.A("pattern", "a|ab+")), of(words())}
	case "TfIdfVectorizer":
		pool := ir.A("pool_int64s", []int64{1, 2, 3, 1, 2, 2, 3})
		return []opstest.Sample{gram(of(vec(1, 2, 1, 3)), "TF", pool),
			gram(of(whole(tensor.Int32, 1, 4, 2, 6)), "TFIDF", pool, ir.A("weights", []float64{1, 2, 0.5, 3, 4})),
			gram(of(words("b", "a", "b", "b")), "IDF", ir.A("pool_strings",
				[]string{"a", "b", "c", "a", "b", "b", "b"}))}
	case "NonMaxSuppression":
		return []opstest.Sample{of(inside(0, 1, 2, 7, 4), inside(0, 1, 2, 3, 7), num(4), tensor.Scalar(float32(0.1)),
			tensor.Scalar(float32(0.3))), of(inside(0, 1, 1, 5, 4), inside(0, 1, 1, 1, 5),
			num(9)).With(ir.A("center_point_box", 1)), of(inside(0, 1, 1, 5, 4), inside(0, 1, 1, 1, 5))}
	case "ImageDecoder":
		file := []byte("P3 1 2 255 1 2 3 4 5 6")
		return []opstest.Sample{of(tensor.FromSlice(file, len(file))),
			of(tensor.FromSlice(file, len(file))).With(ir.A("pixel_format", "Grayscale")),
			of(tensor.FromSlice([]byte("no"), 2))}
	}
	return nil
}

func normSamples(o *ir.Op) []opstest.Sample {
	stats := []tensor.Datum{normal(2, 3, 5), normal(3), normal(3), normal(3), inside(0.1, 2, 3)}
	switch fmt.Sprintf("%s-%d", o.Name, o.Since) {
	case "BatchNormalization-9":
		return []opstest.Sample{of(stats...), of(stats...).Gives(5)}
	case "BatchNormalization-1", "BatchNormalization-6", "BatchNormalization-7":
		return []opstest.Sample{of(stats...), of(stats...).Gives(3),
			of(normal(2, 3, 5), normal(3, 5), normal(3, 5), normal(3, 5),
				inside(0.1, 2, 3, 5)).With(ir.A("spatial", 0))}
	case "Scan-8":
		body := graphOf(func(b *ir.Builder) {
			s, x := b.Input("s", ir.Tensor(tensor.Float32, 3)), b.Input("x", ir.Tensor(tensor.Float32, 3))
			t := op(b, "Add", s, x)
			b.Output("t", t)
			b.Output("y", op(b, "Neg", t))
		})
		return []opstest.Sample{of(nil, normal(2, 3), normal(2, 5, 3)).With(ir.A("body", body),
			ir.A("num_scan_inputs", 1)).Gives(2),
			of(vec(5, 2), normal(2, 3), normal(2, 5, 3)).With(ir.A("body", body), ir.A("num_scan_inputs", 1),
				ir.A("directions", []int64{1})).Gives(2)}
	}
	return nil
}
