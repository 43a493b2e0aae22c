package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the repository, seen from this one.
const root = ".."

// pages are the pages whose blocks are typed, in their order: files from the root of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	if err != nil || len(found) == 0 {
		t.Fatal("no pages:", err)
	}
	out := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, name := range found {
		out = append(out, "docs/"+name)
	}
	return out
}

// block is a fenced block of a page.
type block struct {
	page, lang string
	line       int    // number of its first line of text, from 1
	text       string // its lines, each with its end
	// skip is the reason for which the block is not typed: the mark <!-- not run: REASON --> above it.
	skip string
	// given declares the variables that a fragment of Go uses: the mark <!-- given: x T, y U --> above it.
	given string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

var mark = regexp.MustCompile(`^<!-- (not run|given): (.+) -->$`)

// blocks returns the fenced blocks of a page. A mark belongs to the next block, with nothing but empty lines between.
func blocks(page, text string) ([]block, error) {
	var out []block
	var pending block
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\n")
		if m := mark.FindStringSubmatch(line); m != nil {
			if m[1] == "given" {
				pending.given = m[2]
			} else {
				pending.skip = m[2]
			}
			continue
		}
		lang, fence := strings.CutPrefix(line, "```")
		if !fence {
			if strings.TrimSpace(line) != "" {
				pending = block{}
			}
			continue
		}
		b := pending
		b.page, b.lang, b.line = page, lang, i+2
		for i++; i < len(lines) && strings.TrimSuffix(lines[i], "\n") != "```"; i++ {
			b.text += lines[i]
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s: the block has no end", b)
		}
		out, pending = append(out, b), block{}
	}
	return out, nil
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBlocks(t *testing.T) {
	got, err := blocks("p", "a\n```sh\nls\n```\n\n<!-- not run: network -->\n\n```console\n$ a\nb\n```\n```\nx\n```\n")
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if got[0].lang != "sh" || got[0].text != "ls\n" || got[0].line != 3 || got[0].skip != "" {
		t.Errorf("%+v", got[0])
	}
	if got[1].skip != "network" || got[1].text != "$ a\nb\n" || got[2].skip != "" {
		t.Errorf("%+v %+v", got[1], got[2])
	}
	if _, err := blocks("p", "```go\nx\n"); err == nil {
		t.Error("a block without an end is accepted")
	}
}
