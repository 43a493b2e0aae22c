package integers

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Functions of one byte and constants. Their 256 values are evaluated when shapes are bound, so the answers are
// bitwise the operators' own.
func init() {
	record.Register(
		record.Record{Op: "com.microsoft.QLinearSigmoid", Numbers: byTable, Tensor: record.TensorKind{Make: byteTableKernel}},
		record.Record{Op: "com.microsoft.QLinearLeakyRelu", Numbers: byTable, Tensor: record.TensorKind{Make: byteTableKernel}},
		record.Record{Op: "essm.ByteTable", Numbers: byTable, Tensor: record.TensorKind{Make: givenTableKernel}},
	)
}

// byteTable has the values of a function for each byte.
type byteTable struct {
	values [256]byte
	x, y   []byte
}

// tableItem is the number of elements of a work item.
const tableItem = 1 << 15

func byteTableKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || !record.ByteTyped(s, 0) {
		return nil
	}
	for i := 1; i < len(s.In); i++ {
		if !s.Absent(i) && (s.In[i].Const == nil || s.In[i].Const.Len() != 1) {
			return nil
		}
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		x, y := s.In[0], s.Out[0]
		if y == nil || d.Shape(x) == nil || d.Shape(y) == nil || d.DType(y) != d.DType(x) {
			return nil
		}
		node := d.Concrete(s)
		if node == nil {
			return nil
		}
		all := tensor.New(d.DType(x), 256)
		for i := range all.Bytes() {
			all.Bytes()[i] = byte(i)
		}
		node.Inputs[0] = &ir.Value{Name: x.Name, Type: lowering.TypeOf(all.DType(), all.Shape())}
		data := []tensor.Datum{all}
		for _, in := range s.In[1:] {
			var k tensor.Datum
			if in != nil {
				k = in.Const
			}
			data = append(data, k)
		}
		res, err := d.Evaluate(node, data)
		if err != nil || len(res) != 1 {
			return nil
		}
		values, ok := res[0].(*tensor.Tensor)
		if !ok || values.DType() != all.DType() || values.Len() != 256 {
			return nil
		}
		return newByteTable(d, s, values.Bytes())
	}
}

// givenTableKernel supports ByteTable with a constant table.
func givenTableKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) || s.In[1].Const == nil || s.In[1].Const.Len() != 256 {
		return nil
	}
	table := s.In[1].Const
	return func(d *lowering.Binding) *record.TensorKernel {
		if s.Out[0] == nil || d.Shape(s.In[0]) == nil || d.Shape(s.Out[0]) == nil {
			return nil
		}
		return newByteTable(d, s, table.Bytes())
	}
}

func newByteTable(d *lowering.Binding, s *lowering.Step, values []byte) *record.TensorKernel {
	t := &byteTable{values: [256]byte(values)}
	in, out := ByteSlotOf(d, s.In[0]), ByteSlotOf(d, s.Out[0])
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		t.x, t.y = in.In(f).Data, out.In(f).Data
		return e.Parallel(t, (len(t.x)+tableItem-1)/tableItem)
	}}
}

func (t *byteTable) Do(_ *record.Workspace, k int) {
	x, y := t.x[k*tableItem:], t.y[k*tableItem:]
	x = x[:min(len(x), tableItem)]
	kernel.TableBytes(y, x, &t.values)
}
