// Package cuda is the backend for NVIDIA's cards. It needs their driver and nothing else: kernels are text that the backend
// writes (package kernel) and the driver compiles.
//
// # From steps to an executable
//
// Package runtime/lowering turns a graph into a flat list of steps. A record tells how a step becomes calls of kernels
// (internal/record; packages beside it register them, a package for each kind of operator). Operators without a record are
// replaced by their bodies. Other operators are refused by name, unless the caller has asked for the processor to compute it
// (Options.Fallback); the text of plans, Explain and profiles show each copy that this costs. Values that follow from shapes
// alone are known before the run, and computed on the host.
//
// When shapes are bound, fusions and records build the units of execution (plan.go), values and scratch memory get places in
// one arena (place.go), and consecutive units become segments: copies and launches that one stream does in order. A segment
// that runs a second time is recorded as a CUDA graph, and launched as a whole from then on. If, Loop and Scan run on the
// host, which reads their conditions; their programs are executables within the executable. Values that a loop carries or
// captures stay on the device from one iteration to the next, where the device alone makes and reads them (repeat.go).
//
// Where steps ask for the values of small inputs, such as the shape of a Reshape, these are bound like shapes when a run begins,
// and the executables for the last of them are kept (values.go).
//
// # The device
//
// One locked thread issues all work of a device, in its context; other locked threads wait for it, so that sessions run side
// by side (device.go, worker.go). Memory comes from a pool in the order of streams. It is charged to the account of the
// executable before it is allocated. Kernels are compiled once per text and shared by all programs of the backend
// (modules.go), and constants are uploaded once per model (constants.go); of tables that belong to shapes, unused ones are
// dropped. The context, the pool and the threads go with the last program.
//
// States of streams stay in the memory of the device from step to step (kept.go), unless the host computes with them. Steps of
// many streams are one batch: one launch brings their states in, and one takes them out, by a list of their addresses.
//
// An error that leaves the context unusable closes the device for all programs: each later call says so.
//
// # Numbers
//
// Answers are bitwise the same from run to run and on every card with the same tensor cores, which cut the sums of products
// off: each sum has a fixed order. Products of float32 have its
// accuracy; Options.Precision asks for less. States and powers are computed in float64.
//
// The package imports ir, ops, runtime, runtime/lowering and the packages below it, but for the real driver and for the
// emulator, which its callers and its tests hand to New.
package cuda
