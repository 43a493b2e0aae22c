//go:build race

// Package race says whether the race detector is on, for tests: everything is many times as slow under it. It imports
// nothing.
package race

// Enabled says that the race detector is on.
const Enabled = true
