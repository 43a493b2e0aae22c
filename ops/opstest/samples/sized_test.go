package samples_test

import "testing"

// TestSizedBy checks the inputs of floats whose numbers determine shapes.
func TestSizedBy(t *testing.T) {
	found := map[string][]string{"": {"NonMaxSuppression"}, "com.microsoft": {"com.microsoft.Unique"},
		"essm": {"essm.Diagonalize"}}
	for _, u := range suites() {
		u.SizedBy(t, found[u.Domain])
	}
}
