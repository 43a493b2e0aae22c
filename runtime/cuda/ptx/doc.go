// Package ptx generates kernels as text of PTX, the assembly language that NVIDIA's drivers compile for the card in
// the machine.
//
// A Module contains kernels. A Kernel is built by calls in the order of its instructions. Values are virtual
// registers with Go types of their own (F32, U32, Pred, …). Their methods append an instruction and return its
// result, so a wrong type is a Go compile error:
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
// A value is assigned once. The exceptions are the values of Kernel.Var…, which Set changes: accumulators, and
// values that loops carry. Control flow is structured (If, For, While), so each kernel reconverges at the end of its
// blocks.
//
// Every arithmetic instruction states its rounding (add.rn.f32, never add.f32). This stops the driver's compiler
// from contracting a product and a sum, so answers are the same on every card. Subnormal numbers are kept.
//
// The text targets PTX ISA 7.0 and sm_80, which every later card and driver accepts. The same calls give the same
// bytes.
//
// The package imports only the standard library. A misuse that the types do not exclude (values of two kernels, two
// parameters with one name) panics. It is always a bug in the program: a model cannot cause it.
package ptx
