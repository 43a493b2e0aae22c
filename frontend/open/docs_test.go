package open_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentation checks that docs/embedding.md shows the examples of this package, which are compiled and run.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## From any model file\n")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(part, -1)
	if len(blocks) == 0 {
		t.Fatal("the page shows no code")
	}
	source := strings.ReplaceAll(string(examples), "\n\t", "\n")
	for _, b := range blocks {
		if !strings.Contains(source, b[1]) {
			t.Errorf("example_test.go does not hold\n%s", b[1])
		}
	}
}
