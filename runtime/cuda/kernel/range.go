package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Range computes start + i·delta for n elements of type t.
func Range(y, start, delta Buffer, t tensor.DType, n int) (Call, bool) {
	kind, known := domainOf(t)
	if !known || kind == truth {
		return Call{}, false
	}
	return each(fmt.Sprintf("range_%v", t), n, func(d *plain, i ptx.U32) {
		out, from, step := d.vector(y, t), d.vector(start, t), d.vector(delta, t)
		zero := d.VarU64(ptx.L(0))
		if kind == integer {
			out.write(i.Wide(), Elem{domain: integer, integer: i.Wide().MAD(step.read(zero).integer, from.read(zero).integer)})
			return
		}
		out.set(i.Wide(), from.get(zero).Add(i.Wide().SignedF64().Mul(step.get(zero))))
	})
}
