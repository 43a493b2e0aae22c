package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestListed checks what is listed by hand: the families of models in models/families, and passes in their pipelines.
// Those that are missing there would never run.
func TestListed(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	families := read("models/families/families.go")
	portable, raising := read("passes/pass.go"), read("passes/raise/raise.go")
	counts := map[string]int{}
	for _, pattern := range []string{"models/*/*.go", "passes/*.go", "passes/raise/*.go", "passes/raise/internal/*/*.go"} {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(root, path)
			name = filepath.ToSlash(name)
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(name, "models/") && s.Sel.Name == "Register" {
						counts["families"]++
						if dir := name[:strings.LastIndex(name, "/")]; !strings.Contains(families, `"`+module+"/"+dir+`"`) {
							t.Errorf("%s registers a family: expected %s among the imports of models/families", name, dir)
						}
					}
				case *ast.ValueSpec:
					if len(n.Values) != 1 || !isPass(n.Values[0]) {
						break
					}
					counts["passes"]++
					list, in := raising, "passes/raise/raise.go"
					if !strings.HasPrefix(name, "passes/raise/") {
						_, list, _ = strings.Cut(portable, "func Pipeline()")
						list, _, _ = strings.Cut(list, "\n}")
						in = "Pipeline in passes/pass.go"
					}
					fields := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("{}, .\n\t", r) })
					if !slices.Contains(fields, n.Names[0].Name) {
						t.Errorf("%s: pass %s is not listed: expected it in %s", name, n.Names[0].Name, in)
					}
				}
				return true
			})
		}
	}
	if counts["families"] < 15 || counts["passes"] < 25 {
		t.Errorf("found %v, which is too few", counts)
	}
}

// isPass reports whether x is &Pass{…}.
func isPass(x ast.Expr) bool {
	u, ok := x.(*ast.UnaryExpr)
	if !ok {
		return false
	}
	lit, ok := u.X.(*ast.CompositeLit)
	if !ok {
		return false
	}
	switch typ := lit.Type.(type) {
	case *ast.Ident:
		return typ.Name == "Pass"
	case *ast.SelectorExpr:
		return typ.Sel.Name == "Pass"
	}
	return false
}
