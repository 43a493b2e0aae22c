// Package cuda is the backend for NVIDIA's cards. It needs only their driver: the backend generates kernels as text
// (package kernel), and the driver compiles them.
//
// # From steps to an executable
//
// Package runtime/lowering turns a graph into a flat list of steps. An operator's record turns a step into calls of
// kernels (internal/record; packages beside it register records, one package per kind of operator). Operators
// without a record are replaced by their bodies. Operators with neither are refused by name, unless the caller lets
// the processor compute them (Options.Fallback); plan texts, Explain and profiles show each copy that this costs.
// Values that depend only on shapes are known before the run, and computed on the host.
//
// When shapes are bound, fusions and records build the units of execution (plan.go), values and scratch memory get
// offsets in one arena (place.go), and consecutive units become segments: copies and launches that one stream
// executes in order. A segment that runs a second time is recorded as a CUDA graph, and launched as a whole from
// then on. If, Loop and Scan run on the host, which reads their conditions; their subgraphs are executables within
// the executable. Values that a loop carries or captures stay on the device between iterations if only the device
// writes and reads them (repeat.go).
//
// When a step needs the values of small inputs, such as the shape of a Reshape, these are bound like shapes at the
// start of a run. The executables for the most recent values are cached (values.go).
//
// # The device
//
// One locked thread issues all work of a device, in its context; other locked threads wait for it, so that sessions
// run side by side (device.go, worker.go). Memory comes from a pool, in the order of streams, and is charged to the
// account of the executable before it is allocated. Kernels are compiled once per text and shared by all programs of
// the backend (modules.go). Constants are uploaded once per model (constants.go). Tables that depend on shapes are
// dropped when no executable uses them. The context, the pool and the threads end with the last program.
//
// States of streams stay in the memory of the device from step to step (kept.go), unless the host computes with
// them. Steps of many streams are one batch: one launch gathers their states, and one scatters them, by a list of
// addresses.
//
// An error that makes the context unusable closes the device for all programs; each later call reports that.
//
// # Numbers
//
// Each sum has a fixed order, so answers are bitwise the same from run to run, and on every card whose tensor cores
// round partial sums alike. Products of float32 have float32 accuracy unless Options.Precision asks for less. States
// and powers are computed in float64.
//
// The package imports ir, ops, runtime, runtime/lowering and the packages below it, except the real driver and the
// emulator: callers and tests pass one of these to New.
package cuda
