"""Makes ort.json: answers of ONNX Runtime for the operators of ai.onnx.ml. Run it in this folder."""
import sys

sys.path.insert(0, "../../opstest")
from oracle import np, run, save  # noqa: E402

rng = np.random.default_rng(1)
POST = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def f32(*shape):
    return rng.normal(size=shape).astype(np.float32)


def ml(name, op, inputs, outputs=1, version=1, **attrs):
    return run(name, op, inputs, outputs, "ai.onnx.ml", version, **attrs)


def floats(n, lo=-1.0, hi=1.0):
    return [float(x) for x in rng.uniform(lo, hi, n).astype(np.float32)]


ml("extract", "ArrayFeatureExtractor", [f32(3, 5), np.array([[4, 0, 2]], np.int64)])
ml("extract_vector", "ArrayFeatureExtractor", [np.array(["a", "b", "c"]), np.array([2, 0], np.int64)])
ml("binarizer", "Binarizer", [np.array([[0.5, 0.6, -1]], np.float32)], threshold=0.5)
ml("category_text", "CategoryMapper", [np.array(["b", "x", "a"])], cats_int64s=[3, 4], cats_strings=["a", "b"], default_int64=-7)
ml("category_int", "CategoryMapper", [np.array([4, 9, 3], np.int64)], cats_int64s=[3, 4], cats_strings=["a", "b"], default_string="?")
ml("features", "FeatureVectorizer", [np.array([[1, 2], [3, 4]], np.float32), np.array([[5], [6]], np.float32)], inputdimensions=[2, 1])
ml("features_other", "FeatureVectorizer", [np.array([[1, 2], [3, 4]], np.int64), np.array([[5, 7], [6, 8]], np.int64)], inputdimensions=[1, 3])
ml("imputer", "Imputer", [np.array([[1, np.nan], [np.nan, 4]], np.float32)], imputed_value_floats=[7.0, 8.0], replaced_value_float=float("nan"))
ml("imputer_int", "Imputer", [np.array([[1, 0], [0, 4]], np.int64)], imputed_value_int64s=[9], replaced_value_int64=0)
ml("labels_1", "LabelEncoder", [np.array(["b", "x", "a"])], classes_strings=["a", "b"], default_int64=-7)
ml("labels_1_int", "LabelEncoder", [np.array([1, 5, -1], np.int64)], classes_strings=["a", "b"])
ml("labels_2", "LabelEncoder", [np.array([1, 2, 3], np.float32)], version=2, keys_floats=[1.0, 2.0], values_strings=["one", "two"])
ml("labels_2_float", "LabelEncoder", [np.array([1, 9], np.int64)], version=2, keys_int64s=[1, 2], values_floats=[0.25, 0.5])
ml("labels_4", "LabelEncoder", [np.array([1.5, 2.5, 9], np.float64)], version=4, keys_tensor=np.array([1.5, 2.5]), values_tensor=np.array([4, 5], np.int64), default_tensor=np.array([-3], np.int64))
for post in POST:
    x = np.array([[0.1, 0.2], [-0.3, 0.5]], np.float32)
    ml("regressor_1_" + post, "LinearRegressor", [x], coefficients=[1.0, 0.5], intercepts=[0.1], post_transform=post)
    ml("regressor_2_" + post, "LinearRegressor", [x], coefficients=[1.0, 0.5, 0.2, -0.3], intercepts=[0.1, 0.3], targets=2, post_transform=post)
    if post != "PROBIT":  # ONNX Runtime leaves the second score as it was
        ml("classifier_1_" + post, "LinearClassifier", [x], 2, coefficients=[1.0, 0.5], intercepts=[0.1], classlabels_ints=[5, 7], post_transform=post)
    ml("classifier_2_" + post, "LinearClassifier", [x], 2, coefficients=[1.0, 0.5, 0.2, -0.3], intercepts=[0.1, 0.3], classlabels_strings=["a", "b"], post_transform=post)
    ml("classifier_3_" + post, "LinearClassifier", [x.astype(np.float64)], 2, coefficients=[1.0, 0.5, 0.2, -0.3, 0.4, 0.4], intercepts=[0.1, 0.3, 0.2], classlabels_ints=[3, 2, 1], post_transform=post)
for norm in ["MAX", "L1", "L2"]:
    ml("normalizer_" + norm, "Normalizer", [np.array([[1, -2, 3], [0, 0, 0], [-1, -2, -4]], np.float32)], norm=norm)
ml("onehot_text", "OneHotEncoder", [np.array([["a", "c"], ["x", "b"]])], cats_strings=["a", "b", "c"])
ml("onehot_float", "OneHotEncoder", [np.array([1.0, 2.7, 3.0], np.float32)], cats_int64s=[1, 2])
ml("scaler", "Scaler", [f32(2, 3)], offset=[0.5, -1.0, 2.0], scale=[2.0, 3.0, 0.5])
ml("scaler_one", "Scaler", [np.array([[1, 2], [3, 4]], np.int64)], offset=[0.5], scale=[2.0])

