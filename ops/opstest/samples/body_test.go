package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestBodyRefuses checks that bodies accept no inputs that their operators refuse.
func TestBodyRefuses(t *testing.T) {
	least := map[string]int{"": 200}
	for _, u := range samples.Suites() {
		u.BodyRefuses(t, least[u.Domain])
	}
}

// TestWideBody checks bodies that compute in float64.
func TestWideBody(t *testing.T) {
	least := map[string]int{"": 70, "com.microsoft": 5, "essm": 5}
	for _, u := range samples.Suites() {
		u.WideBody(t, least[u.Domain])
	}
}
