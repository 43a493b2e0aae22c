// Package cuda is the backend for NVIDIA's cards. It needs their driver and nothing else: kernels are text that the backend
// writes (package kernel) and the driver compiles.
//
// # From steps to an executable
//
// Package runtime/lowering turns a graph into a flat list of steps. A record tells how a step becomes calls of kernels
// (internal/record; packages beside it register them, a package for each kind of operator). Operators without a record are
// replaced by their bodies. What is left is refused by name, unless the caller has asked for the processor to compute it
// (Options.Fallback); the text of plans, Explain and profiles show each copy that this costs. Values that follow from shapes
// alone are known before the run, and computed on the host.
//
// When shapes are bound, fusions and records build the units of execution (plan.go), values and scratch memory get places in
// one arena (place.go), and consecutive units become segments: copies and launches that one stream does in order. A segment
// that runs a second time is recorded as a CUDA graph, and launched as a whole from then on. If, Loop and Scan run on the
// host, which reads their conditions; their programs are executables within the executable.
//
// # The device
//
// One locked thread issues all work of a device, in its context; other locked threads wait for it, so that sessions run side
// by side (device.go, worker.go). Memory comes from a pool in the order of streams. It is charged to the account of the
// executable before it is allocated. Kernels are compiled once per text and shared by all programs of the backend
// (modules.go), and constants are uploaded once per model (constants.go). The context, the pool and the threads go with the
// last program.
//
// States of streams stay in the memory of the device from step to step (kept.go), unless the host computes with them. Steps of
// many streams are one batch: their states are gathered and scattered by copies on the device.
//
// An error that leaves the context unusable closes the device for all programs: each later call says so.
//
// # Numbers
//
// Answers are bitwise the same from run to run and on every card: each sum has a fixed order. Products of float32 have its
// accuracy; Options.Precision asks for less. States and powers are computed in float64.
//
// The package imports ir, ops, runtime, runtime/lowering and the packages below it, but for the real driver and for the
// emulator, which its callers and its tests hand to New.
package cuda
