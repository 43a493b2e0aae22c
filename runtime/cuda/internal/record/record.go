package record

import (
	"cmp"
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Record describes how the backend computes one operator.
type Record struct {
	// Op is the full name of the operator: "Softmax", "essm.SSM".
	Op string
	// Takes reports whether the backend computes a step, as far as that is known without shapes. It must check the
	// operator's version. The outputs of the step have their declared types, and are not yet those of the program.
	// If Takes is nil, the record accepts every step of the operator's newest version.
	Takes func(s *lowering.Step) bool
	// Build adds the work of a step whose shapes are bound. It returns false if it does not support these shapes or
	// types; the work that it has added is then dropped. Inputs and outputs are nil, or tensors of known shape
	// without strings, and their types follow the operator's rules. Absent optional inputs are nil.
	Build func(b *Builder, s *lowering.Step) bool
}

// Fusion computes several steps as one unit: a chain of elementwise operators, a product and what follows it, a layer.
type Fusion struct {
	// Name is shown in profiles and plan texts.
	Name string
	// Build looks at steps[0], and takes it with some of the later ones. steps are the steps of the program that
	// nothing has taken, in order. Record.Build's guarantees hold for each, except that absent optional inputs may
	// be present (Binding.Missing). Build adds the work of the steps that it takes, and returns them in order. If it
	// returns nil it takes none, and the work that it has added is dropped. A value that only taken steps read needs
	// no buffer (Binding.Inside). The work runs at the position of the last taken step. The backend drops it if a
	// step in between that is not taken reads a result of a taken one.
	Build func(b *Builder, steps []*lowering.Step) (taken []*lowering.Step)
}

type ranked[T any] struct {
	rank int
	name string
	it   *T
}

var (
	records = map[string]*Record{}
	kinds   []ranked[Record]
	fusions []ranked[Fusion]
)

// Register adds records. It panics on a second record for an operator, which is a bug.
func Register(list ...Record) {
	for _, r := range list {
		if records[r.Op] != nil {
			panic("cuda: two records of operator " + r.Op)
		}
		records[r.Op] = &r
	}
}

// RegisterKind adds a record for many operators, such as all with an expression, or all that only move elements. Its
// Op is for display, and it must have Takes. It gets the steps that their operator's own record does not accept. If
// several kinds accept a step, the one with the lowest rank is used.
func RegisterKind(rank int, r Record) { kinds = sorted(kinds, ranked[Record]{rank, r.Op, &r}) }

// RegisterFusion adds a fusion. If several could take a step, the one with the lowest rank is tried first.
func RegisterFusion(rank int, f Fusion) { fusions = sorted(fusions, ranked[Fusion]{rank, f.Name, &f}) }

// sorted inserts x in the order of ranks and names, which does not depend on the order of initialisation.
func sorted[T any](list []ranked[T], x ranked[T]) []ranked[T] {
	list = append(list, x)
	slices.SortStableFunc(list, func(a, b ranked[T]) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
	return list
}

// For returns the record that computes a step, or nil if there is none.
func For(s *lowering.Step) *Record {
	if r := records[s.Node.Op.FullName()]; r != nil {
		if r.Takes == nil && ops.Newest(s.Node.Op) || r.Takes != nil && r.Takes(s) {
			return r
		}
	}
	for _, k := range kinds {
		if k.it.Takes(s) {
			return k.it
		}
	}
	return nil
}

// Fusions returns the fusions in the order in which they are tried.
func Fusions() []*Fusion {
	list := make([]*Fusion, len(fusions))
	for i, f := range fusions {
		list[i] = f.it
	}
	return list
}
