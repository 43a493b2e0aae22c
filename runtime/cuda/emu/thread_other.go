//go:build !linux

package emu

// thread returns 0. Threads are not distinguished, so a context is current for all of them.
func thread() int { return 0 }
