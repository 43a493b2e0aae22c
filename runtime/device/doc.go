// Package device runs programs on a device with memory of its own, beside the host. It is the half of a backend for
// cards that does not depend on the card. A backend describes its device by an interface (Device: allocate, copy,
// compile and issue segments, synchronize) and its operators (Operators), and gets a compiler of graphs (Backend). Its
// users are runtime/cuda, and internal/toy, whose device is a few slices.
//
// # From steps to an executable
//
// Package runtime/lowering turns a graph into a flat list of steps. A Record adds the work of a step to a Builder:
// launches, fills and copies on buffers. Operators without a record are replaced by their bodies. Operators with
// neither are refused by name, unless the caller lets the host compute them (Backend.Fallback); plan texts, Explain and
// profiles show each copy that this costs. Values that depend only on shapes are known before the run, and computed on
// the host. So are a few integers and bools, such as the counters of loops (small.go).
//
// When shapes are bound, fusions and records build the units of execution (plan.go). Consecutive units of the device
// become segments: copies and work that one stream executes in order, without the host in between (move.go). Values and
// scratch memory get offsets in one arena of the device, and values of the host in memory that the device reaches
// (place.go). An executable allocates this memory, resolves addresses, and lets its stream compile the segments
// (executable.go, run.go). If, Loop and Scan run on the host, which reads their conditions; their subgraphs are
// executables within the executable. Values that a loop carries or captures stay on the device between iterations if
// only the device writes and reads them (repeat.go).
//
// When a step needs the values of small inputs, such as the shape of a Reshape, these are bound like shapes at the
// start of a run. The executables for the most recent values are cached (values.go).
//
// Constants are uploaded once per model, and data that follow from parameters again for each content (constants.go).
// States of streams stay in the memory of the device from step to step, unless the host computes with them. Steps of
// many streams are one batch, whose states the device gathers and scatters (kept.go).
//
// # What always holds
//
//   - A plan follows from the binding only, and making it allocates nothing of the device.
//   - A value is on the device, on the host, or on both, and only items of segments move it. The device reads and
//     writes only its own memory, and the host only its own; AllocateHost's memory is what copies connect.
//     Backend.Apart separates all values, so that tests find a use of memory outside of its value or lifetime.
//   - Memory is charged to the account of the executable before it is allocated.
//   - A run returns only when none of its work runs on the device any more. Runs after the first allocate no memory
//     of the device.
//   - Closing an executable, the states of a stream or a program frees what it has on the device, and the device closes
//     with its last program.
//
// The package imports ir, ops, runtime and runtime/lowering, and no package of a device.
package device
