// Package elementwise computes operators on float32 numbers as their expressions say (ir.Op.Element): alone, in fused kernels,
// in epilogues, and under broadcasting. It knows no operator by name.
//
// The expression of a step becomes a program, whose instructions are functions on blocks of numbers: one entry of operations for
// each operation of package scalar. Results are rounded to float32 after each instruction. A function such as Gelu is one
// instruction where it has an entry, and what its definition says otherwise. A program of one instruction is that function,
// with nothing between. Operators that have a row kernel of their own, or that compare or select, are left to those kernels.
//
// It imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// What always holds: an expression is compiled once for all steps that have it; whatever computes it gives the same answer to rounding, and the same bits on any
// number of threads; nothing is allocated while it runs.
package elementwise
