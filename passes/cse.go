package passes

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// CSE computes equal expressions once.
var CSE = &Pass{
	Name: "cse",
	Doc:  "Common subexpressions: equal operators on equal inputs are computed once, and equal constants are one constant.",
	Run: func(c *Context, g *ir.Graph) (int, error) {
		changes := mergeConstants(g)
		seen := map[string]*ir.Node{}
		ids := map[*ir.Value]int{}
		id := func(v *ir.Value) int {
			if v == nil {
				return 0
			}
			if _, ok := ids[v]; !ok {
				ids[v] = len(ids) + 1
			}
			return ids[v]
		}
		for _, n := range slices.Clone(g.Nodes) {
			if n.Op.Random || len(n.Subgraphs()) > 0 {
				continue
			}
			key, ok := expression(n, id)
			if !ok {
				continue
			}
			first, dup := seen[key]
			if !dup {
				seen[key] = n
				continue
			}
			same := true
			for i, v := range n.Outputs {
				if v != nil && (first.Out(i) == nil || !ir.EqualTypes(v.Type, first.Outputs[i].Type)) {
					same = false
				}
			}
			if !same {
				continue
			}
			for i, v := range n.Outputs {
				if v != nil && replace(g, v, first.Outputs[i]) {
					changes++
				}
			}
		}
		g.RemoveDead()
		return changes, g.Sort()
	},
}

// expression writes what a node computes; ok is false for attributes that have no short text.
func expression(n *ir.Node, id func(*ir.Value) int) (string, bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d(", n.Op.FullName(), n.Op.Since)
	for _, v := range n.Inputs {
		fmt.Fprintf(&b, "%d,", id(v))
	}
	b.WriteByte(')')
	for _, a := range n.Attrs {
		switch v := a.Value.(type) {
		case int64, string, []int64, []string, ir.Type:
			fmt.Fprintf(&b, "%s=%v;", a.Name, v)
		case float64, []float64:
			fmt.Fprintf(&b, "%s=%x;", a.Name, v)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// mergeConstants makes equal constants one value, the first to be read.
func mergeConstants(g *ir.Graph) int {
	type key struct {
		kind string
		sum  [32]byte
	}
	seen := map[key]*ir.Value{}
	changes := 0
	for _, v := range g.Constants() {
		if v.Const.DType() == tensor.String {
			continue
		}
		k := key{v.Const.String(), sha256.Sum256(v.Const.Bytes())}
		if first, ok := seen[k]; ok {
			g.ReplaceUses(v, first)
			changes++
		} else {
			seen[k] = v
		}
	}
	return changes
}
