package passes

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// CSE merges equal expressions, so that each is computed once.
var CSE = &Pass{
	Name: "cse",
	Doc:  "Removes common subexpressions: equal operators on equal inputs become one, and so do equal constants.",
	Run: func(c *Context, g *ir.Graph) (int, error) {
		changes := mergeConstants(g)
		type start struct { // of an expression; most expressions differ here already
			op   *ir.Op
			x, y *ir.Value
		}
		starts := map[start]*ir.Node{}
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
		var known *readers
		for _, n := range slices.Clone(g.Nodes) {
			c.Check()
			if n.Op.Random || len(n.Subgraphs()) > 0 {
				continue
			}
			at := start{n.Op, n.In(0), n.In(1)}
			alike, more := starts[at]
			if !more {
				starts[at] = n
				continue
			}
			if alike != nil { // the first one with this start
				if key, ok := expression(alike, id); ok {
					seen[key] = alike
				}
				starts[at] = nil
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
			if known == nil {
				known = newReaders(g)
			}
			for i, v := range n.Outputs {
				if v != nil && known.replace(v, first.Outputs[i]) {
					changes++
				}
			}
		}
		return changes, Finish(g)
	},
}

// expression returns the text of a node's computation. It returns false for attributes that have no short text.
func expression(n *ir.Node, id func(*ir.Value) int) (string, bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d(", n.Op.FullName(), n.Op.Since)
	for _, v := range n.Inputs {
		n.Step(4)
		b.WriteString(strconv.Itoa(id(v)))
		b.WriteByte(',')
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

// mergeConstants replaces equal constants by the first of them.
func mergeConstants(g *ir.Graph) int {
	type sketch struct { // of a constant; most constants differ here already
		elem   tensor.DType
		rank   int
		dim    [2]int
		sample [4][16]byte
	}
	firsts := map[sketch]*ir.Value{}
	known := map[uint64][]*ir.Value{} // by content, of those with the sketch of another
	seed := maphash.MakeSeed()
	with := map[*ir.Value]*ir.Value{}
	same := map[*tensor.Tensor]*ir.Value{} // lazy tensors, which are not read for this
	outputs := map[*ir.Value]bool{}
	for _, v := range g.Outputs {
		outputs[v] = true
	}
	merge := func(v *ir.Value) {
		sum := maphash.Bytes(seed, v.Const.Bytes())
		i := slices.IndexFunc(known[sum], func(k *ir.Value) bool { return tensor.Equal(k.Const, v.Const) })
		if i < 0 {
			known[sum] = append(known[sum], v)
			return
		}
		if !outputs[v] { // outputs keep their names
			with[v] = known[sum][i]
		}
	}
	for _, v := range g.Constants() {
		if v.Const.DType() == tensor.String {
			continue
		}
		if v.Const.Lazy() {
			if k := same[v.Const]; k == nil {
				same[v.Const] = v
			} else {
				if !outputs[v] {
					with[v] = k
				}
				continue
			}
		}
		s := sketch{elem: v.Const.DType(), rank: v.Const.Rank()}
		copy(s.dim[:], v.Const.Shape())
		size := tensor.ByteSize(v.Const.DType(), v.Const.Len())
		for i := range s.sample {
			at := size / len(s.sample) * i / 16 * 16
			if err := v.Const.PeekPart(s.sample[i][:min(16, size-at)], at); err != nil {
				panic(&tensor.SourceError{Err: err})
			}
		}
		first, more := firsts[s]
		switch {
		case !more:
			firsts[s] = v
			continue
		case first != nil: // until now the only one with this sketch
			merge(first)
			firsts[s] = nil
		}
		merge(v)
	}
	if len(with) > 0 {
		g.ReplaceAll(with)
	}
	return len(with)
}
