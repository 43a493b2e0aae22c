package house

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/essmc/essmc"

// packages is the table of ARCHITECTURE.md: the imports that a package may have, besides the standard library. A
// package imports only from rows above its own. Packages below an internal folder belong to the row of the folder's
// parent, unless they have one.
var packages = []struct {
	pkg     string
	imports []string
}{
	{"internal/fault", nil},
	{"internal/faults", []string{"internal/fault"}},
	{"internal/files", []string{"internal/fault"}},
	{"internal/ends", nil},
	{"ir/tensor", nil},
	{"ir/scalar", []string{"ir/tensor"}},
	{"ir", []string{"internal/fault", "ir/tensor", "ir/scalar"}},
	{"internal/archive", nil},
	{"internal/atomicfile", []string{"internal/files"}},
	{"internal/lfs", nil},
	{"internal/ram", []string{"golang.org/x/sys"}},
	{"internal/sbom", nil},
	{"internal/shared", nil},
	{"internal/spell", nil},
	{"internal/patterns", []string{"internal/spell", "ir/tensor"}},
	{"internal/philox", nil},
	{"internal/race", nil},
	{"internal/worktime", nil},
	{"ir/irtext", []string{"internal/ends", "internal/files", "internal/patterns", "ir", "ir/tensor", "internal/atomicfile", "internal/lfs"}},
	{"ir/irview", []string{"ir", "ir/tensor"}},
	{"ops", []string{"ir", "ir/scalar", "ir/tensor"}},
	{"ops/fft", nil},
	{"ops/eval", []string{"ir", "ir/tensor", "ops"}},
	{"ops/opstest", []string{"internal/shared", "ir", "ir/scalar", "ir/tensor", "ops", "ops/eval",
		"google.golang.org/protobuf"}},
	{"ops/opstest/samples", []string{"ir", "ir/tensor", "ops", "ops/opstest"}},
	{"ops/std", []string{"ir", "ir/scalar", "ir/tensor", "ops", "ops/fft", "golang.org/x/image"}},
	{"ops/ml", []string{"ir", "ir/scalar", "ir/tensor", "ops", "ops/std"}},
	{"ops/training", []string{"ir", "ir/tensor", "ops", "ops/std"}},
	{"ops/microsoft", []string{"ir", "ir/scalar", "ir/tensor", "ops", "ops/std", "ops/fft"}},
	{"ops/essm", []string{"ir", "ir/scalar", "ir/tensor", "ops", "ops/fft", "ops/std", "internal/philox"}},
	{"ops/essm/spectral", []string{"ir", "ir/tensor", "ops", "ops/essm", "gonum.org/v1/gonum"}},
	{"ops/essm/modes", []string{"ir", "ir/tensor", "ops", "ops/eval", "ops/essm", "ops/essm/spectral", "gonum.org/v1/gonum"}},
	{"passes/match", []string{"ir"}},
	{"passes/stepgraph", []string{"ir", "ir/tensor", "ops"}},
	{"passes", []string{"ir", "ir/tensor", "ops", "ops/eval", "ops/std", "ops/essm", "ops/essm/spectral", "passes/match"}},
	{"passes/grad", []string{"ir", "ir/scalar", "ops", "ops/std", "ops/essm"}},
	{"passes/lower", []string{"ir", "ir/irtext", "ir/tensor", "ops", "ops/essm", "passes"}},
	{"passes/raise", []string{"passes/lower", "ir", "ir/irtext", "ir/tensor", "ops", "ops/eval", "ops/std", "ops/essm",
		"ops/essm/spectral", "ops/microsoft", "passes", "passes/match", "gonum.org/v1/gonum"}},
	{"models/config", []string{"internal/spell"}},
	{"models", []string{"internal/ends", "internal/patterns", "internal/spell", "ir", "ir/tensor", "ops", "models/config"}},
	{"models/essm", []string{"internal/spell", "ir", "ir/tensor", "ops/std", "ops/essm", "ops/essm/spectral",
		"models", "models/config"}},
	{"models/backbone", []string{"ir", "ir/tensor", "ops/std", "ops/essm", "models", "models/config"}},
	{"models/dss", []string{"ir", "models", "models/config", "models/backbone", "ops/essm/spectral"}},
	{"models/s4", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone", "ops/essm/spectral"}},
	{"models/lstm", []string{"ir", "models", "models/config", "models/backbone"}},
	{"models/transformer", []string{"ir", "models", "models/config", "models/backbone"}},
	{"models/flax", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/s5", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone", "models/flax",
		"ops/essm/spectral"}},
	{"models/lru", []string{"ir", "models", "models/config", "models/backbone", "models/flax"}},
	{"models/cdil", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/ckconv", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/fnet", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/lra", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/mamba", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/minrnn", []string{"ir", "ir/tensor", "models", "models/config", "models/backbone"}},
	{"models/families", []string{"models/cdil", "models/ckconv", "models/dss", "models/essm", "models/fnet", "models/lra", "models/lru",
		"models/lstm", "models/mamba", "models/minrnn", "models/s4", "models/s5", "models/transformer"}},
	{"frontend/arrays", []string{"internal/files", "ir/tensor", "internal/atomicfile", "internal/lfs"}},
	{"frontend/checkpoint/safetensors", []string{"internal/ends", "internal/files", "ir/tensor", "internal/atomicfile", "internal/lfs"}},
	{"frontend/checkpoint/torchfile", []string{"internal/ends", "internal/files", "ir/tensor", "internal/lfs"}},
	{"frontend/checkpoint/torchfile/torchtest", []string{"ir/tensor"}},
	{"frontend/checkpoint/flaxfile", []string{"internal/ends", "internal/files", "ir/tensor", "internal/lfs"}},
	{"frontend/checkpoint", []string{"internal/ends", "internal/files", "ir", "ir/tensor", "ops", "ops/essm", "models",
		"models/config", "models/essm", "models/families", "internal/atomicfile", "internal/lfs", "internal/spell", "frontend/checkpoint/safetensors",
		"frontend/checkpoint/torchfile", "frontend/checkpoint/flaxfile", "github.com/goccy/go-yaml"}},
	{"frontend/tokenizer", []string{"internal/files", "internal/lfs", "ir/tensor", "golang.org/x/text"}},
	{"train/data", []string{"internal/ends", "internal/files", "internal/lfs", "internal/philox", "ir/tensor", "frontend/arrays",
		"frontend/tokenizer"}},
	{"train/data/audio", []string{"internal/files", "ir/tensor", "ops/fft", "frontend/arrays", "train/data"}},
	{"train/data/synthetic", []string{"internal/philox", "ir/tensor", "train/data"}},
	{"train/data/parquet", []string{"internal/files", "ir/tensor", "train/data", "github.com/parquet-go/parquet-go"}},
	{"runtime/plan", []string{"internal/ends", "internal/files", "ir", "ir/tensor", "internal/atomicfile", "internal/lfs",
		"runtime/plan/internal/fb", "github.com/google/flatbuffers", "golang.org/x/sys"}},
	{"runtime", []string{"internal/files", "internal/spell", "ir", "ir/tensor", "ops", "passes/stepgraph", "runtime/plan"}},
	{"runtime/generate", []string{"ir", "ir/tensor", "passes/stepgraph", "runtime"}},
	{"runtime/ref", []string{"internal/ram", "ir", "ir/tensor", "ops", "ops/eval", "ops/std", "ops/essm", "runtime"}},
	{"passes/passtest", []string{"ir", "ir/tensor", "ir/irtext", "ops", "passes", "runtime", "runtime/ref",
		"golang.org/x/tools"}},
	{"runtime/cpu/kernel", []string{"golang.org/x/sys"}},
	{"runtime/lowering", []string{"internal/ram", "ir", "ir/scalar", "ir/tensor", "ops", "ops/eval", "ops/essm",
		"runtime"}},
	{"runtime/cpu", []string{"internal/ram", "internal/worktime", "ir", "ir/scalar", "ir/tensor", "ops", "ops/eval",
		"ops/ml", "ops/std", "ops/essm", "runtime", "runtime/lowering", "runtime/cpu/kernel"}},
	{"runtime/cpu/kernels", []string{"ir", "ir/tensor", "ops", "runtime", "runtime/plan", "runtime/lowering", "runtime/cpu/internal/record"}},
	{"runtime/cpu/kernels/kernelstest", []string{"ir", "ir/tensor", "ops", "runtime", "runtime/ref", "runtime/cpu"}},
	{"runtime/device", []string{"ir", "ir/scalar", "ir/tensor", "ops", "ops/essm", "runtime", "runtime/lowering"}},
	{"runtime/cuda/driver", nil},
	{"runtime/cuda/driver/libcuda", []string{"runtime/cuda/driver", purego, "golang.org/x/sys"}},
	{"runtime/cuda/ptx", nil},
	{"runtime/cuda/kernel", []string{"ir/scalar", "ir/tensor", "ops/fft", "runtime/cuda/driver", "runtime/cuda/ptx"}},
	{"runtime/cuda/emu", []string{"runtime/cuda/driver"}},
	{"runtime/cuda", []string{"internal/race", "ir", "ir/scalar", "ir/tensor", "ops", "ops/essm", "ops/std", "runtime", "runtime/lowering",
		"runtime/device", "runtime/cuda/driver", "runtime/cuda/emu", "runtime/cuda/ptx", "runtime/cuda/kernel"}},
	{"runtime/backendtest", []string{"internal/race", "internal/shared", "internal/worktime", "ir", "ir/scalar", "ir/tensor", "ir/irtext", "ops", "ops/opstest",
		"ops/opstest/samples", "ops/std", "ops/ml", "ops/training", "ops/microsoft", "ops/essm", "passes", "models",
		"models/families", "frontend/arrays", "frontend/checkpoint", "frontend/checkpoint/safetensors", "runtime",
		"runtime/ref",
		"golang.org/x/tools"}},
	{"runtime/cpu/internal/cputest", []string{"ir", "ir/irtext", "ir/tensor", "ops", "runtime", "runtime/backendtest",
		"runtime/ref"}},
	{"frontend/onnx", []string{"internal/ends", "internal/files", "internal/patterns", "ir", "ir/tensor", "ops", "ops/std", "internal/atomicfile",
		"internal/lfs", "google.golang.org/protobuf"}},
	{"frontend/onnx/nodetest", []string{"internal/files", "ir", "ir/tensor", "frontend/onnx", "runtime"}},
	{"frontend/open", []string{"internal/ends", "internal/files", "internal/patterns", "internal/spell", "ir", "ir/irtext", "ir/tensor", "models/config", "ops", "ops/std", "ops/ml", "ops/training",
		"ops/microsoft", "ops/essm", "passes", "passes/raise", "passes/stepgraph", "models", "frontend/checkpoint", "frontend/onnx",
		"runtime", "runtime/plan", "runtime/cpu", "golang.org/x/image"}},
	{"train/schedule", nil},
	{"train/optim", []string{"ir", "ir/scalar", "ops"}},
	{"train/recipe", []string{"internal/files", "internal/spell", "train/optim", "train/schedule",
		"github.com/goccy/go-yaml"}},
	{"train/runs", []string{"internal/files", "internal/atomicfile", "ir/tensor", "models", "frontend/checkpoint",
		"frontend/checkpoint/safetensors"}},
	{"train", []string{"internal/patterns", "ir", "ir/scalar", "ir/tensor", "ops", "passes", "passes/grad", "runtime",
		"train/optim", "train/schedule"}},
	{"serve/queue", []string{"ir", "ir/tensor", "ops", "runtime"}},
	{"serve", []string{"internal/files", "internal/spell", "ir", "ir/tensor", "frontend/checkpoint", "frontend/open", "runtime",
		"runtime/cpu", "serve/queue", "google.golang.org/grpc", "google.golang.org/protobuf", "github.com/prometheus/client_golang",
		"github.com/goccy/go-yaml"}},
	{"frontend/onnxgo", []string{"ir", "ir/tensor", "ops", "frontend/open", "runtime", "github.com/owulveryck/onnx-go",
		"gorgonia.org/tensor", "gonum.org/v1/gonum", "go4.org/unsafe/assume-no-moving-gc"}},
	{"docs", nil},
	{"docs/service", []string{"ir", "ir/tensor", "runtime", "runtime/cpu"}},
	{"docs/examples/embeddings", []string{"ir/tensor", "frontend/open", "frontend/tokenizer", "runtime"}},
	{"docs/examples/classify", []string{"ir/tensor", "frontend/open", "frontend/tokenizer", "runtime"}},
	{"internal/hostile", nil},
	{"internal/promises", []string{"internal/files", "runtime/cpu/kernel"}},
	{"internal/golden", nil},
	{"internal/graphfuzz", []string{"*"}},
	{"cmd/essmc/command", []string{"*"}},
	{"cmd/essmc", []string{"cmd/essmc/command"}},
	{"bench", nil},
}

// light is what a service that embeds the runtime links, and nothing else: modules by their paths.
var light = []string{"github.com/google/flatbuffers", "golang.org/x/sys"}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
	Module     *struct{ Path string }
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard,Module"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// rowOf returns the row of a package: its own, or the row of the package whose internal folder it is in.
func rowOf(pkg string) int {
	above, _, _ := strings.Cut(pkg, "/internal/")
	at := -1
	for i, r := range packages {
		switch r.pkg {
		case pkg:
			return i
		case above:
			at = i
		}
	}
	return at
}

func TestImports(t *testing.T) {
	standard := map[string]bool{}
	for _, p := range list(t, "std") {
		standard[p.ImportPath] = true
	}
	for _, p := range append(list(t, "./..."), list(t, "-tags", "cuda", "./...")...) {
		pkg := strings.TrimPrefix(p.ImportPath, module+"/")
		if pkg == "internal/house" {
			continue
		}
		i := rowOf(pkg)
		if i < 0 {
			t.Errorf("package %s is not in the table of packages (here, and in ARCHITECTURE.md)", pkg)
			continue
		}
		for _, path := range p.Imports {
			if standard[path] || path == "C" {
				continue
			}
			own, inside := strings.CutPrefix(path, module+"/")
			if inside && rowOf(own) == i {
				continue
			}
			if own == "runtime/cuda/emu" && pkg != "runtime/cuda/internal/kerneltest" {
				t.Errorf("%s imports the emulator, which is only for tests", pkg)
			}
			if inside && rowOf(own) > i {
				t.Errorf("%s imports %s, which is in a later row", pkg, own)
			}
			allowed := slices.ContainsFunc(packages[i].imports, func(a string) bool {
				return a == "*" || inside && a == own || !inside && (path == a || strings.HasPrefix(path, a+"/"))
			})
			if !allowed {
				t.Errorf("%s imports %s, which its row does not list", pkg, path)
			}
		}
	}
}

func TestTableInArchitecture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range packages {
		if !bytes.Contains(text, []byte("| `"+r.pkg+"` |")) {
			t.Errorf("ARCHITECTURE.md has no row for %s", r.pkg)
		}
	}
}

