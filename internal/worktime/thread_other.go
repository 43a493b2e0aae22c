//go:build !linux

package worktime

import "time"

// Thread is the processor time of the process, if a thread's is not available.
func Thread() time.Duration { return Now() }
