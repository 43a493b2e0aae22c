// Package essm is the family of the paper: the deep eSSM (docs/math.md). It holds the configuration, the names and
// shapes of tensors, the presets, the initialization and the graph.
//
// It imports ir, models, models/config, the operator packages and internal/spell; initialization also needs
// ops/essm/spectral.
package essm
