package worktime

import (
	"syscall"
	"time"
	"unsafe"
)

// Thread is the processor time that the calling goroutine's thread has taken so far. A goroutine that compares two
// readings must stay on its thread (runtime.LockOSThread).
func Thread() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0 // it cannot fail for the thread itself
	}
	return time.Duration(now.Nano())
}
