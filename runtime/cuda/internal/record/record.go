package record

import (
	"cmp"
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Record is how the backend computes one operator.
type Record struct {
	// Op is the full name of the operator: "Softmax", "essm.SSM".
	Op string
	// Takes reports whether the backend computes a step, as far as that shows without shapes. It looks at the version of
	// the operator itself. The outputs of the step have their declared types, and are not yet those of the program. Nil:
	// each step of the operator's newest version.
	Takes func(s *lowering.Step) bool
	// Build adds the work of a step whose shapes are bound. It returns false if it does not compute these shapes or types;
	// what it has added is dropped then. All inputs and outputs are nil, or tensors of known shape that are not of
	// strings, and their types are those that the operator's rules give. Optional inputs that are not given are nil.
	Build func(b *Builder, s *lowering.Step) bool
}

// Fusion computes several steps as one unit: a chain of elementwise operators, a product and what follows it, a layer.
type Fusion struct {
	// Name is for people: profiles and the text of plans show it.
	Name string
	// Build looks at steps[0], and takes it with some of the later ones. steps are those of the program that nothing has
	// taken, in their order; what Record.Build may rely on holds for each, but that optional inputs that are not given may
	// be there (Binding.Missing). Build adds the work of the steps that it takes, and returns them, in their order; nil:
	// none, and what it has added is dropped. A value that only taken steps read needs no buffer (Binding.Inside). The
	// work is done in the place of the last step that is taken. The backend drops it if a step in between, which is not
	// taken, reads a result of one that is.
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

// Register adds records. It panics on a second record of an operator, which is an error of this program.
func Register(list ...Record) {
	for _, r := range list {
		if records[r.Op] != nil {
			panic("cuda: two records of operator " + r.Op)
		}
		records[r.Op] = &r
	}
}

// RegisterKind adds a record of many operators: of those with an expression, of those that only move elements. Its Op is for
// people, and it has Takes. It is asked for steps that no record of their own operator takes; of several kinds, that of the
// least rank first.
func RegisterKind(rank int, r Record) { kinds = sorted(kinds, ranked[Record]{rank, r.Op, &r}) }

// RegisterFusion adds a fusion. Of several that could take a step, that of the least rank is asked first.
func RegisterFusion(rank int, f Fusion) { fusions = sorted(fusions, ranked[Fusion]{rank, f.Name, &f}) }

// sorted adds x in the order of ranks and names, which does not depend on the order of initialisation.
func sorted[T any](list []ranked[T], x ranked[T]) []ranked[T] {
	list = append(list, x)
	slices.SortStableFunc(list, func(a, b ranked[T]) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
	return list
}

// For returns the record that computes a step; nil if the backend does not.
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

// Fusions returns the fusions in the order in which they are asked.
func Fusions() []*Fusion {
	list := make([]*Fusion, len(fusions))
	for i, f := range fusions {
		list[i] = f.it
	}
	return list
}
