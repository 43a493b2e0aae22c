// Package ram reports how much memory the process may use, so that a run that cannot fit is refused instead of killed.
//
// It imports golang.org/x/sys.
package ram

import "sync"

// Total is the memory in bytes that the process may use: the minimum of the machine's memory, the limits of its
// control groups (versions 1 and 2, nested), and its limit of address space. It is 0 if this is not known.
func Total() int64 { return once() }

var once = sync.OnceValue(total)
