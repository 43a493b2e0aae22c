package graphfuzz

import (
	"os"
	"strconv"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// TestShapes checks cases with many nodes, inputs, outputs and carried values, and with values that double, and that there
// are such cases.
func TestShapes(t *testing.T) {
	seeds := 12
	if n, err := strconv.Atoi(os.Getenv("ESSMC_FUZZ_SHAPES")); err == nil {
		seeds = n
	}
	if testing.Short() {
		seeds = 4
	}
	var nodes, inputs, outputs, ends, carried, loops, bytes, items int
	for _, p := range []struct {
		name    string
		profile func(*generator)
	}{{"broad", (*generator).broad}, {"doubles", (*generator).doubles}} {
		name := p.name
		n, made := seeds, 0
		if name == "doubles" {
			n *= 5
		}
		for seed := range uint64(n) {
			s := FromSeed(seed)
			c, err := generate(s, p.profile)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			if c == nil {
				continue
			}
			made++
			nodes, ends = max(nodes, len(c.Graph.Nodes)), max(ends, len(c.Graph.Outputs))
			for _, k := range c.Graph.Nodes {
				inputs, outputs = max(inputs, len(k.Inputs)), max(outputs, len(k.Outputs))
				if k.Op.Name == "Loop" {
					carried = max(carried, len(k.Inputs)-2)
					loops++
				}
			}
			var checker Checker
			if f := checker.Check(c, Ways(s)); f != nil {
				t.Errorf("%s, seed %d: %s", name, seed, f)
			}
			out, err := interpreted(c.Graph, c.Runs[0], false)
			if err != nil {
				continue
			}
			for _, d := range out {
				switch d := d.(type) {
				case *tensor.Tensor:
					for _, text := range d.Strings() {
						bytes = max(bytes, len(text))
					}
				case *tensor.Sequence:
					items = max(items, len(d.Items))
				}
			}
		}
		if made < n/2 {
			t.Errorf("%s: %d of %d seeds make a case", name, made, n)
		}
	}
	t.Logf("up to %d nodes, %d inputs and %d outputs of a node, %d outputs, %d carried values, %d loops, strings of %d bytes, "+
		"%d items", nodes, inputs, outputs, ends, carried, loops, bytes, items)
	if !testing.Short() && (nodes < 500 || inputs < 500 || outputs < 200 || ends < 100 || carried < 50 || loops < seeds || bytes < 100 || items < 10) {
		t.Error("the shapes are not reached")
	}
}
