package docs

import (
	"strings"
	"testing"
)

// TestIndex checks that the index lists every page. A test of internal/house follows the links.
func TestIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		if name, ok := strings.CutPrefix(page, "docs/"); ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestREADME checks that the front page stays short, since a visitor reads no more than that.
func TestREADME(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 140 {
		t.Errorf("README.md has %d lines, more than 140", n)
	}
}
