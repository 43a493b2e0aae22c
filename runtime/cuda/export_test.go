package cuda

import "github.com/essmc/essmc/runtime"

// Bare returns the backend without records.
func Bare(b runtime.Backend) runtime.Backend {
	b.(*backend).Operators = nil
	return b
}

// Idle returns the backend with another limit of tables that no executable uses.
func Idle(b runtime.Backend, bytes int) runtime.Backend {
	b.(*backend).Idle = bytes
	return b
}

// Kept returns the backend with another limit of free memory that its pool keeps.
func Kept(b runtime.Backend, bytes uint64) runtime.Backend {
	b.(*backend).keep = bytes
	return b
}

// Apart returns the backend with all values of an executable separated: see device.Backend.
func Apart(b runtime.Backend, early, short int) runtime.Backend {
	b.(*backend).Apart(early, short)
	return b
}
