package golden

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "golang.org/x/image/bmp" // pictures of the standard's tests
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	_ "github.com/essmc/essmc/ops/microsoft" // operators of real models and of the standard's tests
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

var update = flag.Bool("update", false, "write the golden files anew")

type data = map[string]tensor.Datum

// costs are pinned, so that all variants of the kernels choose the same forms.
var costs = cpu.Costs{Scan: 0.4, ComplexScan: 4, FFT: 0.16, Pass: 0.25, Call: 250, Direct: 3.7, Output: 9, Dense: 6.2,
	Gemm: 93}

// recorder is the CPU backend, and records how bound programs are implemented.
type recorder struct {
	runtime.Backend
	mu    sync.Mutex
	bound [][]cpu.Implementation
}

func newRecorder() *recorder { return &recorder{Backend: cpu.New(cpu.WithCosts(costs))} }

func (r *recorder) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	p, err := r.Backend.Compile(g, c)
	if err != nil {
		return nil, err
	}
	return recorded{p, r}, nil
}

func (r *recorder) Variant() string { return cpu.Kernels() }

// take returns what was bound since the last call.
func (r *recorder) take() [][]cpu.Implementation {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bound
	r.bound = nil
	return b
}

type recorded struct {
	runtime.Program
	r *recorder
}

func (p recorded) Bind(b runtime.Binding) (runtime.Executable, error) {
	e, err := p.Program.Bind(b)
	if err == nil {
		all := cpu.Implementations(p.Program, e)
		p.r.mu.Lock()
		p.r.bound = append(p.r.bound, all)
		p.r.mu.Unlock()
	}
	return e, err
}

// listing writes implementations one a line: region (and chunk), subgraph, operator, types other than float32, way; equal
// neighbours once, with their number.
func listing(all []cpu.Implementation) string {
	var b strings.Builder
	last, times := "", 0
	flush := func() {
		if times > 1 {
			fmt.Fprintf(&b, "%s  x%d\n", last, times)
		} else if times == 1 {
			fmt.Fprintln(&b, last)
		}
	}
	for _, x := range all {
		at := "-"
		if x.Region > 0 {
			at = fmt.Sprintf("r%d", x.Region)
		}
		if x.Chunk > 0 {
			at += fmt.Sprintf("/c%d", x.Chunk)
		}
		line := fmt.Sprintf("%-6s %s%s %s%s", at, x.Within, x.Op, typed(x.Types), x.Way)
		if line != last {
			flush()
			last, times = line, 0
		}
		times++
	}
	flush()
	return b.String()
}

// typed is the types with a space behind, unless they are float32.
func typed(types string) string {
	if types == "float32" {
		return ""
	}
	return types + " "
}

// counts sums up implementations by operator, types and way.
type counts map[string]int

func (c counts) add(bound [][]cpu.Implementation) {
	for _, all := range bound {
		for _, x := range all {
			c[fmt.Sprintf("%s %s%s", x.Op, typed(x.Types), x.Way)]++
		}
	}
}

