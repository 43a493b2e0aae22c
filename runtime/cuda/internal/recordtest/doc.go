// Package recordtest has only tests. They run records of operators on the emulator, one application at a time, and
// compare the results with the interpreter. If ESSMC_PTXAS is an assembler, they also assemble the kernels for all
// cards.
package recordtest
