package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// VariantEnv is the environment variable that selects a variant of the kernels, for tests and comparisons.
const VariantEnv = "ESSMC_KERNELS"

// The variants. Generic is portable Go and defines the results of the others. A kernel without an AVX512 variant
// uses its AVX2 variant.
const (
	Generic = "generic"
	AVX2    = "avx2"   // and FMA
	AVX512  = "avx512" // F, VL, DQ and BW; and BMI2
)

// variant is chosen once, when the program starts: the best one of the processor, or the one in VariantEnv.
var variant = choose(os.Getenv(VariantEnv))

// Variant returns the variant that this process uses. Results of one variant are bitwise the same on all processors,
// except for products of bfloat16, which AVX512_BF16 rounds otherwise. Results of different variants agree to rounding.
func Variant() string { return variant }

// Variants returns the variants that this processor can run, the best first.
func Variants() []string { return append(slices.Clone(machineVariants()), Generic) }

func choose(want string) string {
	have := Variants()
	if slices.Contains(have, want) {
		return want
	}
	return have[0]
}

// CheckVariant returns an error if VariantEnv has a value that this processor cannot run.
func CheckVariant() error {
	if want := os.Getenv(VariantEnv); want != "" && want != variant {
		return fmt.Errorf("%s=%s: expected a variant that this processor can run: %s", VariantEnv, want,
			strings.Join(Variants(), ", "))
	}
	return nil
}

// wide reports whether vector kernels are used, and avx512 whether AVX-512 kernels are used where they exist.
func wide() bool { return variant != Generic }

func avx512() bool { return variant == AVX512 }

// SameAnywhere reports whether elementwise kernels give a number the same bits at any position of a slice. AVX2
// kernels do not: the portable kernels compute the numbers after the last whole vector.
func SameAnywhere() bool { return variant != AVX2 }
