package cuda

import "github.com/essmc/essmc/runtime"

// Bare returns the backend without records.
func Bare(b runtime.Backend) runtime.Backend {
	b.(*backend).bare = true
	return b
}

// Idle returns the backend with another limit of tables that no executable uses.
func Idle(b runtime.Backend, bytes int) runtime.Backend {
	b.(*backend).idle = bytes
	return b
}

// Kept returns the backend with another limit of free memory that its pool keeps.
func Kept(b runtime.Backend, bytes uint64) runtime.Backend {
	b.(*backend).keep = bytes
	return b
}
