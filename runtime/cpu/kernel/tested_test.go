package kernel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the functions that tests of this package do not call by their names: parts of kernels that it tests,
// and functions that the tests of runtime/cpu and internal/golden compare with the interpreter.
var elsewhere = strings.Fields(`AddSum Cos Dots FillBytes Key32 Key64 Keys32 Keys64 MatVec MatVec32 NewBF16 NewBlocks NewInt8 Normal
Normalize Output Quads SameAnywhere ShortSoftmax Sign Sin Squares Standardize Sum64 SumPanel Tan Variant WalkSamples WalkTrees`)

// TestEachIsTested checks that a test of this package calls each exported function.
func TestEachIsTested(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	called, exported := map[string]bool{}, []string{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		test := strings.HasSuffix(path, "_test.go")
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !test && fn.Recv == nil && fn.Name.IsExported() {
				exported = append(exported, fn.Name.Name)
			}
		}
		if test {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					called[id.Name] = true
				}
				return true
			})
		}
	}
	for _, name := range exported {
		if listed := slices.Contains(elsewhere, name); called[name] == listed {
			t.Errorf("%s: called by a test: %v, listed as tested elsewhere: %v", name, called[name], listed)
		}
	}
}
