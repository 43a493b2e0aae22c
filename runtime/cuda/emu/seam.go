package emu

// space is a memory of PTX.
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
	atomic    // reads and writes in one
	copyLoad  // the reading half of an asynchronous copy
	copyStore // the writing half of an asynchronous copy, at its issue
	copyDone  // that half again, when a wait for it ends: now the lane may read what arrived
)

// access is one memory instruction of a warp.
type access struct {
	w     *warp
	in    *instr
	space space
	kind  kind
	mask  uint32     // lanes that take part
	addr  [32]uint64 // of the lanes of mask. Shared and local ones count from the start of the block's, or lane's, memory
	size  int        // bytes of a lane, all elements of a vector together
	// alloc holds the allocation of each lane of mask, of global memory alone.
	alloc [32]*allocation
}

// observer is told what kernels and the driver do: it checks, and counts. Methods are called on one goroutine.
type observer interface {
	// launch and done enclose a launch.
	launch(l *launch)
	done(l *launch)
	// blockStarted and blockEnded enclose a block; several blocks run side by side.
	blockStarted(b *block)
	blockEnded(b *block)
	// issue comes before each instruction of a warp; mask holds the lanes that execute it, after its guard.
	issue(w *warp, in *instr, mask uint32)
	// access comes before the memory is read or written, within bounds and aligned.
	access(a *access)
	// barrier comes when all threads of the block that have not ended have arrived at barrier id.
	barrier(b *block, id int)
	// warpSync comes at bar.warp.sync, and at shuffles and votes, which wait for the lanes of mask but order no memory.
	warpSync(w *warp, in *instr, mask uint32)
	// fence comes at membar and fence.
	fence(w *warp, in *instr, mask uint32)

	// allocated and freed tell of global memory.
	allocated(a *allocation)
	freed(a *allocation)
	// hostWrite tells that the host, a fill or a copy wrote n bytes from address at of a. If from is not nil, they are a copy
	// of those at address src of it, and as much initialised as these.
	hostWrite(a *allocation, at uint64, n uint64, from *allocation, src uint64)
	// hostRead tells that n bytes from address at of a were copied to the host.
	hostRead(a *allocation, at uint64, n uint64)
	// forgotten tells that n bytes from at of a hold nothing any more.
	forgotten(a *allocation, at uint64, n uint64)
}

// allocation is a piece of global memory.
type allocation struct {
	number int // counts the device's allocations from 1
	base   uint64
	bytes  uint64 // of it, free or not
	data   []byte
	freed  bool
	guards []guard // by place
	shadow any     // of an observer
}

func (a *allocation) size() uint64 { return uint64(len(a.data)) }

// exec executes an instruction for the lanes of mask, which is not 0. Where the machine must stop it panics with a *stop
// (see warp.stop).
type exec func(w *warp, mask uint32)

// A decoder makes the exec of one family of instructions, those whose name begins with the word that it is registered for in
// decoders. It returns an error for a form that it does not know.
type decoder func(c *compiler, s *statement) (exec, error)
