package kernel

import (
	"strings"
	"testing"
)

// eachVariant runs a test once with each variant that this processor has.
func eachVariant(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	chosen := variant
	defer func() { variant = chosen }()
	for _, v := range Variants() {
		variant = v
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
