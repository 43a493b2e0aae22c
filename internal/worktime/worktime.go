// Package worktime measures what tests hold bounds for: the processor time that the process took, all threads together, which
// does not grow when the machine has other things to do as well.
//
// It imports the standard library only. What always holds: two readings differ by at most the time that passed, times the
// number of processors.
package worktime
