package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that SECURITY.md names for its promises are there.
func TestSecurity(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+): (Test[\\w ]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 15 {
		t.Errorf("%d lists of tests, expected one for each promise", len(named))
	}
	for _, list := range named {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(list[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var source strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		for _, test := range strings.Fields(list[2]) {
			if !strings.Contains(source.String(), "func "+test+"(") {
				t.Errorf("SECURITY.md names %s of %s, which is not there", test, list[1])
			}
		}
	}
}
