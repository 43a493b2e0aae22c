// Package ops has the registry of operators and the common parts of their definitions: signatures, shape rules,
// facts along a dimension, access to elements.
//
// It imports only ir, ir/scalar and ir/tensor. Operators are defined in the packages below it, one per file, and
// register themselves when their package is initialized. After that the registry does not change, so all goroutines
// may read it. A registered operator has type inference, and a definition by Element, Eval or Body.
package ops

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
)

type key struct{ domain, name string }

var registry = map[key][]*ir.Op{} // versions, newest first

// same maps records that Same made to the records that they represent.
var same = map[*ir.Op]*ir.Op{}

// Register adds an operator. Without Infer it gets the inference of its signature, and without Cost the cost of its
// body. An operator with Element gets Eval, Along, and broadcasting inference from that, where it has none. Register
// panics if the definition is inconsistent.
func Register(op *ir.Op) *ir.Op {
	Complete(op)
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

// Complete gives op what Register gives it, for an operator that no graph states: of steps that a lowering adds.
func Complete(op *ir.Op) *ir.Op {
	if op.Since == 0 {
		op.Since = 1
	}
	if op.Element != nil {
		byElement(op)
	}
	if op.Linear == nil && op.Body != nil {
		op.Linear = linearBody
	}
	if op.Infer == nil {
		op.Infer = inferSig
	}
	if op.Eval == nil && op.Body == nil {
		panic("ops.Register: " + op.FullName() + " has neither Eval nor Body")
	}
	return op
}

// Same registers op for earlier versions of its domain too, in which it had the same definition, or a part of it: fewer
// element types, or fewer optional inputs and attributes.
func Same(op *ir.Op, since ...int) *ir.Op {
	for _, v := range since {
		old := *op
		old.Since = v
		SameAs(&old, op)
	}
	return op
}

// SameAs registers old, a record of an earlier version that differs from op only in attributes without effect.
func SameAs(old, op *ir.Op) { same[Register(old)] = op }

// Current returns the record that All lists for op: op itself, unless Same or SameAs registered it.
func Current(op *ir.Op) *ir.Op {
	if c := same[op]; c != nil {
		return c
	}
	return op
}

// Newest reports whether op is the newest definition of its name. Rules that refer to operators by name hold for it.
func Newest(op *ir.Op) bool {
	v := registry[key{op.Domain, op.Name}]
	return len(v) == 0 || v[0] == Current(op)
}

// Registry resolves operators that were registered.
type Registry struct{}

// Default is the registry of this program.
var Default Registry

// Resolve returns the operator as the given version of its domain defines it, or nil.
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

// All lists the operators by domain, name and version. Versions with the same definition are listed once.
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

// Opsets returns the versions of the domains for graphs that this program makes.
func Opsets() map[string]int { return map[string]int{"": 24, "essm": 1} }
