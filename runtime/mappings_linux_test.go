package runtime_test

import (
	"os"
	"strings"
	"testing"
)

// mappings counts how often this process has a file in memory.
func mappings(t *testing.T, path string) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), path)
}
