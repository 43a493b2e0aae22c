// Package golden has no code. Its tests compare answers, hashes, and the CPU backend's choice of implementation per
// node with files in testdata, to show that a change leaves them alone.
//
// The tests may import anything in the project. The files do not depend on the structure of the backend; only
// cpu.Implementations reads that. "go test ./internal/golden -update" renews them, but only the answers of the
// kernel variant in use (ESSMC_KERNELS).
package golden
