//go:build !unix

package main

import (
	"os"
	"time"
)

// pause waits until spinning threads have fallen asleep, since the system has no signal that stops a process.
func pause(*os.Process) error {
	time.Sleep(30 * time.Millisecond)
	return nil
}

func resume(*os.Process) error { return nil }
