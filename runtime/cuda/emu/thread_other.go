//go:build !linux

package emu

// thread returns 0: threads are not told apart, and a context is current for all of them.
func thread() int { return 0 }
