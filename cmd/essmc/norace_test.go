//go:build !race

package main

// raceEnabled says that the race detector slows everything down.
const raceEnabled = false
