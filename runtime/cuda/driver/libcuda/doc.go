// Package libcuda is NVIDIA's driver as a driver.Driver: libcuda.so.1 on Linux, nvcuda.dll on Windows, called without cgo
// by package purego. It is the only package that imports that. A program that links purego on Linux needs the system's
// dynamic linker, so all of it stands behind the build tag cuda; without the tag Open returns an error that says so.
//
// Functions are looked up by the versions of their names that are written here, each when it is first called: a driver
// that lacks one of them fails in that call, by the function's name. Structures are laid out by hand, and tests hold their
// sizes and offsets.
//
// The package imports runtime/cuda/driver and purego, and on Windows x/sys.
package libcuda
