package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onFiles are the functions of package os that internal/files stands for.
var onFiles = []string{"Open", "OpenFile", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir", "Stat", "Lstat",
	"Rename", "Remove", "RemoveAll", "Mkdir", "MkdirAll", "MkdirTemp", "OpenRoot", "DirFS", "Truncate", "Chmod", "Link",
	"Symlink", "CopyFS", "OpenInRoot"}

// ownFiles are the packages that use package os for files, with the reasons.
var ownFiles = map[string]string{
	"internal/files":              "stands for it",
	"internal/ram":                "reads files of the system, and has a default",
	"internal/archive":            "a command for releases",
	"internal/sbom":               "a command for releases",
	"internal/shared":             "for tests",
	"ops/opstest":                 "for tests",
	"passes/passtest":             "for tests",
	"runtime/backendtest":         "for tests",
	"runtime/cuda/internal/ptxas": "for tests",
	"frontend/onnx/nodetest":      "for tests; folders of cases as an fs.FS",
	"docs/examples/embeddings":    "for programs outside the module to copy",
	"docs/examples/classify":      "for programs outside the module to copy",
}

// TestFilesOpenThroughOnePackage checks that files are opened through internal/files, where tests let each call fail.
func TestFilesOpenThroughOnePackage(t *testing.T) {
	root := filepath.Join("..", "..")
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
				slices.Contains([]string{"testdata", "bench"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "os" || !slices.Contains(onFiles, s.Sel.Name) {
				return true
			}
			if used[dir] = true; ownFiles[dir] == "" {
				t.Errorf("%s uses os.%s; files are opened through internal/files", path, s.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range ownFiles {
		if !used[dir] {
			t.Errorf("%s does not use package os for files: take it off the list", dir)
		}
	}
}
