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

// description is what portable code knows of a variant: the sizes that kernels ask for, and which kernels there are.
type description struct {
	vectors bool // kernels on vectors; without them, everything runs in portable code
	// masks: a number has the same bits at any position of a slice, since kernels mask the numbers after the last whole
	// vector. Without masks, the portable kernels compute these numbers, and round otherwise.
	masks  bool
	panel  int   // rows of W in a panel of Packed
	tails  []int // rows that the last panel may have instead, in ascending order; panel is one of them
	tile   int   // rows in a tile of Tiles
	panels int   // positions in a panel of PanelsProduct: a multiple of PanelWidth
	beside int   // features of a vector of Convolution, at most
	// Features in a block of a selective scan, and states in a vector of a scan in blocks; 0 if there are no blocks.
	selective, scan int
	windows         bool // kernels of Depth
	int8            int8Form
	pairs           bool // products of pairs of bfloat16 numbers
	quads           bool // products of four bytes at once
	depthBytes      bool // kernels of DepthBytes
}

// int8Form is the form of products of int8.
type int8Form struct {
	panel, side int // Int8.panel and Int8.side
	// bytes: activations are bytes, with int8Offset added, instead of 16-bit integers. Sums are the same either way.
	bytes bool
}

// genericTile is the number of rows of a tile of the portable kernels.
const genericTile = 6

// generic describes the portable variant.
var generic = description{masks: true, panel: panel, tails: []int{panel}, tile: genericTile, panels: PanelWidth, beside: 8,
	selective: 16, int8: int8Form{panel: 1, side: 1}}

// machine describes the variant that this process uses.
var machine = described(variant)

func described(variant string) description {
	if d, ok := descriptions()[variant]; ok {
		return d
	}
	return generic
}

// SameAnywhere reports whether elementwise kernels give a number the same bits at any position of a slice.
func SameAnywhere() bool { return machine.masks }
