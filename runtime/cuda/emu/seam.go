package emu

// space is a memory space of PTX.
type space uint8

const (
	global space = iota
	shared
	local
	param
	spaces
)

func (s space) String() string { return [spaces]string{"global", "shared", "local", "param"}[s] }

// kind is the kind of an access.
type kind uint8

const (
	load kind = iota
	store
	atomic    // reads and writes at once
	copyLoad  // the read of an asynchronous copy
	copyStore // the write of an asynchronous copy, at its issue
	copyDone  // the same write when a wait for it ends: from here on the lane may read the data
)

// access is one memory instruction of a warp.
type access struct {
	w     *warp
	in    *instr
	space space
	kind  kind
	mask  uint32     // participating lanes
	addr  [32]uint64 // by lane of mask; shared and local addresses count from the start of the block's or lane's memory
	size  int        // bytes per lane, for all elements of a vector together
	// alloc is the allocation of each lane of mask, for global memory only.
	alloc [32]*allocation
}

// observer is notified of what kernels and the driver do; it checks and counts. Its methods are called on one
// goroutine.
type observer interface {
	// launch and done enclose a launch.
	launch(l *launch)
	done(l *launch)
	// blockStarted and blockEnded enclose a block; several blocks run side by side.
	blockStarted(b *block)
	blockEnded(b *block)
	// issue is called before each instruction of a warp; mask has the lanes that execute it, after its guard.
	issue(w *warp, in *instr, mask uint32)
	// access is called before memory is read or written, after bounds and alignment have been checked.
	access(a *access)
	// barrier is called when all threads of the block that have not ended have arrived at barrier id.
	barrier(b *block, id int)
	// warpSync is called at bar.warp.sync, and at shuffles and votes, which wait for the lanes of mask but do not
	// order memory.
	warpSync(w *warp, in *instr, mask uint32)
	// fence is called at membar and fence.
	fence(w *warp, in *instr, mask uint32)

	// allocated and freed report changes of global memory.
	allocated(a *allocation)
	freed(a *allocation)
	// hostWrite reports that the host, a fill or a copy wrote n bytes at address at of a. If from is not nil, they
	// are a copy of the bytes at address src of it, initialised just as far.
	hostWrite(a *allocation, at uint64, n uint64, from *allocation, src uint64)
	// hostRead reports that n bytes from address at of a were copied to the host.
	hostRead(a *allocation, at uint64, n uint64)
	// forgotten reports that n bytes from at of a became undefined.
	forgotten(a *allocation, at uint64, n uint64)
}

// allocation is a piece of global memory.
type allocation struct {
	number int // counts the device's allocations from 1
	base   uint64
	bytes  uint64 // size, also after it is freed
	data   []byte
	freed  bool
	guards []guard // sorted by offset
	shadow any     // belongs to an observer
}

func (a *allocation) size() uint64 { return uint64(len(a.data)) }

// exec executes an instruction for the lanes of mask, which is not 0. To stop the machine it panics with a *stop
// (see warp.stop).
type exec func(w *warp, mask uint32)

// A decoder makes the exec of one family of instructions, whose names start with the word that it is registered for
// in decoders. It returns an error for an unknown form.
type decoder func(c *compiler, s *statement) (exec, error)
