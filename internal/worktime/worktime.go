// Package worktime measures the processor time of the process, over all threads, and of one thread. Other processes on
// the machine do not affect it, so tests have bounds on it, and measurements use it.
//
// It imports the standard library only. Two readings differ by at most the elapsed time, times the number of
// processors.
package worktime
