package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// smallTrees returns the attributes of two trees over two features, with leaf votes under a prefix.
func smallTrees(prefix string, ids ...int) []ir.Attr {
	return []ir.Attr{
		ir.A("nodes_treeids", []int{0, 0, 0, 1, 1, 1}), ir.A("nodes_nodeids", []int{0, 1, 2, 0, 1, 2}),
		ir.A("nodes_featureids", []int{0, 0, 0, 1, 0, 0}),
		ir.A("nodes_modes", []string{"BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"}),
		ir.A("nodes_values", []float64{0, 0, 0, 0.5, 0, 0}),
		ir.A("nodes_truenodeids", []int{1, 0, 0, 1, 0, 0}), ir.A("nodes_falsenodeids", []int{2, 0, 0, 2, 0, 0}),
		ir.A(prefix+"_treeids", []int{0, 0, 1, 1}), ir.A(prefix+"_nodeids", []int{1, 2, 1, 2}),
		ir.A(prefix+"_ids", ids), ir.A(prefix+"_weights", []float64{0.1, 0.2, 0.3, 0.6}),
	}
}

func ensembleAttrs(extra ...ir.Attr) []ir.Attr {
	return append([]ir.Attr{
		ir.A("tree_roots", []int{0}), ir.A("nodes_featureids", []int{1}),
		ir.A("nodes_modes", tensor.FromSlice([]uint8{0}, 1)), ir.A("nodes_splits", tensor.FromSlice([]float32{0}, 1)),
		ir.A("nodes_truenodeids", []int{0}), ir.A("nodes_trueleafs", []int{1}), ir.A("nodes_falsenodeids", []int{1}),
		ir.A("nodes_falseleafs", []int{1}),
		ir.A("leaf_targetids", []int{0, 1}), ir.A("leaf_weights", tensor.FromSlice([]float32{1, 2}, 2)),
	}, extra...)
}

