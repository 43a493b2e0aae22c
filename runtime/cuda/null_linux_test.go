package cuda_test

import "syscall"

// threadID identifies the caller's thread, and so its context.
func threadID() int { return syscall.Gettid() }
