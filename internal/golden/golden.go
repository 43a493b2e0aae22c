// Package golden has no code: its tests hold answers, hashes, and the implementation that the CPU backend chooses for each
// node, against files in testdata, so that a change which ought to change none of them shows that it does not.
//
// The tests import anything of the project. What always holds: the files say nothing of how the backend is built inside;
// cpu.Implementations alone reads that. "go test ./internal/golden -update" renews them, of the answers those of the variant
// of the kernels in use (ESSMC_KERNELS).
package golden
