package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// VariantEnv is the environment variable that forces a variant of the kernels, for tests and comparisons.
const VariantEnv = "ESSMC_KERNELS"

// The variants. Generic is in portable Go, which every processor has, and is the truth for the others. Where AVX512 has no
// kernel of its own, it uses that of AVX2.
const (
	Generic = "generic"
	AVX2    = "avx2"   // and FMA
	AVX512  = "avx512" // F, VL, DQ and BW; and BMI2
)

// variant is chosen once, when the program starts: the best that the processor has, or what VariantEnv says.
var variant = choose(os.Getenv(VariantEnv))

// Variant names the kernels that this program runs. On one variant answers are bitwise the same everywhere, but for products in
// bfloat16, which AVX512_BF16 rounds otherwise; between variants they agree to rounding.
func Variant() string { return variant }

// Variants lists those that this processor can run, the best first.
func Variants() []string { return append(slices.Clone(machineVariants()), Generic) }

func choose(want string) string {
	have := Variants()
	if slices.Contains(have, want) {
		return want
	}
	return have[0]
}

// CheckVariant reports a value of VariantEnv that this processor cannot run.
func CheckVariant() error {
	if want := os.Getenv(VariantEnv); want != "" && want != variant {
		return fmt.Errorf("%s=%s: this processor has %s", VariantEnv, want, strings.Join(Variants(), ", "))
	}
	return nil
}

// wide says that vector kernels are to be used, and avx512 that they are to be those of AVX-512 where there are any.
func wide() bool { return variant != Generic }

func avx512() bool { return variant == AVX512 }
