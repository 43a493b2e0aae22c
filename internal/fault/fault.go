// Package fault lets tests fail the operations for which a program needs its system: each access to a file (package
// internal/files), and each byte that a budget grants (ir.Budget). Outside tests, At costs one load of a pointer.
//
// It imports the standard library only. Its only state is the hook.
package fault

import "sync/atomic"

// Op is the operation that may fail.
type Op string

// The operations. Those that change nothing come first.
const (
	Open    Op = "open"
	Stat    Op = "stat"
	Read    Op = "read"
	Map     Op = "map"
	List    Op = "list"
	Close   Op = "close" // of a file that was read
	Take    Op = "take"  // bytes of a budget
	Create  Op = "create"
	Write   Op = "write"
	Sync    Op = "sync"
	Written Op = "written" // the close of a file that was written
	Rename  Op = "rename"
	Remove  Op = "remove"
	Mkdir   Op = "mkdir"
)

// Hook is asked before an operation on a path, of n bytes where it reads, writes or takes some. It returns how many of
// them may be, and the error after that. It may do more: a test cuts files off, or ends the process.
type Hook func(op Op, path string, n int64) (int64, error)

var hook atomic.Pointer[Hook]

// Set sets the hook of the process, and returns a function that removes it.
func Set(h Hook) (restore func()) {
	old := hook.Swap(&h)
	return func() { hook.Store(old) }
}

// At calls the hook.
func At(op Op, path string, n int64) (int64, error) {
	if h := hook.Load(); h != nil {
		return (*h)(op, path, n)
	}
	return n, nil
}
