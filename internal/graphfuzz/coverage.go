package graphfuzz

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Coverage counts operators, element types and implementations that cases reach.
type Coverage struct {
	mu    sync.Mutex
	seen  map[[3]string]int // operator, element types, way
	notes map[string]int
}

func (c *Coverage) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notes == nil {
		c.notes = map[string]int{}
	}
	c.notes[what]++
}

func (c *Coverage) refused(err error) {
	var u *runtime.UnsupportedError
	if errors.As(err, &u) {
		c.note("refused: " + u.Node.Op.FullName())
	}
}

func (c *Coverage) add(all []cpu.Implementation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[[3]string]int{}
	}
	for _, x := range all {
		op := x.Op
		if i := strings.IndexByte(op, '>'); i >= 0 {
			op = op[:i] + ">"
		}
		c.seen[[3]string{op, x.Types, x.Way}]++
	}
}

// Counts returns the numbers of operators, of pairs of operators and element types, and of triples with the way in
// which they run.
func (c *Coverage) Counts() (operators, types, ways int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, b := map[string]bool{}, map[[2]string]bool{}
	for k := range c.seen {
		op := strings.TrimSuffix(k[0], ">")
		a[op], b[[2]string{op, k[1]}] = true, true
	}
	return len(a), len(b), len(c.seen)
}

// Missing returns the operators that no case has reached, of those in names.
func (c *Coverage) Missing(names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := map[string]bool{}
	for k := range c.seen {
		op, _, _ := strings.Cut(strings.TrimSuffix(k[0], ">"), "-")
		have[op] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return have[n] })
}

// String lists what was reached.
func (c *Coverage) String() string {
	var b strings.Builder
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(c.seen), func(a, b [3]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]))
	}) {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%d\n", k[0], k[1], k[2], c.seen[k])
	}
	for _, k := range slices.Sorted(maps.Keys(c.notes)) {
		fmt.Fprintf(&b, "%s: %d\n", k, c.notes[k])
	}
	return b.String()
}

// recorder is the CPU backend. It notes the implementations of what it binds.
type recorder struct {
	runtime.Backend
	c *Coverage
}

func (r *recorder) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	p, err := r.Backend.Compile(g, c)
	if err != nil {
		return nil, err
	}
	return recorded{p, r.c}, nil
}

func (r *recorder) Variant() string { return cpu.Kernels() }

type recorded struct {
	runtime.Program
	c *Coverage
}

func (p recorded) Bind(b runtime.Binding) (runtime.Executable, error) {
	e, err := p.Program.Bind(b)
	if err == nil {
		p.c.add(cpu.Implementations(p.Program, e))
	}
	return e, err
}
