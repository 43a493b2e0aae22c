package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// VariantEnv is the environment variable that forces a variant of the kernels, for tests and comparisons.
const VariantEnv = "ESSMC_KERNELS"

// Generic is the variant in portable Go, which every processor has. It is the truth for the others.
const Generic = "generic"

// variant is chosen once, when the program starts: the best that the processor has, or what VariantEnv says.
var variant = choose(os.Getenv(VariantEnv))

// Variant names the kernels that this program runs: "generic", "avx2". On one variant answers are bitwise the same
// everywhere; between variants they agree to rounding.
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

// wide says that the vector kernels are to be used.
func wide() bool { return variant != Generic }
