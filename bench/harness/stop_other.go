//go:build !unix

package main

import (
	"os"
	"time"
)

// pause gives threads that wait by spinning the time to fall asleep: the system has no signal that stops a process.
func pause(*os.Process) error {
	time.Sleep(30 * time.Millisecond)
	return nil
}

func resume(*os.Process) error { return nil }
