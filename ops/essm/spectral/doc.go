// Package spectral is the eigenvalue mathematics of state-space systems: diagonalization of a full A, and the HiPPO-LegS
// matrix that training starts from. It stands apart from ops/essm so that a service which only runs compiled models links
// no eigenvalue solver.
//
// It imports gonum's mat, ir, ops and ops/essm. What always holds: everything is float64 or complex128; matrices are square
// and row-major; equal input gives equal bytes on one machine, and HiPPO differs between machines by rounding at most.
package spectral
