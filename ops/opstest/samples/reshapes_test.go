package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestReshapes checks which operators only change the shape.
func TestReshapes(t *testing.T) {
	for _, u := range samples.Suites() {
		u.Reshapes(t)
	}
}
