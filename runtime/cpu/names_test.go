package cpu

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ops"
)

// kindFiles returns the files of the packages that implement kinds.
func kindFiles(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"internal/*/*.go", "internal/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	all = slices.DeleteFunc(all, func(path string) bool { return strings.HasPrefix(filepath.ToSlash(path), "internal/cputest/") })
	if len(all) < 160 {
		t.Fatalf("%d files, which is too few", len(all))
	}
	return all
}

// What the backend knows of an operator stands in its record: the operator's name occurs where that is registered, and
// nowhere else.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, op := range ops.Default.All() {
		names[op.Name], names[op.FullName()] = true, true
	}
	others := []string{
		"internal/tensors/sequences/recurrent_activation.go", // values of an attribute that are called as operators are
		"tune.go", // makes graphs of operators, and measures them
	}
	files := token.NewFileSet()
	found := 0
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(own, kindFiles(t)...) {
		if strings.HasSuffix(path, "_test.go") || slices.Contains(others, filepath.ToSlash(path)) {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name := ""
				switch f := n.Fun.(type) {
				case *ast.Ident:
					name = f.Name
				case *ast.SelectorExpr:
					name = f.Sel.Name
				}
				if name == "Register" {
					found++
					return false
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil &&
					(names[s] || strings.HasPrefix(s, "com.microsoft.")) {
					t.Errorf("%v: %q is the name of an operator, outside of a record", files.Position(n.Pos()), s)
				}
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("%d registrations, which is too few", found)
	}
}
