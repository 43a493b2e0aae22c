package emu

import "syscall"

// thread returns the number of the calling thread of the system.
func thread() int { return syscall.Gettid() }
