package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	_ "github.com/essmc/essmc/ops/essm/spectral"
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
)

// named lists the declarations of the backends and of raising that name operators in tables, switches and comparisons, and
// why that states no fact of operators. Facts stand in ir.Op, where every backend and pass finds them. In passes/raise,
// which looks for what exporters write, only tables are listed. runtime/cpu has a stricter test of its own.
var named = map[string]string{
	"runtime/lowering/branch.go branches":           runs,
	"runtime/lowering/loop.go body":                 runs,
	"runtime/lowering/loop.go origins":              pattern,
	"runtime/lowering/sequences.go resolveSequence": computes,
	"runtime/lowering/shapes.go sizes":              computes,
	"runtime/lowering/widen.go node":                rewrites,

	"runtime/lowering/internal/toy/kernels.go makers": kernels,
	"runtime/lowering/internal/toy/rows.go Looks":     kernels,

	"runtime/device/internal/toy/kernels.go records":      kernels,
	"runtime/cuda/internal/elementwise/bits.go init":      kernels,
	"runtime/cuda/internal/plain/arith.go divide":         kernels,
	"runtime/cuda/internal/plain/pool.go pool":            kernels,
	"runtime/cuda/internal/plain/range.go init":           kernels,
	"runtime/cuda/internal/plain/recurrent.go init":       kernels,
	"runtime/cuda/internal/plain/recurrent.go recurrent":  kernels,
	"runtime/cuda/internal/plain/sample.go init":          kernels,
	"runtime/cuda/internal/products/fusion.go makers":     kernels,
	"runtime/cuda/internal/products/fusion.go fuse":       pattern,
	"runtime/cuda/internal/products/fusion.go splitOf":    pattern,
	"runtime/cuda/internal/recurrence/cell.go init":       kernels,
	"runtime/cuda/internal/recurrence/cell.go buildCell":  kernels,
	"runtime/cuda/internal/recurrence/layer.go fuseLayer": pattern,
	"runtime/cuda/internal/recurrence/layer.go add":       pattern,
	"runtime/cuda/internal/rows/reduce.go init":           kernels,
	"runtime/cuda/kernel/cell_plain.go apply":             functions,

	"passes/raise/internal/regions/regions.go Boundaries":       bounds,
	"passes/raise/internal/convolution/dft.go DFT":              pattern,
	"passes/raise/internal/idiom/integers.go integerRules":      pattern,
	"passes/raise/internal/idiom/layout.go layoutRules":         pattern,
	"passes/raise/internal/idiom/norm.go normRules":             pattern,
	"passes/raise/internal/recurrence/parallel_find.go blend":   "besides sums, which Op.Linear states: the operators of a running softmax",
	"passes/raise/internal/recurrence/parallel_find.go mixes":   pattern,
	"passes/raise/internal/recurrence/parallel_find.go enter":   pattern,
	"passes/raise/internal/idiom/reverse.go stepwiseOps":        pattern,
	"passes/raise/internal/recurrence/step_find.go rearranging": pattern,
	"passes/raise/internal/recurrence/step_find.go stepwise":    pattern,
	"passes/raise/internal/recurrence/step_find.go plain":       pattern,
	"passes/raise/exported.go rearranging":                      "what package lower writes to compute a listed constant from another",
	"passes/raise/internal/convolution/toeplitz.go Toeplitz":    pattern,
}

const (
	runs      = "runs the graphs in an operator's attributes"
	computes  = "computes results of the operators that it names, from shapes and counts alone"
	rewrites  = "makes other nodes of it"
	kernels   = "registers or makes the kernels of the operators that it names"
	pattern   = "matches what exporters and passes write"
	functions = "these are functions in attributes of recurrent operators, not operators"
	bounds    = "ends a search, so that it stays short; more would be correct"
)

// TestNames finds the declarations that name operators, and compares them with the list.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, op := range ops.Default.All() {
		names[op.FullName()] = true
	}
	seen := map[string]bool{}
	for _, dir := range []string{"runtime/lowering", "runtime/device", "runtime/cuda", "passes/raise"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range f.Decls {
				tables, others := namesIn(decl, names)
				if dir == "passes/raise" {
					others = nil
				}
				if len(tables)+len(others) == 0 {
					continue
				}
				site := strings.TrimPrefix(filepath.ToSlash(path), "../../") + " " + declarationName(decl)
				seen[site] = true
				if named[site] == "" {
					t.Errorf("%s names %s. If it says something about these operators, state that in ir.Op, where all "+
						"backends and passes find it. Otherwise list it here, with the reason.",
						site, strings.Join(append(tables, others...), ", "))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for site := range named {
		if !seen[site] {
			t.Errorf("%s names no operators; it need not be listed", site)
		}
	}
}

// declarationName returns the name of a function, or of the first variable of a declaration.
func declarationName(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return "?"
}

// namesIn returns the names of operators in tables of two or more, and in switches and comparisons.
func namesIn(d ast.Decl, names map[string]bool) (tables, others []string) {
	name := func(e ast.Expr) (string, bool) {
		l, ok := e.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(l.Value)
		return s, err == nil && names[s]
	}
	add := func(to *[]string, list ...ast.Expr) {
		for _, e := range list {
			if s, ok := name(e); ok && !slices.Contains(*to, s) {
				*to = append(*to, s)
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			var list []string
			for _, e := range n.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					e = pair.Key
				}
				add(&list, e)
			}
			if len(list) > 1 {
				tables = append(tables, list...)
			}
		case *ast.CaseClause:
			add(&others, n.List...)
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				add(&others, n.X, n.Y)
			}
		}
		return true
	})
	return tables, others
}