// TestRuntimeIsLight checks the modules that services link: services that run plans on the CPU, and on a card, which
// need purego only with the build tag cuda.
func TestRuntimeIsLight(t *testing.T) {
	driver := []string{"./runtime", "./runtime/cuda", "./runtime/cuda/driver/libcuda"}
	for _, service := range []struct {
		tags     string
		packages []string
		also     string // a module that it links besides those of light
	}{
		{"", []string{"./runtime", "./runtime/cpu"}, ""},
		{"", driver, ""},
		{"cuda", driver, "github.com/ebitengine/purego"},
	} {
		purego := false
		for _, p := range list(t, append([]string{"-deps", "-tags", service.tags}, service.packages...)...) {
			if p.Standard || p.Module == nil || p.Module.Path == module {
				if strings.HasPrefix(p.ImportPath, module+"/passes/match") || p.ImportPath == module+"/ops/essm/spectral" {
					t.Errorf("%v link %s", service.packages, p.ImportPath)
				}
				continue
			}
			purego = purego || p.Module.Path == service.also
			if !slices.Contains(light, p.Module.Path) && p.Module.Path != service.also {
				t.Errorf("%v, with tags %q, link %s, of module %s", service.packages, service.tags, p.ImportPath, p.Module.Path)
			}
		}
		if service.also != "" && runtime.GOOS == "linux" && !purego {
			t.Errorf("with tags %q, %s is not linked: SECURITY.md says that it is", service.tags, service.also)
		}
	}
}

// TestTestsOnly checks that the command links none of the modules that ARCHITECTURE.md lists for tests only.
func TestTestsOnly(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var only []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok && strings.Contains(line, "(tests only)") {
			name, _, _ := strings.Cut(rest, "`")
			only = append(only, name)
		}
	}
	if !slices.Contains(only, "github.com/dlclark/regexp2") {
		t.Errorf("modules for tests only: found %q, expected regexp2 among them", only)
	}
	for _, p := range list(t, "-deps", "./cmd/essmc", "./frontend/open", "./frontend/onnxgo") {
		if p.Module != nil && slices.Contains(only, p.Module.Path) {
			t.Errorf("%s is linked, of module %s, which is for tests only", p.ImportPath, p.Module.Path)
		}
	}
}
