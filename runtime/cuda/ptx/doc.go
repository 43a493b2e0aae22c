// Package ptx writes kernels as text of PTX, the assembly language that NVIDIA's drivers compile for the card at hand.
//
// A Module holds kernels. A Kernel is built by calls in the order of its instructions: values are virtual registers with Go
// types of their own (F32, U32, Pred, …), whose methods append an instruction and return its result, so that a wrong type
// is an error of Go's compiler:
//
//	m := ptx.NewModule()
//	k := m.Kernel("scale")
//	x, n := k.PtrParam("x"), k.U32Param("n")
//	i := k.BlockX().MAD(k.BlockDimX(), k.ThreadX())
//	k.If(i.Lt(n), func() {
//		at := x.Index(i, 4)
//		at.StoreF32(0, at.LoadF32(0).Mul(ptx.F(2)))
//	})
//	text := m.Text()
//
// A value is assigned once, but for those of Kernel.Var…, which Set changes: accumulators, and what loops carry. Control flow
// is structured (If, For, While), so each kernel reconverges where its blocks end.
//
// Arithmetic says how it rounds (add.rn.f32, never add.f32): the driver's compiler then joins no product and sum by itself,
// and answers are those of the program on every card. Numbers too small for the normal range are kept.
//
// The text is for PTX ISA 7.0 and sm_80, which every later card and driver takes. The same calls give the same bytes.
//
// The package imports the standard library alone. A misuse that the types do not exclude (values of two kernels, two
// parameters of one name) panics: it is a fault of the program, and never follows from a model.
package ptx
