package record

import (
	"testing"

	"github.com/essmc/essmc/runtime/lowering"
)

// The file of each kernel registers it: what files state of one operator is joined, and stated once.
func TestRegister(t *testing.T) {
	const op = "test.Register"
	defer delete(Records, op)
	row := func(*lowering.Step) RowMaker { return nil }
	tensor := func(*lowering.Step) TensorMaker { return nil }
	Register(Record{Op: op, Tensor: TensorKind{Make: tensor}, Keeps: true})
	Register(Record{Op: op, Row: RowKind{Make: row, Constant: []int{1}}})
	r := Records[op]
	if r == nil || r.Tensor.Make == nil || r.Row.Make == nil || len(r.Row.Constant) != 1 || !r.Keeps || r.Op != op {
		t.Errorf("joined: %+v", r)
	}
	for _, second := range []Record{{Op: op, Row: RowKind{Make: row}}, {Op: op, Keeps: true}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("accepted a second time: %+v", second)
				}
			}()
			Register(second)
		}()
	}
}
