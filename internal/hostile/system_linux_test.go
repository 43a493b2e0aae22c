package hostile

import "syscall"

// bound ends the process where it takes more address space, before the machine runs out of memory.
func bound(bytes uint64) {
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		panic(err)
	}
}

// peak returns the most bytes that were resident.
func peak(usage any) int64 { return int64(usage.(*syscall.Rusage).Maxrss) << 10 }
