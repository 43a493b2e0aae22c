//go:build !race

package cuda_test

// race says that the race detector is on.
const race = false
