// Package models knows families of models (Family), told apart by model_type in config.json, and builds their graphs.
// Each family has a package below this one, with its configuration, the names and shapes of its tensors, presets and
// initialization; package models/families imports them all. A new family is such a package and a line there.
//
// It imports ir, ops, models/config and internal/spell. A Config that Validate accepts, with weights that Check
// accepts, can be built. Constants of the graph have the names of the checkpoint's tensors. Equal configurations are
// written as equal bytes, and equal seeds give equal weights on every machine.
package models
