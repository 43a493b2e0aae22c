//go:build !race

package runtime_test

const slowdown = 1.0
