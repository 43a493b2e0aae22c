// Package spectral computes eigenvalues for state-space systems: the diagonal form of a full A, and the spectrum of the
// HiPPO-LegS matrix. It is a package of its own so that services, which run compiled models, link no eigenvalue solver.
//
// It imports gonum's mat, ir, ops and ops/essm. All numbers are float64 or complex128; matrices are square and
// row-major. Equal inputs give equal bytes on one machine. The results of HiPPO differ between machines by rounding at
// most.
package spectral
