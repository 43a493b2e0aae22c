// Package config reads and writes the configurations of models: JSON objects, of which a family of models lists the
// keys in a table.
//
// It imports the standard library and internal/spell only. The files are not trusted: their size, depth and number of
// values are bounded, and keys that occur twice are refused. As model hubs write them, numbers may be Infinity,
// -Infinity and NaN. Equal configurations are written as equal bytes, which read back as the same configuration.
package config
