// Package worktime measures the processor time that the process took, all threads together, which does not grow when the
// machine has other things to do as well: tests hold bounds for it, and measurements of the machine go by it.
//
// It imports the standard library only. What always holds: two readings differ by at most the time that passed, times the
// number of processors.
package worktime
