package emu

import "syscall"

// thread returns the ID of the calling operating system thread.
func thread() int { return syscall.Gettid() }
