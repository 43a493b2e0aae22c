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
	"slices"
	"strings"
	"testing"
)

// evaluating are the packages whose evaluations must keep to their budget.
var evaluating = []string{"ops", "ops/std", "ops/std/internal/picture", "ops/ml", "ops/microsoft", "ops/essm", "ops/training"}

// described are the fields of ir.Op whose functions do not evaluate.
var described = []string{"Infer", "Body", "Along", "Moves", "Sums", "Cost", "Element"}

// unbounded are the allocations that an evaluation may make beside its budget, with the reasons.
var unbounded = map[string]string{
	"ops/alloc.go":                        "charges what it allocates",
	"ops/registry.go":                     "runs when packages are initialised",
	"ops/window.go Windows":               "attributes, one number per axis",
	"ops/element.go hoist":                "operands of a node",
	"ops/std/constant.go constantValue":   "attributes, as large as they are",
	"ops/ml/labelencoder.go encoderTable": "attributes, as large as they are",
	"ops/dims.go ConstInts":               "a constant of the graph, for inference",
	"ops/element.go elementOf":            "one expression per input",
	"ops/element.go programFor":           "a program, whose size follows from the operator; programs are cached",
}

// few are sizes that follow from the graph although their types do not show it: functions, sizes and what bounds them.
var few = map[string]string{
	"ops/broadcast.go Broadcast: rank":              "axes",
	"ops/broadcast.go BroadcastStrides: len(out)":   "axes",
	"ops/broadcast.go Strides: len(shape)":          "axes",
	"ops/broadcast.go Walk: rank":                   "axes",
	"ops/dims.go AxesOf: min(len(axes),rank+1)":     "axes",
	"ops/element.go evaluate: small":                "operands of a node",
	"ops/element.go operands: slices.Grow":          "inputs",
	"ops/element.go newRepeater: len(r.shape)":      "axes",
	"ops/essm/embedding.go TokenError: len(shape)":  "axes",
	"ops/ml/featurevectorizer.go: len(in)":          "inputs",
	"ops/std/affinegrid.go: k":                      "2 or 3",
	"ops/std/col2im.go evalCol2Im: k":               "axes, which it charges",
	"ops/std/controlflow.go newStacks: outputs":     "outputs",
	"ops/std/conv.go convolve: len(win)":            "axes",
	"ops/std/convtranspose.go spreadOver: len(win)": "axes",
	"ops/std/convtranspose.go spreads: k":           "axes",
	"ops/std/convtranspose.go tapPlaces: k":         "axes, which Col2Im charges",
	"ops/std/deformconv.go evalDeformConv: k":       "axes",
	"ops/std/einsum.go einsumSum: len(order)":       "letters of an attribute",
	"ops/std/einsum.go einsumSum: len(parts)":       "inputs",
	"ops/std/concat.go: len(in)":                    "inputs",
	"ops/std/einsum.go evalEinsum: len(in)":         "inputs",
	"ops/std/einsum.go evalEinsum: len(order)":      "letters of an attribute",
	"ops/std/maxunpool.go: len(shape)":              "axes",
	"ops/std/pool.go each: k":                       "axes",
	"ops/std/recurrent.go readRecurrent: len(want)": "eight inputs",
	"ops/std/reduce.go reduceAxes: rank":            "axes",
	"ops/std/reshape.go: len(shape)":                "axes",
	"ops/std/resize.go nearestAxes: len(shape)":     "axes",
	"ops/std/resize.go pickNearest: rank":           "axes",
	"ops/std/resize.go resamplings: len(axes)":      "axes",
	"ops/std/resize.go resizeAxes: len(given)":      "axes, which AxesOf has checked",
	"ops/std/resize.go resizeAxes: rank":            "axes",
	"ops/std/scan.go planScan: l.n":                 "inputs or outputs",
	"ops/std/scan8.go evalScan8: p.states+p.ins":    "inputs",
	"ops/std/scan8.go evalScan8: p.states+p.outs":   "outputs of the body",
	"ops/std/scan8.go scanSample: p.states":         "inputs",
	"ops/std/sequence.go: len(results)":             "outputs of the body",
	"ops/std/split.go: count":                       "outputs",
	"ops/std/transpose.go permOf: rank":             "axes",
	"ops/std/transpose.go: len(perm)":               "axes",
	"ops/training/training.go: states+2":            "at most four",
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
	reached, used, checked := map[*function]bool{}, map[string]bool{}, 0
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
				if what := allocates(n, x.info); what != "" && !exempt(few, x.name, what, used) {
					t.Errorf("%v: %s: %s allocates beside the evaluation's budget; use the function of package ops that takes the context",
						fset.Position(n.Pos()), x.name, what)
				}
				if what := forgets(n, x.info); what != "" {
					t.Errorf("%v: %s: %s without the evaluation's context", fset.Position(n.Pos()), x.name, what)
				}
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && isFunc(x.info, f.Sel, module+"/ops.Walk") {
					ast.Inspect(n, func(n ast.Node) bool {
						if f, ok := n.(*ast.Ident); ok && f.Name == "append" {
							t.Errorf("%v: %s: append for each offset; use ops.Make", fset.Position(n.Pos()), x.name)
						}
						return true
					})
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
	for name := range few {
		if !used[name] {
			t.Errorf("%s is not allocated: the exception is not needed", name)
		}
	}
	if len(reached) < 300 || checked < 3000 {
		t.Errorf("%d functions with %d calls are checked: the walk does not reach the evaluations", len(reached), checked)
	}
}

// allocates returns the allocation that a call makes, unless its size follows from the graph by its type.
func allocates(call *ast.CallExpr, info *types.Info) string {
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
		if !ofGraph(size, info) {
			return "make of size " + strings.ReplaceAll(types.ExprString(size), " ", "")
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

// parts are types of which a graph or a program has a bounded number: slices of them never follow from data.
var parts = []string{"ir.Value", "ir.Node", "ir.Param", "ir.Dim", "ir.Type", "ir.Fact", "ir/scalar.Instr", "runtime/lowering.Step",
	"runtime/lowering.Value", "runtime/lowering.Operand"}

// ofGraph reports whether a size is bounded by the number of nodes, values, inputs, outputs or axes of a graph, because of
// the types in it. Names of variables do not count: they say nothing about what is in them.
func ofGraph(size ast.Expr, info *types.Info) bool {
	if info.Types[size].Value != nil {
		return true
	}
	switch e := size.(type) {
	case *ast.ParenExpr:
		return ofGraph(e.X, info)
	case *ast.BinaryExpr:
		return (e.Op == token.ADD || e.Op == token.SUB || e.Op == token.MUL && (info.Types[e.X].Value != nil || info.Types[e.Y].Value != nil)) &&
			ofGraph(e.X, info) && ofGraph(e.Y, info)
	case *ast.CallExpr:
		switch f := e.Fun.(type) {
		case *ast.SelectorExpr:
			o, ok := info.Uses[f.Sel].(*types.Func)
			return ok && o.FullName() == "(*"+module+"/ir/tensor.Tensor).Rank"
		case *ast.Ident:
			b, ok := info.Uses[f].(*types.Builtin)
			if ok && (b.Name() == "max" || b.Name() == "min") {
				return !slices.ContainsFunc(e.Args, func(a ast.Expr) bool { return !ofGraph(a, info) })
			}
			return ok && b.Name() == "len" && countsParts(e.Args[0], info)
		}
	}
	return false
}

// countsParts reports whether a slice has one element for each part of a graph, or for each axis of a tensor.
func countsParts(list ast.Expr, info *types.Info) bool {
	if call, ok := list.(*ast.CallExpr); ok {
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && isFunc(info, f.Sel, "(*"+module+"/ir/tensor.Tensor).Shape")
	}
	s, ok := info.TypeOf(list).Underlying().(*types.Slice)
	if !ok {
		return false
	}
	name := strings.TrimPrefix(strings.TrimPrefix(s.Elem().String(), "*"), module+"/")
	return slices.Contains(parts, name)
}

// exempt reports whether a table of reasons has an allocation of a function, and notes that the exception is used.
func exempt(table map[string]string, function, what string, used map[string]bool) bool {
	name := function + ": " + strings.TrimPrefix(what, "make of size ")
	used[name] = true
	return table[name] != ""
}

// forgets returns the function of package ops that a call gives nil in place of the evaluation's context.
func forgets(call *ast.CallExpr, info *types.Info) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	o, ok := info.Uses[f.Sel].(*types.Func)
	if !ok || o.Pkg() == nil || o.Pkg().Path() != module+"/ops" || !info.Types[call.Args[0]].IsNil() {
		return ""
	}
	if p := o.Signature().Params(); p.Len() == 0 || p.At(0).Type().String() != "*"+module+"/ir.EvalCtx" {
		return ""
	}
	return o.Name()
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
