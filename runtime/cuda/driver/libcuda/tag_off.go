//go:build !cuda

package libcuda

// tagged reports whether the program is built with the tag cuda.
const tagged = false
