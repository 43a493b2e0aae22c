// Package tensors implements tensor kernels: operators that compute whole tensors at once.
//
// It imports ir, ops, ops/ml, runtime/lowering, runtime/cpu/kernel, and the packages record, elementwise, rows,
// streaming and windowed. It needs the last four because an operator with kernels of several kinds has its record in
// the file of its tensor kernel.
//
// Its invariants: each operator is registered (record.Register) in the file of its kernel. A kernel is made for one
// binding, and requests the slots of its inputs and outputs at that time. While it runs, it uses only the memory of
// its record.Workspace and record.Call, and gives the same answer on any number of threads. Sequences have no slots,
// so SequenceInsert is the only kernel that reads values directly.
package tensors