for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
    ml("svr_" + kernel, "SVMRegressor", [f32(3, 4)], kernel_type=kernel, kernel_params=[0.5, 0.1, 3.0], n_supports=3, support_vectors=floats(12), coefficients=floats(3), rho=[0.2])
    for k in (2, 3):
        extra = dict(kernel_type=kernel, kernel_params=[0.5, 0.1, 2.0], vectors_per_class=[2, 1, 2][:k], rho=floats(k * (k - 1) // 2))
        n = sum(extra["vectors_per_class"])
        extra.update(support_vectors=floats(4 * n), coefficients=floats(n * (k - 1)), classlabels_ints=[4, 5, 6][:k])
        ml(f"svc_{kernel}_{k}", "SVMClassifier", [f32(4, 4)], 2, **extra)
        ml(f"svc_{kernel}_{k}_logistic", "SVMClassifier", [f32(4, 4)], 2, post_transform="LOGISTIC", **extra)
        ml(f"svc_{kernel}_{k}_proba", "SVMClassifier", [f32(4, 4)], 2, prob_a=floats(k * (k - 1) // 2), prob_b=floats(k * (k - 1) // 2), **extra)
ml("svr_one_class", "SVMRegressor", [f32(5, 4)], kernel_type="RBF", kernel_params=[0.5, 0.0, 0.0], n_supports=3, support_vectors=floats(12), coefficients=floats(3), rho=[0.0], one_class=1)
ml("svr_linear", "SVMRegressor", [f32(3, 4)], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=floats(4), rho=[0.2])
ml("svc_linear", "SVMClassifier", [f32(5, 4)], 2, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=floats(12), rho=[0.2], classlabels_strings=["a", "b", "c"])
ml("svc_linear_2", "SVMClassifier", [f32(5, 4)], 2, kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], coefficients=floats(8), rho=[0.2], classlabels_strings=["a", "b"])

TREES = dict(nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2], nodes_featureids=[0, 0, 1, 0, 0, 1, 0, 0],
             nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"], nodes_values=[0.0, 0, 0.5, 0, 0, -0.25, 0, 0],
             nodes_truenodeids=[1, 0, 3, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0, 2, 0, 0])
TREES["nodes_values"] = [float(x) for x in TREES["nodes_values"]]
LEAVES = dict(treeids=[0, 0, 0, 1, 1], nodeids=[1, 3, 4, 1, 2])
X = f32(6, 2)
X[0, 0] = X[1, 1] = np.nan


def votes(prefix, ids, weights):
    v = {f"{prefix}_{k}": x for k, x in LEAVES.items()}
    v[prefix + "_ids"], v[prefix + "_weights"] = ids, weights
    return v


for post in POST:
    for agg in ["SUM", "AVERAGE", "MIN", "MAX"]:
        for k in (1, 2):
            ml(f"tree_{post}_{agg}_{k}", "TreeEnsembleRegressor", [X], version=3, n_targets=k, aggregate_function=agg, post_transform=post,
               **(dict(base_values=[0.05]) if k == 1 else {}),  # of several, ONNX Runtime adds them only where there are votes
               **TREES, **votes("target", [i % k for i in range(5)], floats(5, 0, 0.3)))
    if post != "PROBIT":  # ONNX Runtime leaves the second score as it was
        for sign in (0.0, -1.0):
            ml(f"treeclass_0_{post}{sign}", "TreeEnsembleClassifier", [X], 2, version=3, post_transform=post, classlabels_int64s=[5, 7], **TREES, **votes("class", [0] * 5, floats(5, sign, 0.7)))
            ml(f"treeclass_0_base_{post}{sign}", "TreeEnsembleClassifier", [X], 2, version=3, post_transform=post, base_values=[0.1], classlabels_int64s=[5, 7], **TREES, **votes("class", [0] * 5, floats(5, sign, 0.7)))
            ml(f"treeclass_1_{post}{sign}", "TreeEnsembleClassifier", [X], 2, version=1, post_transform=post, classlabels_strings=["n", "y"], **TREES, **votes("class", [1] * 5, floats(5, sign, 0.7)))
    ml(f"treeclass_single_{post}", "TreeEnsembleClassifier", [X], 2, version=3, post_transform=post, classlabels_int64s=[1], **TREES, **votes("class", [0] * 5, floats(5, 0, 0.4)))
    ml(f"treeclass_3_{post}", "TreeEnsembleClassifier", [X], 2, version=3, post_transform=post, classlabels_strings=["a", "b", "c"], **TREES, **votes("class", [0, 1, 2, 1, 2], floats(5, 0, 0.4)))
    ml(f"treeclass_3_base_{post}", "TreeEnsembleClassifier", [X], 2, version=3, post_transform=post, base_values=[0.1, 0.2, 0.05], classlabels_strings=["a", "b", "c"], **TREES, **votes("class", [0, 1, 2, 1, 2], floats(5, 0, 0.3)))
for mode in ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]:
    for missing in (0, 1):
        t = dict(TREES, nodes_modes=[mode, "LEAF", "LEAF"])
        t = {k: v[:3] for k, v in t.items()}
        ml(f"tree_{mode}_{missing}", "TreeEnsembleRegressor", [np.array([[0.0], [1.0], [-1.0], [np.nan]], np.float32)], version=3, n_targets=1, nodes_missing_value_tracks_true=[missing, 0, 0],
           target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[2.0, 6.0], **t)
FIVE = dict(tree_roots=[0, 2], nodes_featureids=[0, 1, 0], nodes_modes=np.array([0, 6, 5], np.uint8), nodes_splits=np.array([0.5, 0, 1], np.float32), nodes_truenodeids=[0, 1, 3],
            nodes_trueleafs=[1, 1, 1], nodes_falsenodeids=[1, 2, 4], nodes_falseleafs=[0, 1, 1], leaf_targetids=[0, 1, 0, 1, 1], leaf_weights=np.array([1, 2, 3, 4, 5], np.float32),
            membership_values=np.array([2, 3, np.nan], np.float32), n_targets=2)
for agg in range(4):
    ml(f"ensemble_{agg}", "TreeEnsemble", [np.array([[0.5, 0], [1, 2], [1, 4], [np.nan, 3]], np.float32)], version=5, aggregate_function=agg, **FIVE)
save("ort.json")
