// Package golden has no code. Its tests compare answers, hashes, and the implementation that the CPU backend chooses
// for each node, with files in testdata. They show that a change does not affect them.
//
// The tests import anything of the project. The files do not depend on the structure of the backend; only
// cpu.Implementations reads that. "go test ./internal/golden -update" renews them; of the answers it renews those of the
// variant of the kernels in use (ESSMC_KERNELS).
package golden
