// Package recordtest holds tests alone: records of operators run on the emulator, one application at a time, against the
// interpreter. Their kernels are assembled for all cards, where the environment names an assembler (ESSMC_PTXAS).
package recordtest
