package backendtest

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// TestEveryOperator checks that every version of every operator of the registry has a sample or a random case with an
// answer, which all backends then run, so none depends on the standard's node tests, which may be absent. Those that no
// graph can have are listed in samples.Refused, and must have neither.
func TestEveryOperator(t *testing.T) {
	count, refused := map[string]int{}, map[string]bool{}
	for _, op := range ops.Default.All() {
		where := occurs(t, op)
		count[where]++
		switch cannot := slices.Contains(samples.Refused[op.Domain], op.Name); {
		case cannot && where != "":
			t.Errorf("%s-%d has %s: it is refused in samples.Refused", op.FullName(), op.Since, where)
		case cannot:
			refused[op.FullName()] = true
		case where == "":
			t.Errorf("%s-%d is in no case: it needs a sample in ops/opstest/samples", op.FullName(), op.Since)
		}
	}
	for domain, names := range samples.Refused {
		for _, name := range names {
			if !refused[domain+"."+name] {
				t.Errorf("samples.Refused has %s.%s, which is not registered", domain, name)
			}
		}
	}
	t.Logf("operators: %v", count)
	if count["samples"]+count["random cases"] < 390 {
		t.Errorf("operators with cases: %v: a package of operators is missing here, or samples are not found", count)
	}
}

// occurs reports where op has a case with an answer: "samples", "random cases" (among the first ones of Run), or "".
func occurs(t *testing.T, op *ir.Op) string {
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
		return "samples"
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
			return "random cases"
		}
	}
	return ""
}
