package cpu

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ops"
)

// What the backend knows of an operator stands in its record: the operator's name occurs where that is registered, and nowhere
// else.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, op := range ops.Default.All() {
		names[op.Name], names[op.FullName()] = true, true
	}
	others := []string{
		"tensor_recurrent_activation.go", // values of an attribute that are called as operators are
		"tune.go",                        // makes graphs of operators, and measures them
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	found := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") || slices.Contains(others, e.Name()) {
			continue
		}
		f, err := parser.ParseFile(files, e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"register", "registerElementwise"}, f.Name) {
					found++
					return false
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && (names[s] || strings.HasPrefix(s, "com.microsoft.")) {
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
