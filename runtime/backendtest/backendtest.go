// Package backendtest is the test suite for backends. A backend's tests call Run with a function that creates the
// backend.
//
// A backend declares nothing. One that evaluates each node by ir.Op.Eval or its body passes. Besides the contract in
// runtime.Backend, the suite expects:
//
//   - Operators: the backend runs an operator, or refuses it with a runtime.UnsupportedError that has the node: when it
//     compiles, or when shapes are bound that it has no kernel for. It must not refuse those in Options.Must. It refuses
//     an operator without Eval, body or kernel when it compiles, not at the first run.
//   - Answers agree with runtime/ref in float64 to the operators' tolerances (ir.Op.Tol), elementwise operators in each
//     element (DiffNode). On random networks, errors are at most four times the interpreter's in float32. Every run,
//     session and number of threads gives the same bits.
//   - Forms: the backend accepts every value of runtime.Kernels. If it does not have a form it takes another, with the
//     same answer to the tolerance.
//   - Other options are honored, or refused with a runtime.OptionError that names the option; Options.Refuses lists those that
//     are refused. The default precision is float32. Dense products in a lower one err in each element by no more than its rounding allows, and by enough to show
//     that the option is not ignored.
//   - Errors and panics of a node are runtime.NodeErrors. The session works afterwards.
//   - Sessions: 64 concurrent ones share a program. Close waits for runs. A run whose context is done ends between
//     nodes, also in loops.
//   - Memory: an executable does not grow from run to run. Options.MaxMemory of 64 KiB is enough for the suite's small
//     shapes, and its large ones give a runtime.MemoryError. Outputs are written to the caller's tensors. A run
//     charges each allocation to runtime.Binding.Budget first.
//
// Package runtime implements plans, streams and snapshots for all backends. They are not tested here, except for the
// memory of streams.
//
// It imports ir, its text, the operators and their samples, runtime and runtime/ref; Reference also needs models,
// passes and the readers of model directories. A refusal of an operator is logged with its reason. A wrong answer is always
// a failure.
package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	_ "github.com/essmc/essmc/ops/essm" // all operators are tested
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// Options adapt the suite to a backend.
type Options struct {
	// Skip maps names of subtests, as "go test -v" shows them below Run's test, to the reason why this backend need not
	// pass them. Every skip is logged. Remove skips that are not needed any longer.
	Skip map[string]string
	// Must lists operators ("essm.SSM") that the backend may not refuse, except for rare combinations of attributes
	// and element types. "*" means all: no sample of any operator may be refused, and none of the suite's networks.
	Must []string
	// Refuses lists the options that the backend refuses, by their subtests of "options" (precision-int8, tf32). It must honor
	// the others.
	Refuses []string
	// Seeds is the number of random cases for each operator. 0 means 12, or 4 with -short.
	Seeds int
	// Graphs is the number of random graphs in each part of the suite that makes some. 0 means 20 or 40, or a fourth
	// of that with -short.
	Graphs int
	// Small says that the backend is slow, so that sequences of parts with many runs are short, and those runs fewer: as
	// with -short. Reference cases run in one form each.
	Small bool
	// Networks is the largest error of networks, as a multiple of that which the suite allows to products in float32; 0: 1.
	Networks float64
}

// Data holds inputs or outputs of a run by name.
type Data = map[string]tensor.Datum

// Run runs the whole suite as subtests of t. It returns the full names of the operators that the backend has refused, sorted: the
// tests of a backend that refuses some compare them with a list of its own.
func Run(t *testing.T, make func() runtime.Backend, o Options) (refused []string) {
	s := &suite{make: make, o: o, refused: map[string]string{}}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"cases", s.cases},
		{"ops", s.operators},
		{"samples", s.samples},
		{"elements", s.elements},
		{"quantize", s.quantize},
		{"forms", s.forms},
		{"networks", s.networks},
		{"sequences", s.sequences},
		{"loops", s.loops},
		{"shapes", s.shapes},
		{"threads", s.threads},
		{"options", s.options},
		{"outputs", s.outputs},
		{"sessions", s.sessions},
		{"close", s.closing},
		{"cancel", s.cancel},
		{"memory", s.memory},
		{"memory bounds", s.memoryBounds},
		{"unsupported", s.unsupported},
		{"parameters", s.parameters},
	} {
		s.sub(t, part.name, part.run)
	}
	refused = slices.Sorted(maps.Keys(s.refused))
	for _, op := range refused {
		t.Logf("refused: %s", s.refused[op])
	}
	return refused
}

