//go:build !race

package kerneltest

// race says that the race detector is on.
const race = false
