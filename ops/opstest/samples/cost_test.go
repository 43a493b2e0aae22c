package samples_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	_ "github.com/essmc/essmc/ops/essm/spectral"
	"github.com/essmc/essmc/ops/eval"
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
)

// proportional lists the operators without a Cost whose evaluation takes time in proportion to the elements that they
// read and write, or to these times a logarithm (sorting), or a constant (filters, windows, exponentials). A budget of
// operations counts these elements. Operators with subgraphs count the nodes of these as they evaluate them, and those
// that draw random numbers are not evaluated when a model is compiled.
var proportional = strings.Fields(`
AffineGrid ArgMax ArgMin BatchNormalization BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast
CastLike CenterCropPad Col2Im Compress Concat ConcatFromSequence Constant ConstantOfShape CumProd CumSum DepthToSpace
DequantizeLinear Dropout Expand EyeLike Flatten Gather GatherElements GatherND GlobalAveragePool GlobalLpPool GlobalMaxPool
GridSample GroupNormalization HammingWindow HannWindow Hardmax ImageDecoder InstanceNormalization LayerNormalization
LogSoftmax LpNormalization MaxUnpool MeanVarianceNormalization MelWeightMatrix NegativeLogLikelihoodLoss NonZero OneHot
Optional OptionalGetElement OptionalHasElement Pad QuantizeLinear RMSNormalization Range ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Resize ReverseSequence
RotaryEmbedding ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
SequenceLength Shape Size Slice Softmax SoftmaxCrossEntropyLoss SpaceToDepth Split SplitToSequence Squeeze StringConcat
StringNormalizer StringSplit TensorScatter Tile Transpose Trilu Unsqueeze Upsample
ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.CategoryMapper ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer
ai.onnx.ml.LabelEncoder ai.onnx.ml.Normalizer ai.onnx.ml.OneHotEncoder ai.onnx.ml.Scaler ai.onnx.preview.training.Adagrad
ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum essm.Constrain essm.Discretize essm.Embedding
essm.HeadScale essm.InstanceNorm essm.Kernel essm.Pair essm.Pick essm.PickStep essm.ScalarNorm essm.StateOrZero
essm.StepMask essm.BatchNormTrain essm.SumTo essm.Unpick essm.Dropout
If Loop Scan SequenceMap
Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
ai.onnx.ml.CastMap ai.onnx.ml.DictVectorizer ai.onnx.ml.ZipMap`)

// TestCostIsStated has every operator with an evaluation state its cost, or be listed as proportional to elements.
func TestCostIsStated(t *testing.T) {
	without := map[string]bool{}
	for _, op := range ops.Default.All() {
		if op.Eval != nil && op.Cost == nil && op.Element == nil {
			without[op.FullName()] = true
			if !slices.Contains(proportional, op.FullName()) {
				t.Errorf("%s: expected a Cost, or a place in the list of operators that are proportional to elements",
					op.FullName())
			}
		}
	}
	for _, name := range proportional {
		if !without[name] {
			t.Errorf("%s is listed, and states a Cost or has no evaluation", name)
		}
	}
}

