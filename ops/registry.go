// Package ops holds the registry of operators, and what their definitions share: signatures, shape rules, facts along a
// dimension, access to elements.
//
// It imports ir and ir/tensor only. Operators live in the packages below it, one to a file, and enter the registry when
// their package is initialised; after that it never changes, so it may be read from everywhere. What always holds: an
// operator in the registry has type inference, and a meaning (Eval or Body).
package ops

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
)

type key struct{ domain, name string }

var registry = map[key][]*ir.Op{} // versions, newest first

// same maps the records that Same made to the one that they stand for.
var same = map[*ir.Op]*ir.Op{}

// Register enters an operator. An operator without Infer gets the one that its signature describes; one without Cost gets
// its body's. It panics on a definition that cannot be right: that is a mistake in this program.
func Register(op *ir.Op) *ir.Op {
	if op.Since == 0 {
		op.Since = 1
	}
	if op.Infer == nil {
		op.Infer = inferSig
	}
	if op.Eval == nil && op.Body == nil {
		panic("ops.Register: " + op.FullName() + " has neither Eval nor Body")
	}
	k := key{op.Domain, op.Name}
	for _, o := range registry[k] {
		if o.Since == op.Since {
			panic(fmt.Sprintf("ops.Register: %s version %d twice", op.FullName(), op.Since))
		}
	}
	registry[k] = append(registry[k], op)
	slices.SortFunc(registry[k], func(a, b *ir.Op) int { return cmp.Compare(b.Since, a.Since) })
	return op
}

// Same enters op under earlier versions of its domain too, in which it meant the same, or a part of it: fewer element types,
// or fewer optional inputs and attributes.
func Same(op *ir.Op, since ...int) *ir.Op {
	for _, v := range since {
		old := *op
		old.Since = v
		SameAs(&old, op)
	}
	return op
}

// SameAs enters old, a record of an earlier version that differs from op in attributes without effect only.
func SameAs(old, op *ir.Op) { same[Register(old)] = op }

// Current gives the record that stands for op's meaning: the one that All lists, which is op itself unless Same entered it.
func Current(op *ir.Op) *ir.Op {
	if c := same[op]; c != nil {
		return c
	}
	return op
}

// Newest reports that op is its domain's newest meaning of its name, so that what is known of the name holds of it.
func Newest(op *ir.Op) bool {
	v := registry[key{op.Domain, op.Name}]
	return len(v) == 0 || v[0] == Current(op)
}

// Registry resolves operators that were registered.
type Registry struct{}

// Default is the registry of this program.
var Default Registry

// Resolve gives the operator as the given version of its domain defines it, or nil.
func (Registry) Resolve(domain, name string, version int) *ir.Op {
	if domain == "ai.onnx" {
		domain = ""
	}
	for _, op := range registry[key{domain, name}] {
		if op.Since <= version {
			if op.Until != 0 && version >= op.Until {
				return nil
			}
			return op
		}
	}
	return nil
}

// All lists every operator, sorted by domain, name and version; versions that mean the same are listed once.
func (Registry) All() []*ir.Op {
	var all []*ir.Op
	for _, v := range registry {
		for _, op := range v {
			if same[op] == nil {
				all = append(all, op)
			}
		}
	}
	slices.SortFunc(all, func(a, b *ir.Op) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Since, b.Since))
	})
	return all
}

// Opsets are the versions that graphs made by this program use.
func Opsets() map[string]int { return map[string]int{"": 24, "essm": 1} }
