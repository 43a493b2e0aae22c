package ptx

import "fmt"

// label returns a new label.
func (k *Kernel) label() string {
	k.labels++
	return fmt.Sprintf("L%d", k.labels)
}

func (k *Kernel) place(label string) {
	k.code = append(k.code, instruction{label + ":", k.depth - 1})
}

func (k *Kernel) flat(what string) {
	if k.guard != nil {
		panic("ptx: " + what + " under Guard")
	}
}

// If runs body in the threads where p is true. If body contains barriers, p must be the same for all threads of the
// block.
func (k *Kernel) If(p Pred, body func()) {
	k.flat("If")
	end := k.label()
	k.emit("@!"+p.v.String()+" bra", end)
	k.nest(body)
	k.place(end)
}

// IfElse runs then where p is true, and otherwise elsewhere.
func (k *Kernel) IfElse(p Pred, then, otherwise func()) {
	k.flat("IfElse")
	no, end := k.label(), k.label()
	k.emit("@!"+p.v.String()+" bra", no)
	k.nest(then)
	k.emit("bra", end)
	k.place(no)
	k.nest(otherwise)
	k.place(end)
}

// Guard puts the predicate p before each instruction of body, which must not contain control flow. Where p is false
// the instructions have no effect, and results are undefined unless Set assigned a value before.
func (k *Kernel) Guard(p Pred, body func()) {
	k.flat("Guard")
	k.guard = &p
	body()
	k.guard = nil
}

// While runs body as long as cond, evaluated before each iteration, is true.
func (k *Kernel) While(cond func() Pred, body func()) {
	k.flat("While")
	top, end := k.label(), k.label()
	k.depth++
	k.place(top)
	p := cond()
	k.emit("@!"+p.v.String()+" bra", end)
	body()
	k.emit("bra", top)
	k.depth--
	k.place(end)
}

// For runs body with i from first, by step, as long as i < end. body must not change end or step, and end + step
// must fit in 32 bits.
func (k *Kernel) For(first, end, step U32, body func(i U32)) {
	i := k.VarU32(first)
	k.While(func() Pred { return i.Lt(end) }, func() {
		body(i)
		i.Set(i.Add(step))
	})
}

// Return ends the thread.
func (k *Kernel) Return() { k.emit("ret") }

func (k *Kernel) nest(body func()) {
	k.depth++
	body()
	k.depth--
}

// Barrier waits for all threads of the block, and makes their writes to memory visible to each other.
func (k *Kernel) Barrier() {
	k.flat("Barrier")
	k.emit("bar.sync", 0)
}

// SyncWarp waits for all threads of the warp, and makes their writes to memory visible to each other.
func (k *Kernel) SyncWarp() { k.emit("bar.warp.sync", "0xffffffff") }

// Fence makes the writes of this thread visible to all threads of the device before its later ones.
func (k *Kernel) Fence() { k.emit("membar.gl") }

// shuffle emits a shuffle of 32 bits among all threads of the warp.
func shuffle(x value, c class, mode string, by U32, limit string) value {
	return kernel(x, by.v).compute(c, "shfl.sync."+mode+".b32", x, by.v, limit, "0xffffffff")
}

// ShuffleDown returns the value of the thread by lanes further on, or the thread's own value beyond the warp.
func (x F32) ShuffleDown(by U32) F32 { return F32{shuffle(x.v, f32Class, "down", by, "31")} }

// ShuffleUp returns the value of the thread by lanes before, or the thread's own value beyond the warp.
func (x F32) ShuffleUp(by U32) F32 { return F32{shuffle(x.v, f32Class, "up", by, "0")} }

// ShuffleXor returns the value of the thread whose lane differs in the bits of by.
func (x F32) ShuffleXor(by U32) F32 { return F32{shuffle(x.v, f32Class, "bfly", by, "31")} }

// ShuffleFrom returns the value of the thread with the given lane.
func (x F32) ShuffleFrom(lane U32) F32 { return F32{shuffle(x.v, f32Class, "idx", lane, "31")} }

// ShuffleDown returns the value of the thread by lanes further on, or the thread's own value beyond the warp.
func (x U32) ShuffleDown(by U32) U32 { return U32{shuffle(x.v, b32Class, "down", by, "31")} }

// ShuffleUp returns the value of the thread by lanes before, or the thread's own value beyond the warp.
func (x U32) ShuffleUp(by U32) U32 { return U32{shuffle(x.v, b32Class, "up", by, "0")} }

// ShuffleXor returns the value of the thread whose lane differs in the bits of by.
func (x U32) ShuffleXor(by U32) U32 { return U32{shuffle(x.v, b32Class, "bfly", by, "31")} }

// ShuffleFrom returns the value of the thread with the given lane.
func (x U32) ShuffleFrom(lane U32) U32 { return U32{shuffle(x.v, b32Class, "idx", lane, "31")} }

// Halves returns the lower and the upper 32 bits of x.
func (x F64) Halves() (low, high U32) {
	k := x.v.k
	low, high = U32{k.register(b32Class)}, U32{k.register(b32Class)}
	k.emit("mov.b64", fmt.Sprintf("{%v, %v}", low.v, high.v), x.v)
	return low, high
}

// JoinF64 returns the number with the given halves.
func JoinF64(low, high U32) F64 {
	return F64{kernel(low.v, high.v).compute(f64Class, "mov.b64", fmt.Sprintf("{%v, %v}", low.v, high.v))}
}

// ShuffleUp returns the value of the thread by lanes before, or the thread's own value beyond the warp.
func (x F64) ShuffleUp(by U32) F64 {
	low, high := x.Halves()
	return JoinF64(low.ShuffleUp(by), high.ShuffleUp(by))
}

// ShuffleXor returns the value of the thread whose lane differs in the bits of by.
func (x F64) ShuffleXor(by U32) F64 {
	low, high := x.Halves()
	return JoinF64(low.ShuffleXor(by), high.ShuffleXor(by))
}

// ShuffleFrom returns the value of the thread with the given lane.
func (x F64) ShuffleFrom(lane U32) F64 {
	low, high := x.Halves()
	return JoinF64(low.ShuffleFrom(lane), high.ShuffleFrom(lane))
}

// Any reports whether p is true in any thread of the warp.
func (p Pred) Any() Pred {
	return Pred{p.v.k.compute(predClass, "vote.sync.any.pred", p.v, "0xffffffff")}
}

// All reports whether p is true in all threads of the warp.
func (p Pred) All() Pred {
	return Pred{p.v.k.compute(predClass, "vote.sync.all.pred", p.v, "0xffffffff")}
}

// Ballot returns a bit per lane: whether p is true there.
func (p Pred) Ballot() U32 {
	return U32{p.v.k.compute(b32Class, "vote.sync.ballot.b32", p.v, "0xffffffff")}
}
