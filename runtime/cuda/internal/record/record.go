package record

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Record describes one way in which the backend computes an operator. The file of the kernel registers it.
type Record struct {
	// Op is the full name of the operator: "Softmax", "essm.SSM".
	Op string
	// Rank orders the records of an operator and the kinds: of those that accept a step, the one with the lowest rank
	// is used. Records of general kernels, for what faster ones do not support, have rank Plain.
	Rank int
	// Takes reports whether the backend computes a step, as far as that is known without shapes. It must check the
	// operator's version. The outputs of the step have their declared types, and are not yet those of the program.
	// If Takes is nil, the record accepts every step of the operator's newest version.
	Takes func(s *lowering.Step) bool
	// Numbers are the inputs of floats, by index, whose numbers are bound like shapes if there are few, besides those that
	// determine shapes (ir.Op.SizedBy).
	Numbers []int
	// Build adds the work of a step, as device.Record does.
	Build func(b *Builder, s *lowering.Step) bool
}

// Binds reports whether a record of an operator binds the numbers of an input.
func Binds(op string, input int) bool {
	return slices.ContainsFunc(records[op], func(r *Record) bool { return slices.Contains(r.Numbers, input) })
}

// Fusion computes several steps as one unit, as device.Fusion does.
type Fusion struct {
	Name  string
	Build func(b *Builder, steps []*lowering.Step) (taken []*lowering.Step)
}

// Plain is the rank of general kernels.
const Plain = 200

type ranked[T any] struct {
	rank int
	name string
	it   *T
}

var (
	records = map[string][]*Record{} // of each operator, by rank
	kinds   []ranked[Record]
	fusions []ranked[Fusion]
)

// Register adds records, also several of one operator. It panics if two of them have one rank, which is a bug.
func Register(list ...Record) {
	for _, r := range list {
		own := records[r.Op]
		at, found := slices.BinarySearchFunc(own, r.Rank, func(o *Record, rank int) int { return cmp.Compare(o.Rank, rank) })
		if found {
			panic(fmt.Sprintf("cuda: two records of operator %s with rank %d", r.Op, r.Rank))
		}
		records[r.Op] = slices.Insert(own, at, &r)
	}
}

// RegisterKind adds a record for many operators, such as all with an expression, or all that only move elements. Its
// Op is for display, and it must have Takes. Records of the operator itself with the same rank precede it.
func RegisterKind(rank int, r Record) {
	r.Rank = rank
	kinds = sorted(kinds, ranked[Record]{rank, r.Op, &r})
}

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
	own, rest := records[s.Node.Op.FullName()], kinds
	for len(own) > 0 || len(rest) > 0 {
		var r *Record
		if len(rest) == 0 || len(own) > 0 && own[0].Rank <= rest[0].rank {
			r, own = own[0], own[1:]
		} else {
			r, rest = rest[0].it, rest[1:]
		}
		if r.Takes == nil && ops.Newest(s.Node.Op) || r.Takes != nil && r.Takes(s) {
			return r
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