func (c counts) String() string {
	var lines []string
	for what, n := range c {
		lines = append(lines, fmt.Sprintf("%s  %d\n", what, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// sections are the parts of a golden file, in their order.
type sections []txtar.File

func (s *sections) add(name, text string) {
	*s = append(*s, txtar.File{Name: name, Data: []byte(text)})
}

// extent says how the sections of a file relate to those that a test finds.
type extent int

const (
	whole extent = iota // they are the same
	part                // the file may have more, which are not there to be tested
	own                 // the file has those of other variants, too, which stay when it is renewed
)

// hold compares sections with those of a file.
func hold(t *testing.T, file, comment string, got sections, how extent) {
	t.Helper()
	path := filepath.Join("testdata", file)
	old, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	want := txtar.Parse([]byte(strings.ReplaceAll(string(old), "\r\n", "\n")))
	find := func(name string) int {
		return slices.IndexFunc(want.Files, func(f txtar.File) bool { return f.Name == name })
	}
	if *update {
		var next sections
		if how == own {
			next = want.Files
		}
		for _, f := range got {
			if i := find(f.Name); how == own && i >= 0 {
				next[i] = f
			} else {
				next = append(next, f)
			}
		}
		if how == own {
			slices.SortFunc(next, func(a, b txtar.File) int { return cmp.Compare(a.Name, b.Name) })
		}
		if err := os.WriteFile(path, txtar.Format(&txtar.Archive{Comment: []byte(comment), Files: next}),
			0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, f := range got {
		i := find(f.Name)
		if i < 0 {
			t.Errorf("%s has no section %q; -update writes it", path, f.Name)
			continue
		}
		if d := difference(string(want.Files[i].Data), string(f.Data)); d != "" {
			t.Errorf("%s, section %q; -update writes what is found:\n%s", path, f.Name, d)
		}
	}
	for _, f := range want.Files {
		if how == whole && !slices.ContainsFunc(got, func(g txtar.File) bool { return g.Name == f.Name }) {
			t.Errorf("%s: nothing is found for section %q; -update removes it", path, f.Name)
		}
	}
}

// difference lists the lines that only one of two texts has, up to twenty of each.
func difference(want, got string) string {
	if want == got {
		return ""
	}
	only := func(sign, a, b string) (lines []string) {
		has := map[string]int{}
		for line := range strings.Lines(b) {
			has[line]++
		}
		for line := range strings.Lines(a) {
			if has[line]--; has[line] < 0 {
				lines = append(lines, sign+line)
			}
		}
		if len(lines) > 20 {
			lines = append(lines[:20], fmt.Sprintf("%s and %d more\n", sign, len(lines)-20))
		}
		return lines
	}
	lines := slices.Concat(only("expected ", want, got), only("found    ", got, want))
	if len(lines) == 0 {
		return "the same lines in another order"
	}
	return strings.Join(lines, "")
}

// answers collects hashes, in the order of their names' first appearance; one name may have several answers.
type answers struct {
	names []string
	sums  map[string]uint64
}

func (a *answers) add(name string, outs ...data) {
	if a.sums == nil {
		a.sums = map[string]uint64{}
	}
	if _, ok := a.sums[name]; !ok {
		a.names = append(a.names, name)
	}
	for _, out := range outs {
		a.sums[name] = a.sums[name]*1099511628211 ^ sum(out)
	}
}

func (a *answers) String() string {
	var b strings.Builder
	for _, name := range a.names {
		fmt.Fprintf(&b, "%016x  %s\n", a.sums[name], name)
	}
	return b.String()
}

const answersComment = `Hashes of answers, bit by bit (FNV-1a of types, shapes and bytes, one NaN for all), a section for each variant of the
kernels. Written by go test ./internal/golden -update, once with each ESSMC_KERNELS.

`

// holdAnswers compares answers with those for the kernel variant in use.
func holdAnswers(t *testing.T, file string, a *answers) {
	t.Helper()
	var s sections
	s.add(cpu.Kernels(), a.String())
	hold(t, file, answersComment, s, own)
}

// sum is the hash of named data.
func sum(d data) uint64 {
	h := fnv.New64a()
	names := make([]string, 0, len(d))
	for name := range d {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		fmt.Fprintf(h, "%d:", i)
		h.Write(canonical(d[name]))
	}
	return h.Sum64()
}

// canonical is a datum as bytes. Which of two NaN comes out of an addition is the compiler's choice, so all of them are
// one.
func canonical(d tensor.Datum) []byte {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d == nil {
			return []byte("none")
		}
		b := fmt.Appendf(nil, "%v %v:", d.DType(), d.Shape())
		switch {
		case d.DType() == tensor.String:
			return fmt.Appendf(b, "%q", d.Strings())
		case d.DType() == tensor.Float32:
			for _, v := range tensor.Data[float32](d) {
				if v != v {
					v = float32(math.NaN())
				}
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			return b
		case d.DType().IsFloat() || d.DType().IsComplex():
			if v, err := d.Float64s(); err == nil && d.DType().IsFloat() {
				for _, v := range v {
					if v != v {
						v = math.NaN()
					}
					b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
				}
				return b
			}
			return fmt.Append(b, d.Bytes())
		}
		return append(b, d.Bytes()...)
	case *tensor.Sequence:
		b := []byte("[")
		for _, x := range d.Items {
			b = append(append(b, canonical(x)...), ',')
		}
		return append(b, ']')
	case *tensor.Optional:
		return append([]byte("optional "), canonical(d.Value)...)
	case nil:
		return []byte("none")
	}
	return fmt.Appendf(nil, "%s", d)
}

// answer compiles and runs a graph once for each input.
func answer(g *ir.Graph, o runtime.Options, in ...data) ([]data, error) {
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s := m.NewSession()
	defer s.Close()
	var outs []data
	for _, x := range in {
		out, err := s.Run(context.Background(), x)
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}
