package ml

import (
	"math/rand/v2"
	"testing"
)

// A listing finds the nodes that a map of all finds, in whatever order and with whatever numbers they are listed.
func TestListing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var trees, ids []int64
		for tree := range 1 + r.IntN(4) {
			first := int64(0)
			if r.IntN(3) == 0 {
				first = int64(r.IntN(9) - 4)
			}
			for i := range r.IntN(6) {
				trees, ids = append(trees, int64(tree)*int64(r.IntN(2)*2+1)), append(ids, first+int64(i))
			}
		}
		for range r.IntN(2) * r.IntN(9) {
			i, j := r.IntN(len(ids)+1), r.IntN(len(ids)+1)
			if i < len(ids) && j < len(ids) {
				trees[i], trees[j], ids[i], ids[j] = trees[j], trees[i], ids[j], ids[i]
			}
		}
		all, twice := map[nodeID]int{}, false
		for i := range ids {
			id := nodeID{trees[i], ids[i]}
			_, has := all[id]
			all[id], twice = i, twice || has
		}
		l, err := newListing(nil, trees, ids)
		if (err != nil) != twice {
			t.Fatalf("trees %v, nodes %v: %v, twice %v", trees, ids, err, twice)
		}
		if err != nil {
			continue
		}
		for i := range l.to {
			l.to[i] = Child(i)
		}
		for tree := int64(-1); tree < 12; tree++ {
			for node := int64(-6); node < 12; node++ {
				want, has := all[nodeID{tree, node}]
				if got, ok := l.find(tree, node); ok != has || ok && int(got) != want {
					t.Fatalf("trees %v, nodes %v: node %d of tree %d is %d %v, expected %d %v", trees, ids, node, tree, got, ok,
						want, has)
				}
			}
		}
	}
}
