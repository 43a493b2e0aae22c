// Package models has tensor kernels for the operators of ai.onnx.ml: trees, linear models, support vectors,
// encoders and scalers of features.
//
// The comment of package tensors has its imports and its invariants.
package models