type suite struct {
	make func() runtime.Backend
	o    Options

	mu      sync.Mutex
	refused map[string]string // by operator: one of its errors
}

// graphs returns the number of random graphs of a part of the suite that has n.
func (s *suite) graphs(n int) int {
	if s.o.Graphs > 0 {
		return s.o.Graphs
	}
	if testing.Short() {
		return n / 4
	}
	return n
}

// small reports whether parts with many runs have small inputs.
func (s *suite) small() bool { return s.o.Small || testing.Short() }

// sub runs a subtest, unless Options.Skip has it.
func (s *suite) sub(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		_, rel, _ := strings.Cut(t.Name(), "/")
		if why, ok := s.o.Skip[rel]; ok {
			t.Skipf("skipped for this backend: %s", why)
		}
		f(t)
	})
}

// model compiles g for the backend under test. If the backend refuses with a valid error, model notes the refusal and
// skips the test.
func (s *suite) model(t testing.TB, g *ir.Graph, o runtime.Options) *runtime.Model {
	t.Helper()
	o.Backend = s.make()
	m, err := runtime.New(g, o)
	s.skipRefused(t, err)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// skipRefused notes a refusal, of a graph or of the shapes of a run, and ends the test if the backend may refuse the operator.
func (s *suite) skipRefused(t testing.TB, err error) {
	t.Helper()
	if s.mayRefuse(t, err) {
		t.Skipf("refused: %v", err)
	}
}

// mayRefuse notes a refusal, and reports whether err is one of an operator that the backend may refuse.
func (s *suite) mayRefuse(t testing.TB, err error) bool {
	t.Helper()
	var u *runtime.UnsupportedError
	return s.noteRefusal(t, err) && errors.As(err, &u) && !s.must(u.Node.Op)
}

// must reports whether the backend may not refuse an operator.
func (s *suite) must(op *ir.Op) bool {
	return slices.Contains(s.o.Must, op.FullName()) || slices.Contains(s.o.Must, "*")
}

// noteRefusal reports whether err is a refusal, and checks that it names a node.
func (s *suite) noteRefusal(t testing.TB, err error) bool {
	t.Helper()
	if !errors.Is(err, runtime.ErrUnsupported) {
		return false
	}
	var u *runtime.UnsupportedError
	if !errors.As(err, &u) || u.Node == nil {
		t.Fatalf("a refusal must be an UnsupportedError with its node, found %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[u.Node.Op.FullName()] = err.Error()
	return true
}

// truth returns the outputs of g, computed in float64.
func truth(g *ir.Graph, in Data) (Data, error) {
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.NewSession().Run(context.Background(), in)
}

// evaluated returns the interpreter's outputs of g in g's own precision.
func evaluated(g *ir.Graph, in Data) (Data, error) {
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.NewSession().Run(context.Background(), in)
}

// expect compares a run's outputs with the truth.
func expect(t testing.TB, what string, got, want Data, tol ir.Tolerance) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: expected outputs %v, found %v", what, names(want), names(got))
		return
	}
	for _, name := range names(want) {
		if d := Diff(got[name], want[name], tol); d != "" {
			t.Errorf("%s: output %s: %s", what, name, d)
		}
	}
}

func names(d Data) []string { return slices.Sorted(maps.Keys(d)) }

// identical reports the first output in which two runs differ in any bit.
func identical(a, b Data) error {
	for _, name := range names(a) {
		if !sameDatum(a[name], b[name]) {
			return fmt.Errorf("output %s is not the same in every bit", name)
		}
	}
	if len(a) != len(b) {
		return errors.New("the number of outputs differs")
	}
	return nil
}

// describe returns the types of inputs in the order of their names.
func describe(in Data) string {
	var parts []string
	for _, name := range names(in) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, cmp.Or(fmt.Sprint(in[name]), "absent")))
	}
	return strings.Join(parts, " ")
}
