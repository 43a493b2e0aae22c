package cpu

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// newest gives the operator that a record is of; nil for one of com.microsoft, which this package does not link.
func newest(t *testing.T, name string) *ir.Op {
	for _, op := range ops.Default.All() {
		if op.FullName() == name && ops.Newest(op) {
			return op
		}
	}
	if !strings.HasPrefix(name, "com.microsoft.") {
		t.Errorf("there is no operator %s", name)
	}
	return nil
}

// A record is of an operator that there is, and its conditions are about inputs that this has.
func TestRecords(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(record.Records)) {
		r := record.Records[name]
		op := newest(t, name)
		if op == nil {
			continue
		}
		for kind, constant := range map[string][]int{
			"recurrence": r.Recurrence.Constant, "row": r.Row.Constant, "windowed": r.Windowed.Constant,
			"streaming": r.Streaming.Constant, "tensor": r.Tensor.Constant,
		} {
			for _, i := range constant {
				if i < 0 || i >= len(op.In) {
					t.Errorf("%s: kind %s is for a constant input %d, of which the operator has %d", name, kind, i,
						len(op.In))
				}
			}
		}
		if i := r.Windowed.Input; r.Windowed.Make != nil && (i >= len(op.In) || slices.Contains(r.Windowed.Constant, i)) {
			t.Errorf("%s: input %d is no sequence", name, i)
		}
		if r.Whole && (op.Body == nil || op.Eval == nil) {
			t.Errorf("%s is strict, and has no choice", name)
		}
		if r.Keeps && len(op.Out) < 2 {
			t.Errorf("%s keeps states, and has %d outputs", name, len(op.Out))
		}
		if r.Fused != nil && r.Row.Make == nil {
			t.Errorf("%s can be fused, and has no row kernel", name)
		}
	}
}
