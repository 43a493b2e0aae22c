// Package ram says how much memory the machine has, so that a run that cannot fit is refused instead of being killed.
//
// It imports golang.org/x/sys.
package ram

import "sync"

// Total is the machine's memory in bytes, or what the container may use of it; 0 where that is not known.
func Total() int64 { return once() }

var once = sync.OnceValue(total)
