//go:build race

// Package race reports whether the race detector is on. Tests use it, because everything is many times slower under
// it. It imports nothing.
package race

// Enabled reports that the race detector is on.
const Enabled = true
