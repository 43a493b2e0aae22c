// Package models has tensor kernels for the operators of ai.onnx.ml: trees, linear models, support vectors,
// encoders and scalers of features.
//
// Package tensors states what it imports and what holds in it.
package models
