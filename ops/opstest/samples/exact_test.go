package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest/samples"
)

// exactOnSamples are operators that only look exact.
var exactOnSamples = map[string]map[string]string{
	"com.microsoft": {"com.microsoft.RelativePositionBias": "rounding may choose another element of the table"},
}

// TestExact checks which operators return results that need no rounding, and looks for others.
func TestExact(t *testing.T) {
	least := map[string]int{"": 40, "com.microsoft": 4}
	for _, u := range samples.Suites() {
		u.Exact(t, least[u.Domain], exactOnSamples[u.Domain])
	}
}
