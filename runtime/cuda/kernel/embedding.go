package kernel

import (
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Embedding looks up tokens in a table of 32-bit numbers.
type Embedding struct {
	Y, Tokens, Table Buffer
	// Fault is a number that is set to 1 if a token is not in the table; its row of Y is then 0.
	Fault  Buffer
	Count  int // number of tokens
	Rows   int // rows of the table
	Width  int
	Narrow bool // tokens have 32 bits instead of 64
}

// Call returns the launch: one block per token. ok is false for sizes beyond the limits of launches.
func (e Embedding) Call() (c Call, ok bool) {
	if e.Count < 1 || e.Count > math.MaxInt32 || e.Width < 1 || e.Width > math.MaxInt32 || uint64(e.Rows) > math.MaxUint32 {
		return Call{}, false
	}
	name := "embedding"
	if e.Narrow {
		name = "embedding_32"
	}
	const threads = 128
	code := New(name, threads, func(k *ptx.Kernel) {
		y, tokens, table, fault := k.PtrParam("y"), k.PtrParam("tokens"), k.PtrParam("table"), k.PtrParam("fault")
		rows, width := k.U32Param("rows"), k.U32Param("width")
		var token, high ptx.U32
		if e.Narrow {
			token, high = tokens.Index(k.BlockX(), 4).LoadU32(0), ptx.U(0)
		} else {
			both := tokens.Index(k.BlockX(), 8).LoadU32s(0, 2)
			token, high = both[0], both[1]
		}
		known := token.Lt(rows) // negative ones are large unsigned numbers
		if !e.Narrow {
			known = known.And(high.Eq(ptx.U(0)))
		}
		to := y.Index64(k.BlockX().MulWide(width), 4)
		k.IfElse(known, func() {
			from := table.Index64(token.MulWide(width), 4)
			k.For(k.ThreadX(), width, ptx.U(threads), func(i ptx.U32) {
				to.Index(i, 4).StoreU32(0, from.Index(i, 4).ConstU32(0))
			})
		}, func() {
			k.For(k.ThreadX(), width, ptx.U(threads), func(i ptx.U32) { to.Index(i, 4).StoreU32(0, ptx.U(0)) })
			k.If(k.ThreadX().Eq(ptx.U(0)), func() { fault.SetBits(0, ptx.U(1)) })
		})
	})
	return NewCall(code, driver.Dim{X: uint32(e.Count), Y: 1, Z: 1}, Ptr(e.Y), Ptr(e.Tokens), Ptr(e.Table), Ptr(e.Fault), U32(e.Rows),
		U32(e.Width)), true
}
