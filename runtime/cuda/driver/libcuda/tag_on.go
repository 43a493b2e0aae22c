//go:build cuda && !((linux && (amd64 || arm64)) || (windows && amd64))

package libcuda

// tagged reports whether the program is built with the tag cuda.
const tagged = true