// mlSamples returns samples for the operators of ai.onnx.ml.
func mlSamples(o *ir.Op) []opstest.Sample {
	x, row := normal(5, 2), normal(2)
	two := ir.A("classlabels_ints", []int{4, 5})
	switch o.Name {
	case "ZipMap":
		return []opstest.Sample{of(normal(2, 3)).With(ir.A("classlabels_int64s", []int64{0, 1, 5})),
			of(normal(2)).With(ir.A("classlabels_strings", []string{"no", "yes"}))}
	case "ArrayFeatureExtractor":
		return list{of(normal(5, 3), opstest.Vec(2, 0)), of(opstest.Strs("a", "b"), opstest.Vec(1)),
			of(normal(2, 3, 4), opstest.Vec(3))}
	case "Binarizer":
		return list{of(x).With(ir.A("threshold", 0.5)), of(whole(tensor.Int32, -2, 3, 4))}
	case "CategoryMapper":
		maps := []ir.Attr{ir.A("cats_int64s", []int{1, 2}), ir.A("cats_strings", []string{"a", "b"})}
		return list{of(opstest.Strs("a", "c")).With(maps...), of(opstest.Vec(1, 7)).With(maps...)}
	case "FeatureVectorizer":
		return list{of(x, normal(5, 3)), of(row), of(x,
			whole(tensor.Float32, 0, 3, 5, 4)).With(ir.A("inputdimensions", []int{1, 5}))}
	case "Imputer":
		return list{of(x).With(ir.A("imputed_value_floats", []float64{1})),
			of(whole(tensor.Int64, 0, 2, 5, 2)).With(ir.A("imputed_value_int64s", []int{7, 8}))}
	case "LabelEncoder":
		if o.Since == 1 {
			return list{of(opstest.Strs("a", "c")).With(ir.A("classes_strings", []string{"a", "b"})),
				of(opstest.Vec(1, 7)).With(ir.A("classes_strings", []string{"a", "b"}))}
		}
		out := list{of(opstest.Strs("a", "c")).With(ir.A("keys_strings", []string{"a"}),
			ir.A("values_floats", []float64{0.5})),
			of(whole(tensor.Float32, 0, 3, 2, 3)).With(ir.A("keys_floats", []float64{0, 1}),
				ir.A("values_int64s", []int{7, 8})),
			of(opstest.Vec(1, 2)).With(ir.A("keys_int64s", []int{1}), ir.A("values_strings", []string{"one"}))}
		if o.Since >= 4 {
			out = append(out, of(whole(tensor.Int16, 0, 3, 4)).With(ir.A("keys_tensor", whole(tensor.Int16, 0, 3, 2)),
				ir.A("values_tensor", opstest.Vec(4, 5)), ir.A("default_tensor", opstest.Vec(9))))
		}
		return out
	case "LinearClassifier":
		return list{of(x).Gives(2).With(ir.A("coefficients", []float64{1, 2}), ir.A("intercepts", []float64{0.5}), two),
			of(row).Gives(2).With(ir.A("coefficients", []float64{1, 2, 3, 4, 5, 6}), ir.A("post_transform", "SOFTMAX"),
				ir.A("classlabels_strings", []string{"a", "b", "c"}))}
	case "LinearRegressor":
		return list{of(x).With(ir.A("coefficients", []float64{1, 2})),
			of(normal(0, 2)).With(ir.A("coefficients", []float64{1, 2, 3, 4}), ir.A("targets", 2))}
	case "Normalizer":
		return list{of(x), of(row).With(ir.A("norm", "L1")), of(x).With(ir.A("norm", "L2"))}
	case "OneHotEncoder":
		return list{of(whole(tensor.Int64, 0, 3, 2, 5)).With(ir.A("cats_int64s", []int{0, 2})),
			of(opstest.Strs("a", "b")).With(ir.A("cats_strings", []string{"b", "a"}), ir.A("zeros", 0))}
	case "Scaler":
		return list{of(x).With(ir.A("offset", []float64{1}), ir.A("scale", []float64{2})),
			of(x).With(ir.A("offset", []float64{1, 2}), ir.A("scale", []float64{2, 3}))}
	case "SVMRegressor":
		return list{of(x).With(ir.A("coefficients", []float64{1, 2}), ir.A("rho", []float64{0.1})),
			of(row).With(ir.A("coefficients", []float64{1}), ir.A("n_supports", 1),
				ir.A("support_vectors", []float64{1, 2}), ir.A("kernel_type", "RBF"),
				ir.A("kernel_params", []float64{0.5, 0, 0}), ir.A("rho", []float64{0.1}))}
	case "SVMClassifier":
		return list{of(x).Gives(2).With(ir.A("coefficients", []float64{1, 2, 3, 4}), ir.A("rho", []float64{0.1}), two),
			of(x).Gives(2).With(ir.A("coefficients", []float64{1, -2}), ir.A("vectors_per_class", []int{1, 1}),
				ir.A("support_vectors", []float64{1, 2, 3, 4}), ir.A("rho", []float64{0.1}), two,
				ir.A("prob_a", []float64{-1}), ir.A("prob_b", []float64{0.1}))}
	case "TreeEnsembleRegressor":
		return list{of(x).With(smallTrees("target", 0, 0, 0, 0)...),
			of(row).With(append(smallTrees("target", 0, 1, 0, 1), ir.A("n_targets", 2),
				ir.A("aggregate_function", "MIN"))...)}
	case "TreeEnsembleClassifier":
		return list{of(x).Gives(2).With(append(smallTrees("class", 0, 0, 0, 0),
			ir.A("classlabels_int64s", []int{4, 5}))...),
			of(row).Gives(2).With(append(smallTrees("class", 0, 1, 2, 1),
				ir.A("classlabels_strings", []string{"a", "b", "c"}))...)}
	case "TreeEnsemble":
		return list{of(x).With(ensembleAttrs()...), of(x).With(ensembleAttrs(ir.A("n_targets", 3),
			ir.A("aggregate_function", 0), ir.A("post_transform", 1))...)}
	}
	return nil
}
