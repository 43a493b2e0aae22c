package house

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// purego calls libraries of the system without cgo. On Linux it makes programs dynamic.
const purego = "github.com/ebitengine/purego"

// TestCommandIsStatic checks that the released command needs no library of the system: purego is linked only with
// the tag cuda.
func TestCommandIsStatic(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/essmc") {
		if p.ImportPath == purego {
			t.Errorf("without the tag cuda the command links %s", purego)
		}
	}
	path := filepath.Join(t.TempDir(), "essmc")
	build := exec.Command("go", "build", "-o", path, "./cmd/essmc")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the command asks for a dynamic linker")
		}
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the command needs the libraries %q, %v", libraries, err)
	}
}
