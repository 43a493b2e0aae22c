// Package libcuda implements driver.Driver with NVIDIA's driver (libcuda.so.1 on Linux, nvcuda.dll on Windows),
// called without cgo through package purego. No other package imports purego. A program that links purego on Linux
// needs the system's dynamic linker, so everything here is behind the build tag cuda; without the tag, Open returns
// an error that explains this.
//
// Functions are looked up by versioned names, each at its first call. If a driver lacks one, that call fails with an
// error that names the function. Structures are laid out by hand; tests check their sizes and offsets.
//
// The package imports runtime/cuda/driver and purego, and on Windows x/sys.
package libcuda
