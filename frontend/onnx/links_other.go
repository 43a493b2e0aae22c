//go:build !unix

package onnx

import "io/fs"

// links returns the number of names of a file, if the system has one.
func links(fs.FileInfo) uint64 { return 1 }

const lazyFiles = false
