//go:build race

package runtime_test

// slowdown is what the race detector costs.
const slowdown = 20.0
