//go:build !unix

package worktime

import "time"

var start = time.Now()

// Now is the time since the process began, where processor time is not to be had.
func Now() time.Duration { return time.Since(start) }
