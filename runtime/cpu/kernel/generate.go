package kernel

// One line for each group of kernels in _asm/main.go, and one for what other architectures have in their place.

//go:generate sh _asm/generate.sh gemm
//go:generate sh _asm/generate.sh scan
//go:generate sh _asm/generate.sh gemm512
//go:generate sh _asm/generate.sh scan512
//go:generate sh _asm/generate.sh elementwise512
//go:generate sh _asm/generate.sh activation512
//go:generate sh _asm/generate.sh arith512
//go:generate sh _asm/generate.sh fused512
//go:generate sh _asm/generate.sh fft512
//go:generate sh _asm/generate.sh beside
//go:generate sh _asm/generate.sh beside512
//go:generate sh _asm/generate.sh heads
//go:generate sh _asm/generate.sh siso
//go:generate sh _asm/generate.sh transpose
//go:generate sh _asm/generate.sh arith
//go:generate sh _asm/generate.sh conv
//go:generate sh _asm/generate.sh winograd
//go:generate sh _asm/generate.sh depth512
//go:generate sh _asm/generate.sh elementwise
//go:generate sh _asm/generate.sh activation
//go:generate sh _asm/generate.sh fused
//go:generate sh _asm/generate.sh fft
//go:generate sh _asm/generate.sh norm
//go:generate sh _asm/generate.sh sum
//go:generate sh _asm/generate.sh int8
//go:generate sh _asm/generate.sh bf16
//go:generate sh _asm/generate.sh integer
//go:generate sh _asm/generate.sh int8512
//go:generate sh _asm/generate.sh quads512
//go:generate sh _asm/generate.sh bf16512
//go:generate sh _asm/generate.sh selective
//go:generate sh _asm/generate.sh selective512
//go:generate go run _asm/stubs/main.go
