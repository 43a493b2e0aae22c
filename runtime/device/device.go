package device

import (
	"context"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Ptr is an address in the memory of a device: p + n is n bytes behind p. 0 is the address of nothing.
type Ptr uint64

// Device is an accelerator with memory of its own. Several goroutines may call its methods.
type Device interface {
	// Lost returns the error of all calls since an error that the device does not recover from, or nil.
	Lost() error
	// Lose makes the device lost: err has left its memory in an unknown state.
	Lose(err error)
	// Allocate returns memory of the device, at a multiple of 256. what describes it in errors. If the device is full,
	// the error is a *runtime.MemoryError.
	Allocate(bytes int, what string) (Ptr, error)
	// Free frees memory that no work uses any more. It does nothing if the device is lost.
	Free(list []Ptr) error
	// Clear sets memory to zero. Upload and Download copy data to and from the device. All return when that is done.
	Clear(at Ptr, bytes int) error
	Upload(to Ptr, data []byte) error
	Download(data []byte, from Ptr) error
	// AllocateHost returns memory of the host that copies of a Stream read and write. Stream.Free frees it.
	AllocateHost(bytes int, what string) ([]byte, error)
	// NewModules returns the code of a program: what its segments launch.
	NewModules() Modules
	// Close frees everything, after the last program.
	Close() error
}

// Modules is the code that a program has on a device.
type Modules interface {
	NewStream() (Stream, error)
	// Close frees the code, after the program's last stream.
	Close() error
}

// Stream executes the work of one executable in order. Different streams run side by side. Only one goroutine at a time
// calls its methods.
type Stream interface {
	// Allocate is Device.Allocate for memory that only this stream uses.
	Allocate(bytes int, what string) (Ptr, error)
	// Compile prepares commands. address returns the address of buffers that launches use. timed is for Segment.Times.
	Compile(list []Command, address func(Buffer) Ptr, timed bool) (Segment, error)
	// Gather prepares the copies of streams' states from and to an array.
	Gather(s States) Gather
	// Synchronize waits until all work is done. It returns the work's error.
	Synchronize() error
	// Free frees what this stream has used: segments, memory of the device and memory of the host.
	Free(segments []Segment, memory []Ptr, host [][]byte) error
	// Close ends the stream, whose work is done.
	Close() error
}

// Segment is a list of commands that a stream executes as a whole.
type Segment interface {
	// Issue starts the commands without waiting for them to end, and checks ctx between them. again says that the segment
	// has run before, and will probably run often: the device may record it, and start it as a whole.
	Issue(ctx context.Context, again bool) error
	// Times calls f with the time of each command, by its index. The segment is timed, and its last run is done.
	Times(f func(i int, t time.Duration)) error
}

// Command is an item of work with its addresses.
type Command struct {
	Kind     WorkKind
	Launch   Launch
	Dst, Src Ptr    // for Fill, Copy and ToDevice, and for Copy and ToHost
	Bytes    int    // of Fill and Copy
	Byte     byte   // for Fill
	Host     []byte // for ToDevice and ToHost
	What     string // describes a copy between host and device in messages
	unit     *unit
}

// Failed adds the command's node to an error.
func (c *Command) Failed(err error) error { return c.unit.failed(err) }

// States are the states of several streams in the memory of an executable: those before a step and those after it.
// There, a state of all streams is one array. In a stream's memory, its states follow one after the other.
type States struct {
	Streams        int
	Before, Behind []State
}

// State is one of the states.
type State struct {
	At    int // offset in the memory of the executable
	Bytes int // of one stream
}

// Gather copies states between the memory of streams and that of an executable, in the order of its stream.
type Gather interface {
	// Bytes returns the sizes of the memory that Place gets.
	Bytes() (device, host int)
	// Place sets the address of the memory of the executable, and gives the Gather memory for its tables.
	Place(states, tables Ptr, host []byte) error
	// Enter copies the states before a step from the memory of each stream.
	Enter(of []Ptr) error
	// Leave copies the states behind a step, or with undo those before it, to the streams of the last Enter.
	Leave(undo bool) error
}

// Operators are the operators that a device computes.
type Operators interface {
	// For returns what builds the work of a step, as far as that is known without shapes; nil if the device does not
	// compute the step. Its outputs have their declared types.
	For(s *lowering.Step) Record
	// Fusions returns what computes several steps at once, in the order in which they are tried.
	Fusions() []Fusion
	// Binds reports whether the numbers of an input of floats are bound like shapes if there are few, besides those
	// that determine shapes (ir.Op.SizedBy).
	Binds(op string, input int) bool
	// Wide reports whether an operator is computed in float32 in place of narrower types that the device has, too.
	Wide(op *ir.Op) bool
}

// Record adds the work of a step whose shapes are bound. It returns false if it does not support these shapes or types;
// the work that it has added is then dropped. Inputs and outputs are nil, or tensors of known shape without strings,
// and their types follow the operator's rules. Absent optional inputs are nil.
type Record func(b *Builder, s *lowering.Step) bool

// Fusion computes several steps as one unit: a chain of elementwise operators, a product and what follows it, a layer.
type Fusion struct {
	// Name is shown in profiles and plan texts.
	Name string
	// Build looks at steps[0], and takes it with some of the later ones. steps are the steps of the program that
	// nothing has taken, in order. Record's guarantees hold for each, except that absent optional inputs may
	// be present (Binding.Missing). Build adds the work of the steps that it takes, and returns them in order. If it
	// returns nil it takes none, and the work that it has added is dropped. A value that only taken steps read needs
	// no buffer (Binding.Inside). The work runs at the position of the last taken step. The backend drops it if a
	// step in between that is not taken reads a result of a taken one.
	Build func(b *Builder, steps []*lowering.Step) (taken []*lowering.Step)
}

// Launch is work that a device's own code does.
type Launch interface {
	// Name is shown in profiles and plan texts.
	Name() string
	// Buffers calls f for each buffer that the work reads or writes.
	Buffers(f func(Buffer))
}

// failed adds the node of a unit to an error.
func (u *unit) failed(err error) error {
	if u == nil {
		return err
	}
	return &runtime.NodeError{Node: u.steps[0].Source, Err: err}
}
