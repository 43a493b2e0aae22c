// Package ptxas assembles kernels for cards with NVIDIA's assembler. Tests use it to check the PTX of kernels, and
// to learn how many registers and how much memory each kernel takes. No card is needed. The environment variable
// ESSMC_PTXAS gives the program's path, or it is on PATH; PyPI's package nvidia-cuda-nvcc-cu12 contains it.
//
// The package imports only the standard library. Results are cached below the user's cache directory.
package ptxas

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Variable is the environment variable with the assembler's path.
const Variable = "ESSMC_PTXAS"

// Archs are the cards that kernels are assembled for: one of each generation, and its variants.
var Archs = []string{"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}

// Assembler is an assembler that exists on this machine.
type Assembler struct {
	path, version string
	cache         string // folder; "" for no cache
}

// Find returns the assembler, or an error that says why there is none.
func Find() (*Assembler, error) {
	path := os.Getenv(Variable)
	if path == "" {
		var err error
		if path, err = exec.LookPath("ptxas"); err != nil {
			return nil, errors.New("no ptxas on the path, and " + Variable + " is not set " +
				"(pip install nvidia-cuda-nvcc-cu12 installs one)")
		}
	}
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &Assembler{path: path, version: string(out)}
	if dir, err := os.UserCacheDir(); err == nil {
		a.cache = filepath.Join(dir, "essmc", "ptxas")
		if os.MkdirAll(a.cache, 0o777) != nil {
			a.cache = ""
		}
	}
	return a, nil
}

// Report has the resources that a kernel uses on a card.
type Report struct {
	Kernel, Arch string
	Registers    int // of a thread
	Stack        int // bytes of local memory of a thread
	Stores       int // bytes of spilled registers that a thread stores
	Loads        int // bytes of spilled registers that a thread loads
	Shared       int // bytes of a block, that the kernel declares
}

// Spills reports whether registers are spilled to memory.
func (r Report) Spills() bool { return r.Stores+r.Loads > 0 }

func (r Report) String() string {
	return fmt.Sprintf("%s on %s: %d registers, %d bytes of stack, %d bytes stored and %d loaded of spilled registers, "+
		"%d bytes of shared memory", r.Kernel, r.Arch, r.Registers, r.Stack, r.Stores, r.Loads, r.Shared)
}

// Assemble assembles a module for a card and reports on its kernels. Its error is the assembler's message.
func (a *Assembler) Assemble(text, arch string) ([]Report, error) {
	key := filepath.Join(a.cache, fmt.Sprintf("%x", sha256.Sum256([]byte(a.version+"\x00"+arch+"\x00"+text))))
	if a.cache != "" {
		if b, err := os.ReadFile(key); err == nil {
			return parse(string(b), arch)
		}
	}
	dir, err := os.MkdirTemp("", "ptxas")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	in := filepath.Join(dir, "kernel.ptx")
	if err := os.WriteFile(in, []byte(text), 0o666); err != nil {
		return nil, err
	}
	cmd := exec.Command(a.path, "-v", "-arch="+arch, "-o", "kernel.cubin", "kernel.ptx")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", arch, err, strings.TrimSpace(string(out)))
	}
	reports, err := parse(string(out), arch)
	if err == nil && a.cache != "" {
		// Written under another name first, so that readers find only complete files. An error here only loses the
		// cache.
		if f, err := os.CreateTemp(a.cache, "part"); err == nil {
			_, failed := f.Write(out)
			if f.Close() != nil || failed != nil || os.Rename(f.Name(), key) != nil {
				_ = os.Remove(f.Name())
			}
		}
	}
	return reports, err
}

var (
	compiling  = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	properties = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registers  = regexp.MustCompile(`Used (\d+) registers`)
	shared     = regexp.MustCompile(`(\d+) bytes smem`)
)

// parse reads the assembler's output with -v.
func parse(out, arch string) ([]Report, error) {
	var all []Report
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // digits, by the expressions above
		return n
	}
	for line := range strings.Lines(out) {
		if m := compiling.FindStringSubmatch(line); m != nil {
			all = append(all, Report{Kernel: m[1], Arch: arch, Registers: -1})
			continue
		}
		if len(all) == 0 {
			continue
		}
		r := &all[len(all)-1]
		if m := properties.FindStringSubmatch(line); m != nil {
			r.Stack, r.Stores, r.Loads = number(m[1]), number(m[2]), number(m[3])
		}
		if m := registers.FindStringSubmatch(line); m != nil {
			r.Registers = number(m[1])
		}
		if m := shared.FindStringSubmatch(line); m != nil {
			r.Shared = number(m[1])
		}
	}
	for _, r := range all {
		if r.Registers < 0 {
			return nil, fmt.Errorf("%s: no count of registers for %s in the assembler's output: %s", arch, r.Kernel, out)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: the assembler names no kernel: %s", arch, out)
	}
	return all, nil
}

// All assembles texts for cards, several at a time. It calls done for each text and card, one call at a time, in any
// order.
func (a *Assembler) All(texts, archs []string, done func(text, arch string, r []Report, err error)) {
	type job struct{ text, arch string }
	jobs := make(chan job)
	var one sync.Mutex
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for j := range jobs {
				r, err := a.Assemble(j.text, j.arch)
				one.Lock()
				done(j.text, j.arch, r, err)
				one.Unlock()
			}
		})
	}
	for _, text := range texts {
		for _, arch := range archs {
			jobs <- job{text, arch}
		}
	}
	close(jobs)
	group.Wait()
}
