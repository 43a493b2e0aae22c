// Package models builds the graph of the deep eSSM (docs/math.md). It holds the configuration, the names and shapes of
// tensors, the presets, and the initialization.
//
// It imports ir, ops, the operator packages and internal/spell; initialization also needs ops/essm/spectral. A Config
// that Validate accepts, with weights that Check accepts, can be built. Constants of the graph have the names of the
// checkpoint's tensors. Equal configurations are written as equal bytes, and equal seeds give equal weights on every
// machine.
package models
