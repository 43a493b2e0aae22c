//go:build !race

package main

// raceEnabled reports whether the race detector is on, which makes everything slower.
const raceEnabled = false
