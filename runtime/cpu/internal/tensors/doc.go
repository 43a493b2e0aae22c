// Package tensors has what tensor kernels share: slots, windows over any number of axes, and sizes of work items. The
// packages below it implement tensor kernels, which compute whole tensors at once.
//
// It imports ir, ops, and runtime/lowering. The packages below it also import runtime/cpu/kernel, the package record, and
// those of other kinds (rows, windowed, …) where an operator has kernels of several kinds: its record is in the file of its
// tensor kernel.
//
// In those packages, each operator is registered (record.Register) in the file of its kernel. A kernel is made for one
// binding, and requests the slots of its inputs and outputs at that time. While it runs, it uses only the memory of
// its record.Workspace and record.Call, and gives the same answer on any number of threads. Sequences have no slots,
// so SequenceInsert is the only kernel that reads values directly.
package tensors