// TestCostCovers evaluates operators whose work is more than proportional to elements. An operation that the operator
// states, or a byte that it reads or writes, must take no more than some nanoseconds: a budget stands for time.
func TestCostCovers(t *testing.T) {
	const most = 40 // ns of processor time
	r := rand.New(rand.NewPCG(3, 1))
	floats := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.Float32, shape...)
		for i := range tensor.Data[float32](x) {
			tensor.Data[float32](x)[i] = float32(r.NormFloat64())
		}
		return x
	}
	ints := func(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }
	scalar := func(v int64) *tensor.Tensor { return tensor.Scalar(v) }
	list := func(n int) []float64 { return make([]float64, n) }
	apart := func(n int) *tensor.Tensor { // boxes that do not overlap
		x := tensor.New(tensor.Float32, 1, n, 4)
		for i := range n {
			copy(tensor.Data[float32](x)[4*i:], []float32{float32(2 * i), 0, float32(2*i + 1), 1})
		}
		return x
	}
	whole := func(n int, size float32) *tensor.Tensor {
		x := tensor.New(tensor.Float32, n, 4)
		for i := range n {
			copy(tensor.Data[float32](x)[4*i:], []float32{0, 0, size, size})
		}
		return x
	}
	wholeOf := func(n int, size float32) *tensor.Tensor {
		x := tensor.New(tensor.Float32, n, 5)
		for i := range n {
			copy(tensor.Data[float32](x)[5*i:], []float32{0, 0, 0, size, size})
		}
		return x
	}
	chain := func(n int) []ir.Attr { // a tree whose branches follow each other
		ids, yes, no, trees, features, values := make([]int64, 2*n+1), make([]int64, 2*n+1), make([]int64, 2*n+1),
			make([]int64, 2*n+1), make([]int64, 2*n+1), make([]float64, 2*n+1)
		modes := make([]string, 2*n+1)
		for i := range ids {
			ids[i], modes[i] = int64(i), "LEAF"
			if i < n {
				modes[i], yes[i], no[i], values[i] = "BRANCH_LEQ", int64(i+1), int64(n+1+i), 1e9
			}
		}
		return []ir.Attr{ir.A("nodes_treeids", trees), ir.A("nodes_nodeids", ids), ir.A("nodes_featureids", features),
			ir.A("nodes_truenodeids", yes), ir.A("nodes_falsenodeids", no), ir.A("nodes_modes", modes),
			ir.A("nodes_values", values), ir.A("target_treeids", []int64{0}), ir.A("target_nodeids", []int64{int64(n)}),
			ir.A("target_ids", []int64{0}), ir.A("target_weights", []float64{1})}
	}
	for _, c := range []struct {
		domain, op string
		in         []*tensor.Tensor
		attrs      []ir.Attr
	}{
		{"", "NonMaxSuppression", []*tensor.Tensor{apart(3000), floats(1, 2, 3000), scalar(3000)}, nil},
		{"", "MaxRoiPool", []*tensor.Tensor{floats(1, 4, 90, 90), wholeOf(80, 90)},
			[]ir.Attr{ir.A("pooled_shape", []int64{3, 2})}},
		{"", "RoiAlign", []*tensor.Tensor{floats(1, 4, 60, 60), whole(60, 60), tensor.New(tensor.Int64, 60)},
			[]ir.Attr{ir.A("output_height", 2), ir.A("output_width", 3)}},
		{"", "RoiAlign", []*tensor.Tensor{floats(1, 1, 4, 4), whole(20, 4), tensor.New(tensor.Int64, 20)},
			[]ir.Attr{ir.A("output_height", 2), ir.A("output_width", 3), ir.A("sampling_ratio", 60)}},
		{"", "RoiAlign", []*tensor.Tensor{floats(1, 1, 4, 4), whole(3, 600), tensor.New(tensor.Int64, 3)},
			[]ir.Attr{ir.A("output_height", 1), ir.A("output_width", 1)}},
		{"", "TfIdfVectorizer", []*tensor.Tensor{tensor.New(tensor.Int64, 4000)}, []ir.Attr{ir.A("mode", "TF"),
			ir.A("min_gram_length", 1), ir.A("max_gram_length", 3), ir.A("max_skip_count", 20),
			ir.A("ngram_counts", []int64{0, 1, 3}), ir.A("ngram_indexes", []int64{0, 1, 2}),
			ir.A("pool_int64s", []int64{0, 0, 0, 0, 0, 0})}},
		{"", "RegexFullMatch", []*tensor.Tensor{tensor.FromStrings([]string{strings.Repeat("a", 20000)}, 1)},
			[]ir.Attr{ir.A("pattern", strings.Repeat("(a|aa|b)*", 20)+"c")}},
		{"ai.onnx.ml", "TreeEnsembleRegressor", []*tensor.Tensor{floats(3000, 1)}, chain(400)},
		{"ai.onnx.ml", "SVMRegressor", []*tensor.Tensor{floats(300, 50)}, []ir.Attr{ir.A("kernel_type", "RBF"),
			ir.A("kernel_params", []float64{1, 0, 0}), ir.A("support_vectors", list(100*50)),
			ir.A("coefficients", list(100)), ir.A("n_supports", 100), ir.A("rho", []float64{0})}},
		{"ai.onnx.ml", "LinearRegressor", []*tensor.Tensor{floats(300, 100)}, []ir.Attr{
			ir.A("coefficients", list(100*100)), ir.A("intercepts", list(100)), ir.A("targets", 100)}},
		{"essm", "DiscretizeDense", []*tensor.Tensor{floats(1, 1, 48, 48), floats(1, 1, 1)}, nil},
		{"essm", "Diagonalize", []*tensor.Tensor{floats(1, 1, 64, 64), floats(1, 1, 64, 1), floats(1, 1, 1, 64)}, nil},
		{"", "MatMul", []*tensor.Tensor{floats(120, 120), floats(120, 120)}, nil},
		{"", "Conv", []*tensor.Tensor{floats(1, 2, 40, 40), floats(3, 2, 9, 9)}, nil},
		{"", "Einsum", []*tensor.Tensor{floats(100, 100), floats(100, 100)}, []ir.Attr{ir.A("equation", "ij,jk->")}},
		{"", "Det", []*tensor.Tensor{floats(150, 150)}, nil},
		{"", "DFT", []*tensor.Tensor{floats(1, 20011, 1), nil, scalar(1)}, nil},
		{"", "Unique", []*tensor.Tensor{floats(200000)}, nil},
		{"", "TopK", []*tensor.Tensor{floats(200000), ints(1000)}, nil},
		{"", "Resize", []*tensor.Tensor{floats(1, 1, 100, 100), nil, nil, ints(1, 1, 300, 300)},
			[]ir.Attr{ir.A("mode", "cubic")}},
	} {
		b := ir.NewBuilder("g", ops.Default, map[string]int{"": 24, "essm": 1, "ai.onnx.ml": 3})
		in, data := make([]*ir.Value, len(c.in)), make([]tensor.Datum, len(c.in))
		for i, x := range c.in {
			if x != nil {
				in[i], data[i] = b.Const("x", x), x
			}
		}
		outs := 1
		if c.op == "TopK" {
			outs = 2
		} else if c.op == "Diagonalize" {
			outs = 6
			c.attrs = append(c.attrs, ir.A("max_condition", 1e9))
		}
		v := b.Ops(c.domain, c.op, outs, in, c.attrs...)
		if err := b.Err(); err != nil {
			t.Fatalf("%s: %v", c.op, err)
		}
		n := v[0].Def
		per := 1e9
		var budget *ir.Budget
		for range 5 { // the machine may be busy, and garbage be collected
			budget = ir.NewBudget(-1, -1)
			work := worktime.Now()
			if _, err := (eval.Options{Bounded: true}).Node(t.Context(), n, data, budget); err != nil {
				t.Fatalf("%s: %v", c.op, err)
			}
			per = min(per, float64((worktime.Now()-work).Nanoseconds())/float64(budget.Spent()))
		}
		t.Logf("%s: %d operations of %.2g ns", c.op, budget.Spent(), per)
		if per > most {
			t.Errorf("%s: an operation of its Cost takes %.3g ns, expected at most %d", c.op, per, most)
		}
	}
}
