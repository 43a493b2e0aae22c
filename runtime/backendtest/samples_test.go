package backendtest

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestEveryOperator checks that every operator of the registry has a random case or a sample.
func TestEveryOperator(t *testing.T) {
	registered := 0
	for _, op := range ops.Default.All() {
		registered++
		if slices.Contains(samples.Refused[op.Domain], op.Name) {
			continue
		}
		if !occurs(t, op) {
			t.Errorf("%s-%d is in no case: it needs a sample in ops/opstest/samples", op.FullName(), op.Since)
		}
	}
	if registered < 300 {
		t.Errorf("%d operators are registered: a package of operators is missing here", registered)
	}
}

// occurs reports whether op has a sample, or a random case with an answer among the first ones of Run.
func occurs(t *testing.T, op *ir.Op) bool {
	t.Helper()
	all := samples.Of(op)
	for i, s := range all {
		for _, named := range []bool{false, true} {
			c, err := sampleCase(op, s, named)
			if err == nil {
				_, err = truth(c.graph, c.in)
			}
			if err != nil {
				t.Errorf("%s-%d, sample %d, sizes named: %v: %v", op.FullName(), op.Since, i, named, err)
			}
		}
	}
	if len(all) > 0 {
		return true
	}
	for attempt := range 25 * 4 {
		c, err := generate(op, attempt)
		if err != nil {
			t.Error(err)
		}
		if c == nil {
			continue
		}
		if _, err := truth(c.graph, c.in); err == nil {
			return true
		}
	}
	return false
}
