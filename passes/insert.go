package passes

import (
	"fmt"
	"slices"
	"strings"
)

// Insert returns the passes of list with others among them, each at the first place that After and Before allow, of its
// own and of the others. List keeps its order. A name of a pass that list has several times stands for all of them.
// Insert returns an error for a pass without a name or without Run, for a name that is taken, for reasons that name no
// pass, and for orders that contradict each other.
func Insert(list []*Pass, others ...*Pass) ([]*Pass, error) {
	all := slices.Concat(list, others)
	at := map[string][]int{}
	for i, p := range all {
		switch {
		case p == nil || p.Name == "" || p.Run == nil:
			return nil, fmt.Errorf("pass %d of %d: expected a pass with Name and Run", i-len(list)+1, len(others))
		case i >= len(list) && at[p.Name] != nil:
			return nil, fmt.Errorf("pass %s: another pass has this name", p.Name)
		}
		at[p.Name] = append(at[p.Name], i)
	}
	former := make([][]int, len(all)) // the passes that must run before one
	for i, p := range all {
		if i > 0 && i < len(list) {
			former[i] = append(former[i], i-1)
		}
		for k, reasons := range [][]Reason{p.After, p.Before} {
			for _, r := range reasons {
				named := at[r.Pass]
				if named == nil && i >= len(list) { // those of list may name passes of a longer one
					return nil, fmt.Errorf("pass %s: %s names %q, which is no pass; there are %s", p.Name,
						[]string{"After", "Before"}[k], r.Pass, strings.Join(slices.Compact(names(all)), ", "))
				}
				for _, j := range named {
					switch {
					case i < len(list) && j < len(list): // in order
					case k == 0:
						former[i] = append(former[i], j)
					default:
						former[j] = append(former[j], i)
					}
				}
			}
		}
	}
	return ordered(all, len(list), former)
}

// ordered returns all passes in order: those from index own on as early as possible.
func ordered(all []*Pass, own int, former [][]int) ([]*Pass, error) {
	placed := make([]bool, len(all))
	waits := func(i int) bool { return slices.ContainsFunc(former[i], func(j int) bool { return !placed[j] }) }
	var out []*Pass
	for len(out) < len(all) {
		next := -1
		for i := own; i < len(all) && next < 0; i++ {
			if !placed[i] && !waits(i) {
				next = i
			}
		}
		for i := 0; i < own && next < 0; i++ {
			if !placed[i] && !waits(i) {
				next = i
			}
		}
		if next < 0 {
			return nil, cycle(all, own, former, placed)
		}
		placed[next] = true
		out = append(out, all[next])
	}
	return out, nil
}

// cycle is the error for passes of which each waits for another one.
func cycle(all []*Pass, own int, former [][]int, placed []bool) error {
	i := slices.Index(placed, false)
	var path []int
	for !slices.Contains(path, i) {
		path = append(path, i)
		i = former[i][slices.IndexFunc(former[i], func(j int) bool { return !placed[j] })]
	}
	path = append(path[slices.Index(path, i):], i)
	var text []string
	for k, i := range path {
		if k > 0 && k < len(path)-1 && max(path[k-1], i, path[k+1]) < own { // in the order of the list
			continue
		}
		text = append(text, all[i].Name)
	}
	return fmt.Errorf("the order of passes contradicts itself: %s", strings.Join(text, " after "))
}
