package nodetest

import (
	_ "embed"
	"strings"
)

//go:embed skips.txt
var skips string

// Skips returns the project's own list of node tests that are not run, with reasons.
func Skips() (map[string]string, error) { return ParseSkips(strings.NewReader(skips), "skips.txt") }
