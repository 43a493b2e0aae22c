package kernel

import (
	"slices"
	"strings"
	"testing"
)

// use makes v the variant of the kernels.
func use(v string) { variant, machine = v, described(v) }

// eachVariant runs a test once with each variant that this processor has.
func eachVariant(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	chosen := variant
	defer use(chosen)
	for _, v := range Variants() {
		use(v)
		t.Run(v, test)
	}
}

func TestVariant(t *testing.T) {
	if all := Variants(); all[len(all)-1] != Generic || choose("") != all[0] || choose(Generic) != Generic ||
		choose("mmx") != all[0] {
		t.Errorf("variants %v: %s by default, %s for generic, %s for one that is not there", all, choose(""),
			choose(Generic), choose("mmx"))
	}
	t.Setenv(VariantEnv, "mmx")
	if err := CheckVariant(); err == nil || !strings.Contains(err.Error(), Generic) {
		t.Errorf("mmx: error %v, expected one that lists the variants", err)
	}
}

// TestDescriptions checks what portable code takes for granted of each variant.
func TestDescriptions(t *testing.T) {
	all := descriptions()
	for _, v := range machineVariants() {
		if _, ok := all[v]; !ok {
			t.Errorf("%s has no description", v)
		}
	}
	for v, d := range all {
		if !d.vectors || d.panel == panel {
			t.Errorf("%s: panels of %d rows are those of the portable kernels", v, d.panel)
		}
	}
	for v, d := range map[string]description{Generic: generic, AVX2: described(AVX2), AVX512: described(AVX512)} {
		if len(d.tails) == 0 || !slices.IsSorted(d.tails) || d.tails[len(d.tails)-1] != d.panel {
			t.Errorf("%s: the last of %d rows may have %v rows, expected an ascending list up to that", v, d.panel, d.tails)
		}
		if d.panels == 0 || d.panels%PanelWidth != 0 || d.tile < 1 || d.beside < 8 || d.selective < 1 || d.int8.panel < 1 ||
			4%d.int8.side != 0 {
			t.Errorf("%s: %+v", v, d)
		}
	}
}
