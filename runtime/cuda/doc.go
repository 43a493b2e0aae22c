// Package cuda is the backend for NVIDIA's cards. It needs only their driver: the backend generates kernels as text
// (package kernel), and the driver compiles them.
//
// # From steps to an executable
//
// Package runtime/device divides a program between the card and the host, places its values, and runs it on any device.
// This package is a device for it: an operator's record turns a step into calls of kernels (internal/record; packages
// beside it register records, one package per kind of operator). A segment of work that runs a second time is recorded
// as a CUDA graph, and launched as a whole from then on (stream.go).
//
// # The device
//
// One locked thread issues all work of a device, in its context; other locked threads wait for it, so that sessions
// run side by side (card.go, worker.go). Memory comes from a pool, in the order of streams. Kernels are compiled once
// per text and shared by all programs of the backend (modules.go). The context, the pool and the threads end with
// the last program. One launch gathers the states of many streams, and one scatters them, by a list of addresses
// (states.go).
//
// An error that makes the context unusable closes the device for all programs; each later call reports that.
//
// # Numbers
//
// Each sum has a fixed order, so answers are bitwise the same from run to run, and on every card whose tensor cores
// round partial sums alike. Products of float32 have float32 accuracy unless Options.Precision asks for less. States
// and powers are computed in float64.
//
// The package imports ir, ops, runtime, runtime/lowering, runtime/device and the packages below it, except the real
// driver and the emulator: callers and tests pass one of these to New.
package cuda
