package house

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// evaluating are the packages whose evaluations must keep to their budget.
var evaluating = []string{"ops", "ops/std", "ops/ml", "ops/microsoft", "ops/essm", "ops/training"}

// described are the fields of ir.Op whose functions do not evaluate.
var described = []string{"Infer", "Body", "Along", "Moves", "Sums", "Cost", "Element"}

// bounded are sizes that follow from the number of axes, inputs, outputs or attributes of a node.
var bounded = regexp.MustCompile(
	`^(rank|k|count|scanned|outputs|inputs|axes|2\*axes|want|(k|rank)\+1|x\.Rank\(\)|states\+2|` +
		`k\*\(states\+1\)|p\.(states|ins|outs)(\+p\.(ins|outs))?|l\.n|code\.Inputs|small|` +
		`len\((in|shape|s|out|axes|perm|win|order|parts|given|index|want|idx|args|results|body\.Outputs|r\.shape|` +
		`(c\.Node|n)\.(Inputs|Outputs)|n\.Op\.(In|Out))\))$`)

// unbounded are the allocations that an evaluation may make beside its budget, with the reasons.
var unbounded = map[string]string{
	"ops/alloc.go":                        "charges what it allocates",
	"ops/registry.go":                     "runs when packages are initialised",
	"ops/window.go Windows":               "attributes, one number per axis",
	"ops/element.go hoist":                "operands of a node",
	"ops/std/constant.go constantValue":   "attributes, as large as they are",
	"ops/ml/labelencoder.go encoderTable": "attributes, as large as they are",
	"ops/std/reshape.go intShape":         "one number per axis",
	"ops/dims.go ConstInts":               "a constant of the graph, for inference",
	"ops/element.go elementOf":            "one expression per input",
	"ops/element.go programFor":           "a program, whose size follows from the operator; programs are cached",
}

// TestAllocations checks that functions that evaluate allocate through package ops, which charge bytes to the
// evaluation's budget: an evaluation whose size follows from data must not allocate otherwise.
func TestAllocations(t *testing.T) {
	load := loader(t, evaluating)
	type function struct {
		name string
		body ast.Node
		info *types.Info
		root bool
	}
	functions, list := map[*types.Func]*function{}, []*function(nil)
	takesContext := func(f *ast.FuncType, info *types.Info) bool {
		return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
			return info.TypeOf(p.Type).String() == "*"+module+"/ir.EvalCtx"
		})
	}
	descriptive := func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := kv.Key.(*ast.Ident)
		return ok && slices.Contains(described, key.Name)
	}
	var fset *token.FileSet
	for _, path := range evaluating {
		files, info, set := load(path)
		fset = set
		for _, f := range files {
			file := path + "/" + filepath.Base(fset.Position(f.Pos()).Filename)
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					x := &function{file + " " + d.Name.Name, d, info, takesContext(d.Type, info)}
					functions[info.Defs[d.Name].(*types.Func)] = x
					list = append(list, x)
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if l, ok := n.(*ast.FuncLit); ok && takesContext(l.Type, info) {
						list = append(list, &function{file, l, info, true})
						return false
					}
					return !descriptive(n)
				})
			}
		}
	}
	reached, checked := map[*function]bool{}, 0
	var visit func(x *function)
	visit = func(x *function) {
		file, _, _ := strings.Cut(x.name, " ")
		if reached[x] || unbounded[x.name] != "" || unbounded[file] != "" {
			return
		}
		reached[x] = true
		ast.Inspect(x.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				return !descriptive(n)
			case *ast.Ident:
				if f, ok := x.info.Uses[n].(*types.Func); ok && functions[f.Origin()] != nil {
					visit(functions[f.Origin()])
				}
			case *ast.CallExpr:
				checked++
				if what := allocates(n, x.info, bounded); what != "" {
					t.Errorf("%v: %s: %s allocates beside the evaluation's budget; use the function of package ops that takes the context",
						fset.Position(n.Pos()), x.name, what)
				}
			}
			return true
		})
	}
	for _, x := range list {
		if x.root {
			visit(x)
		}
	}
	if len(reached) < 300 || checked < 3000 {
		t.Errorf("%d functions with %d calls are checked: the walk does not reach the evaluations", len(reached), checked)
	}
}

// allocates returns the allocation that a call makes, if its size may follow from data: it is not one of the small ones.
func allocates(call *ast.CallExpr, info *types.Info, small *regexp.Regexp) string {
	const tensors = module + "/ir/tensor."
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if b, ok := info.Uses[f].(*types.Builtin); !ok || b.Name() != "make" || len(call.Args) < 2 {
			return ""
		}
		if _, ok := info.TypeOf(call.Args[0]).Underlying().(*types.Slice); !ok {
			return "" // maps and channels: hints
		}
		size := call.Args[len(call.Args)-1]
		if text := strings.ReplaceAll(types.ExprString(size), " ", ""); info.Types[size].Value == nil &&
			!small.MatchString(text) {
			return "make of size " + text
		}
	case *ast.SelectorExpr:
		o, ok := info.Uses[f.Sel].(*types.Func)
		if !ok {
			return ""
		}
		switch name := o.FullName(); name {
		case tensors + "New", tensors + "NewParts", tensors + "AlignedParts", tensors + "FromFloat64s", "slices.Repeat", "slices.Grow", "bytes.Repeat", "strings.Repeat",
			"(*" + tensors + "Tensor).Clone", "(*" + tensors + "Tensor).CloneParts", "(*" + tensors + "Tensor).Float64s", "(*" + tensors + "Tensor).Int64s",
			"(*" + tensors + "Tensor).Convert":
			return name
		case "slices.Clone":
			if s := info.TypeOf(call.Args[0]).String(); s != "[]int" && !strings.Contains(s, module+"/ir") {
				return name + " of " + s
			}
		}
	}
	return ""
}

// loader returns a function that parses and checks a package. Imports come from the compiler's export data.
func loader(t *testing.T, paths []string) func(path string) ([]*ast.File, *types.Info, *token.FileSet) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles")
	for _, p := range paths {
		cmd.Args = append(cmd.Args, module+"/"+p)
	}
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	fset, done := token.NewFileSet(), map[string]*types.Package{}
	exported := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })
	imports := importing(func(path string) (*types.Package, error) {
		if p := done[path]; p != nil {
			return p, nil
		}
		return exported.Import(path)
	})
	return func(path string) ([]*ast.File, *types.Info, *token.FileSet) {
		p := packages[module+"/"+path]
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}}
		checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		done[p.ImportPath] = checked
		return files, info, fset
	}
}

type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }
