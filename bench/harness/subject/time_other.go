//go:build !unix

package main

import "time"

// processorTime returns 0, because the system does not report it.
func processorTime() time.Duration { return 0 }
