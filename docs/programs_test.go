package docs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/essmc/essmc/"

// programs are the Go blocks of all pages. Programs are built into one executable for all that link frontend/open or the
// command, and one for the others, so that what the second ones lack is not there by accident. A program is a package of
// its own there, whose main is the function Main. Fragments are only compiled.
type programs struct {
	t     *testing.T
	dir   string
	files map[string]string // path in the repository → path of the file that stands for it: an overlay of go build
	whole map[bool][]block  // by whether they import frontend/open
	path  map[string]string // name of a block → command line that runs it
}

// imports that fragments may use without saying so.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "io": "io", "log": "log", "os": "os", "time": "time",
	"slog": "log/slog", "fs": "io/fs", "embed": "embed",
	"cpu": module + "runtime/cpu", "cuda": module + "runtime/cuda", "libcuda": module + "runtime/cuda/driver/libcuda",
	"generate": module + "runtime/generate", "onnxgo": module + "frontend/onnxgo", "open": module + "frontend/open",
	"plan": module + "runtime/plan", "runtime": module + "runtime", "tensor": module + "ir/tensor",
	"tokenizer": module + "frontend/tokenizer", "ir": module + "ir", "ops": module + "ops",
	"kernels": module + "runtime/cpu/kernels", "kernelstest": module + "runtime/cpu/kernels/kernelstest", "testing": "testing",
	"models": module + "models", "passes": module + "passes", "match": module + "passes/match", "command": module + "cmd/essmc/command",
	"onnx": "github.com/owulveryck/onnx-go", "gorgonia": "gorgonia.org/tensor",
}

// buildPrograms compiles the Go blocks of the pages.
func buildPrograms(t *testing.T, all []block) *programs {
	t.Helper()
	p := &programs{t: t, dir: t.TempDir(), files: map[string]string{}, whole: map[bool][]block{}, path: map[string]string{}}
	fragments := 0
	for _, b := range all {
		switch {
		case b.lang != "go" || b.skip != "":
		case isProgram(b):
			p.program(b)
		default:
			p.fragment(b, fragments)
			fragments++
		}
	}
	for open, blocks := range p.whole {
		p.link(open, blocks)
	}
	if fragments > 0 {
		p.run("build", "-o", os.DevNull, "./docs/verbatim/fragments")
	}
	return p
}

func isProgram(b block) bool { return regexp.MustCompile(`(?m)^package main$`).MatchString(b.text) }

// program adds a program.
func (p *programs) program(b block) {
	if formatted, err := format.Source([]byte(b.text)); err != nil || string(formatted) != b.text {
		p.t.Errorf("%s: the program is not formatted: %v", b, err)
	}
	if strings.Contains(b.text, module+"internal/") {
		p.t.Errorf("%s: users cannot import internal packages", b)
	}
	open := strings.Contains(b.text, module+"frontend/") || strings.Contains(b.text, module+"cmd/")
	name := fmt.Sprintf("p%d", len(p.whole[open]))
	text := regexp.MustCompile(`(?m)^package main$`).ReplaceAllString(b.text, "package "+name)
	text = regexp.MustCompile(`(?m)^func main\(\)`).ReplaceAllString(text, "func Main()")
	p.write(fmt.Sprintf("docs/verbatim/%s/%s/main.go", kind(open), name), text)
	p.whole[open] = append(p.whole[open], b)
}

func kind(open bool) string {
	if open {
		return "files"
	}
	return "plans"
}

// link builds the executable of a kind of programs; its argument is the number of one.
func (p *programs) link(open bool, blocks []block) {
	var imports, table string
	exe := filepath.Join(p.dir, kind(open)+exeSuffix())
	for i, b := range blocks {
		imports += fmt.Sprintf("\t%q\n", fmt.Sprintf("%sdocs/verbatim/%s/p%d", module, kind(open), i))
		table += fmt.Sprintf("\t%q: p%d.Main,\n", fmt.Sprint(i), i)
		p.path[b.String()] = fmt.Sprintf("%s %d", exe, i)
	}
	p.write("docs/verbatim/"+kind(open)+"/main.go", "package main\n\nimport (\n\t\"os\"\n"+imports+
		")\n\nfunc main() {\n\tname := os.Args[1]\n\tos.Args = append(os.Args[:1], os.Args[2:]...)\n"+
		"\tmap[string]func(){\n"+table+"\t}[name]()\n}\n")
	p.run("build", "-o", exe, "./docs/verbatim/"+kind(open))
}

// fragment adds statements, as the body of a function whose parameters are given, or declarations.
func (p *programs) fragment(b block, i int) {
	head := "package fragments\n\n"
	text := head + b.text
	set := token.NewFileSet()
	if _, err := parser.ParseFile(set, "", text, 0); err != nil {
		params := strings.Join(strings.Split(b.given, ", "), ",\n\t")
		text = fmt.Sprintf("%sfunc _(\n\t%s,\n) error {\n%s\nreturn nil\n}\n", head, params, b.text)
		if b.given == "" {
			text = strings.Replace(text, "\n\t,\n", "\n", 1)
		}
	}
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		p.t.Errorf("%s: %v", b, err)
		return
	}
	used, defined := names(file)
	importing := ""
	for _, name := range used {
		if path := imports[name]; path != "" && !slices.Contains(defined, name) {
			importing += fmt.Sprintf("import %s %q\n", name, path)
		}
	}
	keep := ""
	for _, name := range defined {
		keep += "_ = " + name + "\n"
	}
	text = strings.Replace(text, head, head+importing, 1)
	text = strings.Replace(text, "\nreturn nil\n}\n", "\n"+keep+"return nil\n}\n", 1)
	p.write(fmt.Sprintf("docs/verbatim/fragments/f%d.go", i), fmt.Sprintf("//line %s:1\n%s", b, text))
}

// names returns the packages that a file may use, sorted, and the variables that its outermost statements define.
func names(file *ast.File) (used, defined []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				used = append(used, x.Name)
			}
		}
		return true
	})
	slices.Sort(used)
	used = slices.Compact(used)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "_" {
			continue
		}
		for _, s := range f.Body.List {
			if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				for _, x := range a.Lhs {
					if id := x.(*ast.Ident).Name; id != "_" && !slices.Contains(defined, id) {
						defined = append(defined, id)
					}
				}
			}
		}
	}
	return used, defined
}

// write adds a file to the overlay.
func (p *programs) write(path, text string) {
	file := filepath.Join(p.dir, strings.ReplaceAll(path, "/", "_"))
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		p.t.Fatal(err)
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		p.t.Fatal(err)
	}
	p.files[filepath.Join(repository, filepath.FromSlash(path))] = file
}

// run runs the go command with the overlay, in the repository.
func (p *programs) run(verb string, args ...string) {
	overlay, err := json.Marshal(map[string]any{"Replace": p.files})
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o666); err != nil {
		p.t.Fatal(err)
	}
	goBuild(p.t, append([]string{verb, "-overlay", file}, args...)...)
}

// goBuild runs the go command in the repository.
func goBuild(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
