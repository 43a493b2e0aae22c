// Package elementwise computes operators on float32 by their expressions (ir.Op.Element): singly, in fused kernels,
// in epilogues, and under broadcasting. It contains no code for particular operators.
//
// The expression of a step becomes a program, whose instructions are functions on blocks of numbers. The table
// operations has an entry for each operation of package scalar. Results are rounded to float32 after each
// instruction. A function such as Gelu is one instruction if it has an entry, and is replaced by its definition
// otherwise. A program of one instruction is called directly. Operators with a row kernel of their own, and those
// that compare or select, are computed by those kernels.
//
// The package imports ir, ir/scalar, ir/tensor, ops, runtime/lowering, runtime/cpu/kernel and package record.
//
// Its invariants: an expression is compiled once for all steps that have it; all ways of computing it give the same
// answer up to rounding, and the same bits on any number of threads; nothing is allocated during a run.
package elementwise
