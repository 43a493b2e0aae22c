// Package models holds the networks that essmc makes itself: the deep eSSM of docs/math.md, its configuration file, the
// names and shapes of its tensors, the presets, and their initialization.
//
// It imports ir, ops, the operator packages and internal/spell; initialization also takes eigenvalues from
// ops/essm/spectral. What always holds: a Config that Validate accepts can be built, given weights that Check accepts;
// the graph's constants carry the names of the checkpoint's tensors; equal configurations are written as equal bytes,
// and equal seeds give equal weights on every machine.
package models
