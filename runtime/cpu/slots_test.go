package cpu

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Kernels read tensors in slots, whose types are settled when shapes are bound. Those that read a value as it is,
// without a known type, are listed here.
func TestKernelsReadSlots(t *testing.T) {
	datum := map[string]string{
		"internal/tensors/sequences/sequence.go": "sequences have no slots",
		"internal/tensors/models/texts.go":       "strings have no slots",
	}
	asserts := map[string]string{
		"internal/tensors/moves/move.go":     "the result of an evaluation when shapes are bound",
		"internal/tensors/integers/table.go": "an evaluation, when shapes are bound",
		"internal/tensors/models/texts.go":   "strings have no slots",
	}
	fset, found := token.NewFileSet(), map[string]bool{}
	for _, path := range kindFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.ToSlash(path)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Datum" {
					found[path] = true
					if datum[path] == "" {
						t.Errorf("%v: reads a value by Datum, expected a slot", fset.Position(n.Pos()))
					}
				}
			case *ast.TypeAssertExpr:
				p, ok := n.Type.(*ast.StarExpr)
				if !ok {
					break
				}
				if s, ok := p.X.(*ast.SelectorExpr); ok && s.Sel.Name == "Tensor" {
					found[path] = true
					if asserts[path] == "" {
						t.Errorf("%v: asserts that a value is a tensor, expected a slot", fset.Position(n.Pos()))
					}
				}
			}
			return true
		})
	}
	for _, list := range []map[string]string{datum, asserts} {
		for path := range list {
			if !found[path] {
				t.Errorf("%s is listed and does not need to be", path)
			}
		}
	}
}
