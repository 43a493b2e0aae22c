package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Forms of citations. A file is cited by its path from the citing file's folder, or from a folder above that; a section of
// a page as "docs/math.md, Forms", or in a page by a link.
var (
	citedPage    = regexp.MustCompile(`[\w./-]+\.md\b`)
	citedSource  = regexp.MustCompile(`\b[\w.-]+(?:/[\w.-]+)+\.(?:go|s|sh|py|svg|txt|txtar|fbs)\b`)
	citedSection = regexp.MustCompile(`([\w./-]+\.md),\s+(\pL[^\n]*)`)
	citedLaw     = regexp.MustCompile(`\b[A-Z]{3,}\s§`)
	pageLink     = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	pageHeading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	fencedCode   = regexp.MustCompile("(?ms)^```.*?^```")
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
)

// elsewhere are files of other projects.
var elsewhere = map[string]bool{"onnx/docs/Syntax.md": true}

// page is a page of documentation.
type page struct {
	titles  []string
	anchors map[string]bool
}

func readPage(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{anchors: map[string]bool{"": true}}
	for _, m := range pageHeading.FindAllStringSubmatch(fencedCode.ReplaceAllString(string(text), ""), -1) {
		p.titles = append(p.titles, m[1])
		p.anchors[anchor(m[1])] = true
	}
	return p
}

// anchor is the fragment by which a heading is linked to, as hosts of repositories make it.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// cites reports whether text begins with a title, and goes on with no further letter.
func (p *page) cites(text string) bool {
	for _, title := range p.titles {
		if rest, ok := strings.CutPrefix(text, title); ok && (rest == "" || !unicode.IsLetter([]rune(rest)[0])) {
			return true
		}
	}
	return false
}

// TestCitations checks that whatever a comment or a page refers its reader to is there: files of the tree, sections of
// pages, and no document that is kept elsewhere.
func TestCitations(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := map[string]*page{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (d.Name() == ".git" || d.Name() == "fuzz") {
				return filepath.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		c := &citing{t: t, root: root, file: rel, pages: pages}
		switch path.Ext(rel) {
		case ".go":
			c.source()
		case ".md":
			c.page()
		case ".py", ".sh", ".s", ".txtar":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			c.sections(string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// citing is a file whose citations are followed.
type citing struct {
	t     *testing.T
	root  string
	file  string
	pages map[string]*page
}

// find gives the path, from the root, of a cited file; "" where there is none.
func (c *citing) find(cited string) string {
	for folder := path.Dir(c.file); ; folder = path.Dir(folder) {
		name := path.Join(folder, cited)
		if _, err := os.Stat(filepath.Join(c.root, filepath.FromSlash(name))); err == nil {
			return name
		}
		if folder == "." {
			return ""
		}
	}
}

func (c *citing) titles(file string) *page {
	if c.pages[file] == nil {
		c.pages[file] = readPage(c.t, filepath.Join(c.root, filepath.FromSlash(file)))
	}
	return c.pages[file]
}

// files follows citations of whole files.
func (c *citing) files(text string) {
	for _, pattern := range []*regexp.Regexp{citedPage, citedSource} {
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			cited := text[at[0]:at[1]]
			if strings.HasSuffix(text[:at[0]], "://") || strings.HasSuffix(text[:at[0]], "//") || elsewhere[cited] {
				continue
			}
			if c.find(strings.TrimPrefix(cited, "./")) == "" {
				c.t.Errorf("%s cites %s, which is not in the tree", c.file, cited)
			}
		}
	}
}

// sections follows citations of sections, as "docs/math.md, Forms".
func (c *citing) sections(text string) {
	for _, m := range citedSection.FindAllStringSubmatch(text, -1) {
		file := c.find(m[1])
		if file == "" || !unicode.IsUpper([]rune(m[2])[0]) {
			continue // files finds the one; the other goes on with the sentence
		}
		if !c.titles(file).cites(m[2]) {
			c.t.Errorf("%s cites %s, %.40s: there is no such section", c.file, m[1], m[2])
		}
	}
	for _, law := range citedLaw.FindAllString(text, -1) {
		c.t.Errorf("%s cites %s, which is not in the tree", c.file, law)
	}
}

// source follows the citations of a Go file: of its comments, and sections in its texts as well.
func (c *citing) source() {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, filepath.Join(c.root, filepath.FromSlash(c.file)), nil,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.t.Errorf("%s: %v", c.file, err)
		return
	}
	for _, group := range f.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		c.files(text)
		c.sections(text)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			c.sections(strings.Join(strings.Fields(l.Value), " "))
		}
		return true
	})
}

// page follows the citations and links of a page.
func (c *citing) page() {
	b, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(c.file)))
	if err != nil {
		c.t.Fatal(err)
	}
	text := fencedCode.ReplaceAllString(string(b), "")
	c.files(text)
	c.sections(text)
	for _, m := range pageLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(text, "``"), -1) {
		if strings.Contains(m[1], ":") {
			continue
		}
		file, fragment, _ := strings.Cut(m[1], "#")
		if file == "" {
			file = path.Base(c.file)
		}
		found := c.find(file)
		if found == "" {
			c.t.Errorf("%s links to %s, which is not in the tree", c.file, m[1])
		} else if strings.HasSuffix(found, ".md") && !c.titles(found).anchors[fragment] {
			c.t.Errorf("%s links to %s: there is no such section", c.file, m[1])
		}
	}
}
