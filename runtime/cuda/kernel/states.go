package kernel

import (
	"encoding/binary"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// StatesMove copies states between the memory of many streams and an array of all streams' states, in one launch. A
// stream's memory has one state after the other; Places are the addresses of all streams' memories.
type StatesMove struct {
	Leave          bool // from the array to the streams instead of the reverse
	Streams        int
	Pieces         int // the number from StatePieces
	Table          Buffer
	Places, Memory Buffer
}

// A piece is a part of a state that one block copies. Its table entry has four 64-bit numbers: its offset in a
// stream's memory; its offset in the array for the first stream; its size; the size of the state. Sizes are in
// bytes.
const (
	statePiece      = 8 << 10
	StatePieceBytes = 32 // size of an entry in the table
	stateThreads    = 256
)

// StatePieces returns the table of pieces for the kernel, and their number. at are the offsets of the states in the
// array, and sizes their bytes per stream.
func StatePieces(at, sizes []int) (table []byte, pieces int) {
	place := 0
	for i, n := range sizes {
		for lo := 0; lo < n; lo += statePiece {
			for _, x := range []int{place + lo, at[i] + lo, min(statePiece, n-lo), n} {
				table = binary.LittleEndian.AppendUint64(table, uint64(x))
			}
			pieces++
		}
		place += n
	}
	return table, pieces
}

// Call returns the launch. There must be streams and pieces.
func (m StatesMove) Call() Call {
	y, z := gridBatch(m.Streams)
	return NewCall(statesMove(m.Leave), driver.Dim{X: uint32(m.Pieces), Y: y, Z: z}, U32(m.Streams), Ptr(m.Table), Ptr(m.Places),
		Ptr(m.Memory))
}

func statesMove(leave bool) *Code {
	name := "states_enter"
	if leave {
		name = "states_leave"
	}
	return New(name, stateThreads, func(k *ptx.Kernel) {
		streams, table, places, memory := k.U32Param("streams"), k.PtrParam("table"), k.PtrParam("places"), k.PtrParam("memory")
		stream := k.BlockZ().MAD(k.GridY(), k.BlockY())
		k.If(stream.Ge(streams), k.Return)
		piece := table.Index(k.BlockX(), StatePieceBytes)
		at, from, bytes, state := piece.LoadU64(0), piece.LoadU64(8), piece.LoadU64(16), piece.LoadU64(24)
		place := ptx.Addr(places.Index(stream, 8).LoadU64(0)).Add(at)
		mine := memory.Add(from).Add(stream.Wide().Mul(state))
		dst, src := mine, place
		if leave {
			dst, src = place, mine
		}
		all := dst.U64().Or(src.U64()).Or(bytes).Low()
		move := func(size int, one func(dst, src ptx.Addr)) {
			k.For(k.ThreadX(), bytes.Low().Div(ptx.U(size)), ptx.U(stateThreads), func(i ptx.U32) {
				one(dst.Index(i, size), src.Index(i, size))
			})
		}
		k.IfElse(all.And(ptx.U(15)).Eq(ptx.U(0)), func() {
			move(16, func(dst, src ptx.Addr) { dst.StoreU32s(0, src.LoadU32s(0, 4)...) })
		}, func() {
			k.IfElse(all.And(ptx.U(3)).Eq(ptx.U(0)), func() {
				move(4, func(dst, src ptx.Addr) { dst.StoreU32(0, src.LoadU32(0)) })
			}, func() { move(1, func(dst, src ptx.Addr) { dst.StoreU8(0, src.LoadU8(0)) }) })
		})
	})
}
