//go:build !linux

package worktime

import "time"

// Thread is the processor time of the process, where that of a thread is not to be had.
func Thread() time.Duration { return Now() }
