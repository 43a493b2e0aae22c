package torchfile

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
)

// storages returns the bytes of a storage by its key.
type storages interface {
	storage(key string) ([]byte, error)
}

// storage is the object of a persistent id. Dtype is Invalid for an untyped one, whose count is in bytes.
type storage struct {
	dtype tensor.DType
	key   string
	count int64
}

// newStorage reads a persistent id: ("storage", type, key, location, count).
func newStorage(id any) (*storage, error) {
	t, ok := id.(*tuple)
	if !ok || len(t.items) < 5 || t.items[0] != "storage" {
		return nil, fmt.Errorf("found %s where the id of a storage should be", kind(id))
	}
	class, ok1 := t.items[1].(*object)
	key, ok2 := t.items[2].(string)
	count, ok3 := t.items[4].(int64)
	if !ok1 || !ok2 || !ok3 || class.called || count < 0 {
		return nil, fmt.Errorf("storage id (%s, %s, %s, %s, %s) is malformed", kind(t.items[0]), kind(t.items[1]),
			kind(t.items[2]), kind(t.items[3]), kind(t.items[4]))
	}
	s := &storage{key: key, count: count}
	switch {
	case class.name == "UntypedStorage" && (class.module == "torch" || class.module == "torch.storage"):
	case class.module == "torch" || class.module == "torch.cuda":
		if s.dtype, ok = storageTypes[class.name]; ok {
			break
		}
		fallthrough
	default:
		return nil, fmt.Errorf("storage %q: unknown type %s.%s", key, class.module, class.name)
	}
	return s, nil
}

// tensor returns the result of torch._utils._rebuild_tensor (storage, offset, size, stride), its v2 (…, requires_grad,
// hooks, metadata) or its v3 (…, requires_grad, hooks, dtype, metadata). A tensor in row-major order is a view of its
// storage. All others are copies.
func (m *machine) tensor(name string, arg []any) (*tensor.Tensor, error) {
	if len(arg) < 4 {
		return nil, fmt.Errorf("%s: found %d arguments, expected at least 4", name, len(arg))
	}
	s, ok1 := arg[0].(*storage)
	offset, ok2 := arg[1].(int64)
	size, ok3 := ints(arg[2])
	stride, ok4 := ints(arg[3])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(size) != len(stride) || len(size) > MaxRank || offset < 0 {
		return nil, fmt.Errorf("%s: found (%s, %s, %s, %s), expected a storage, an offset, sizes and strides", name,
			kind(arg[0]), kind(arg[1]), kind(arg[2]), kind(arg[3]))
	}
	dtype := s.dtype
	if name == "_rebuild_tensor_v3" {
		if len(arg) < 7 {
			return nil, fmt.Errorf("%s: found %d arguments, expected at least 7", name, len(arg))
		}
		var ok bool
		if dtype, ok = arg[6].(tensor.DType); !ok {
			return nil, fmt.Errorf("%s: found %s where a dtype should be", name, kind(arg[6]))
		}
	}
	if dtype == tensor.Invalid {
		return nil, fmt.Errorf("%s: storage %q has no element type", name, s.key)
	}
	data, err := m.storages.storage(s.key)
	if err != nil {
		return nil, err
	}
	width := dtype.Bits() / 8
	unit := width
	if s.dtype == tensor.Invalid {
		unit = 1
	}
	if hi, n := bits.Mul64(uint64(s.count), uint64(unit)); hi != 0 || n != uint64(len(data)) {
		return nil, fmt.Errorf("storage %q: %d elements of %d bytes announced, found %d bytes", s.key, s.count, unit,
			len(data))
	}
	if dtype == tensor.Bool {
		if err := m.checkBools(s.key, data); err != nil {
			return nil, err
		}
	}
	t, err := m.strided(dtype, data, offset, size, stride)
	if err != nil {
		return nil, fmt.Errorf("tensor of size %v, stride %v, offset %d in storage %q: %w", size, stride, offset, s.key,
			err)
	}
	return t, nil
}

// checkBools checks a storage of bools, once.
func (m *machine) checkBools(key string, data []byte) error {
	if m.bools[key] {
		return nil
	}
	for i, b := range data {
		if i&0xffff == 0xffff {
			m.watch.Check()
		}
		if b > 1 {
			return fmt.Errorf("storage %q: element %d is byte %d, a bool is 0 or 1", key, i, b)
		}
	}
	if m.bools == nil {
		m.bools = map[string]bool{}
	}
	m.bools[key] = true
	return nil
}

func (m *machine) strided(dtype tensor.DType, data []byte, offset int64, size, stride []int64) (*tensor.Tensor, error) {
	width := dtype.Bits() / 8
	shape := make([]int, len(size))
	rowMajor := true
	last, step := uint64(offset), uint64(1) // index of the last element; stride in row-major order
	for i := len(size) - 1; i >= 0; i-- {
		if size[i] < 0 || stride[i] < 0 {
			return nil, fmt.Errorf("negative size or stride")
		}
		shape[i] = int(size[i])
	}
	n, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return tensor.New(dtype, shape...), nil
	}
	for i := len(size) - 1; i >= 0; i-- {
		rowMajor = rowMajor && (size[i] == 1 || uint64(stride[i]) == step)
		step *= uint64(size[i])
		hi, d := bits.Mul64(uint64(size[i]-1), uint64(stride[i]))
		sum, carry := bits.Add64(last, d, 0)
		if hi != 0 || carry != 0 {
			return nil, tensor.ErrTooLarge
		}
		last = sum
	}
	if last >= uint64(len(data)/width) {
		return nil, fmt.Errorf("reaches element %d of %d", last, len(data)/width)
	}
	if rowMajor {
		at := int(offset) * width
		return tensor.FromBytesParts(m.watch.Check, dtype, shape, data[at:at+n*width])
	}
	if int64(n) > m.budget/int64(width) {
		return nil, errBudget
	}
	m.budget -= int64(n) * int64(width)
	t := tensor.NewParts(m.watch.Check, dtype, shape...)
	gather(m.watch, t.Bytes(), data[int(offset)*width:], width, shape, stride)
	return t, nil
}

// gather copies elements of a strided array into row-major order.
func gather(w *ends.Watch, dst, src []byte, width int, shape []int, stride []int64) []byte {
	w.Step(1)
	if len(shape) == 0 {
		copy(dst, src[:width])
		return dst[width:]
	}
	for i := range shape[0] {
		dst = gather(w, dst, src[i*int(stride[0])*width:], width, shape[1:], stride[1:])
	}
	return dst
}

func ints(v any) ([]int64, bool) {
	var items []any
	switch v := v.(type) {
	case *tuple:
		items = v.items
	case *list:
		items = v.items
	default:
		return nil, false
	}
	out := make([]int64, len(items))
	for i, x := range items {
		n, ok := x.(int64)
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}
