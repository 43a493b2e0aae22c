package cuda

import "github.com/essmc/essmc/runtime"

// Bare returns the backend without records.
func Bare(b runtime.Backend) runtime.Backend {
	b.(*backend).bare = true
	return b
}
