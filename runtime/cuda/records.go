package cuda

import (
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"

	// The packages that register records, imported for that effect:
	_ "github.com/essmc/essmc/runtime/cuda/internal/elementwise"
	_ "github.com/essmc/essmc/runtime/cuda/internal/layers"
	_ "github.com/essmc/essmc/runtime/cuda/internal/plain"
	_ "github.com/essmc/essmc/runtime/cuda/internal/products"
	_ "github.com/essmc/essmc/runtime/cuda/internal/recurrence"
	_ "github.com/essmc/essmc/runtime/cuda/internal/rows"
	_ "github.com/essmc/essmc/runtime/cuda/internal/tensors"
)

// operators are those that have records.
type operators struct{}

func (operators) For(s *lowering.Step) device.Record {
	r := record.For(s)
	if r == nil {
		return nil
	}
	return func(b *device.Builder, s *lowering.Step) bool { return r.Build(&record.Builder{Builder: b}, s) }
}

func (operators) Fusions() (all []device.Fusion) {
	for _, f := range record.Fusions() {
		build := func(b *device.Builder, steps []*lowering.Step) []*lowering.Step {
			return f.Build(&record.Builder{Builder: b}, steps)
		}
		all = append(all, device.Fusion{Name: f.Name, Build: build})
	}
	return all
}

func (operators) Binds(op string, input int) bool { return record.Binds(op, input) }

// Wide reports whether an operator is a reduction: one thread computes each result in a narrow type.
func (operators) Wide(op *ir.Op) bool { return strings.HasPrefix(op.Name, "Reduce") }
