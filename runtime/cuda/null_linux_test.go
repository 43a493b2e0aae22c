package cuda_test

import "syscall"

// threadID is the thread of the caller, by which contexts are told apart.
func threadID() int { return syscall.Gettid() }
