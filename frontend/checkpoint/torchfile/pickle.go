package torchfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
)

// The opcodes of pickle protocols 2 to 5, with the names of CPython's pickletools. Opcodes of protocols 0 and 1 that
// later picklers do not write are left out, and so are the extension registry and out-of-band buffers.
const (
	opMark           = '('
	opStop           = '.'
	opPop            = '0'
	opPopMark        = '1'
	opDup            = '2'
	opBinInt         = 'J'
	opBinInt1        = 'K'
	opBinInt2        = 'M'
	opNone           = 'N'
	opBinPersID      = 'Q'
	opReduce         = 'R'
	opBinString      = 'T'
	opShortBinString = 'U'
	opBinUnicode     = 'X'
	opAppend         = 'a'
	opBuild          = 'b'
	opGlobal         = 'c'
	opDict           = 'd'
	opEmptyDict      = '}'
	opAppends        = 'e'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opList           = 'l'
	opEmptyList      = ']'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opSetItem        = 's'
	opTuple          = 't'
	opEmptyTuple     = ')'
	opSetItems       = 'u'
	opBinFloat       = 'G'
	opProto          = 0x80
	opNewObj         = 0x81
	opTuple1         = 0x85
	opTuple2         = 0x86
	opTuple3         = 0x87
	opNewTrue        = 0x88
	opNewFalse       = 0x89
	opLong1          = 0x8a
	opLong4          = 0x8b
	opBinBytes       = 'B'
	opShortBinBytes  = 'C'
	opShortBinUni    = 0x8c
	opBinUnicode8    = 0x8d
	opBinBytes8      = 0x8e
	opEmptySet       = 0x8f
	opAddItems       = 0x90
	opFrozenSet      = 0x91
	opNewObjEx       = 0x92
	opStackGlobal    = 0x93
	opMemoize        = 0x94
	opFrame          = 0x95
	opByteArray8     = 0x96
)

// maxLong bounds the bytes of one integer.
const maxLong = 1 << 10

// mark is the value that opMark pushes.
type mark struct{}

// machine is the pickle virtual machine, without calls of functions. An opcode takes time and memory in proportion to
// its input. Copies draw on budget, values on room.
type machine struct {
	in    []byte
	at    int
	stack []any
	memo  []any          // values by key, as picklers number them: consecutively
	other map[uint32]any // those with keys that are not
	room  int64          // remaining bytes for values

	watch    *ends.Watch
	storages storages
	budget   int64           // remaining bytes for copies, into tensors and by calls of constructors
	bools    map[string]bool // storages whose bytes have been checked to be bools
}

var errBudget = errors.New("the file's values take more memory than its size allows")

// spend subtracts n values of 16 bytes from the budget.
func (m *machine) spend(n int) error {
	if m.budget -= 16 * int64(n); m.budget < 0 {
		return errBudget
	}
	return nil
}

// room returns the bytes that the values of a pickle may take. An opcode of one byte may make a value of a hundred, but
// the pickle of a checkpoint has several bytes for each.
func room(pickle []byte) int64 { return min(16*int64(len(pickle)), 1<<30) + 16<<20 }

// errRoom says that a pickle exceeds its room.
var errRoom = errors.New("the pickle makes more values than its size allows")

// The bytes that values take about, besides their content.
const (
	sizeOfEntry     = 16 // on the stack, in a list, in the memo
	sizeOfContainer = 64
	sizeOfObject    = 160
)

// made pushes a new value.
func (m *machine) made(v any) error {
	size := int64(sizeOfEntry)
	switch v := v.(type) {
	case *list, *tuple, *set, *dict:
		size = sizeOfContainer
	case *object, *storage, *tensor.Tensor, *big.Int:
		size = sizeOfObject
	case string:
		size += int64(len(v))
	case []byte:
		size += int64(len(v))
	}
	if m.room -= size; m.room < 0 {
		return errRoom
	}
	return m.push(v)
}

// run executes a pickle and returns its value as a tree.
func (m *machine) run(in []byte) (any, error) {
	m.in, m.room = in, room(in)
	for {
		at := m.at
		op, err := m.take(1)
		if err == nil && op[0] == opStop {
			v, err := m.result()
			if err != nil {
				return nil, err
			}
			return (&tree{watch: m.watch, limit: 1<<16 + len(in)}).plain(v)
		}
		if err == nil {
			m.watch.Step(1)
			err = m.step(op[0])
		}
		if err != nil {
			return nil, fmt.Errorf("at byte %d: %w", at, err)
		}
	}
}

func (m *machine) result() (any, error) {
	if m.at != len(m.in) {
		return nil, fmt.Errorf("%d bytes follow the end of the pickle", len(m.in)-m.at)
	}
	if len(m.stack) != 1 {
		return nil, fmt.Errorf("pickle ends with %d values, expected 1", len(m.stack))
	}
	return m.pop()
}

func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.in)-m.at) {
		return nil, errors.New("pickle ends early")
	}
	b := m.in[m.at : m.at+int(n)]
	m.at += int(n)
	return b, nil
}

// uint reads an unsigned little-endian number of n bytes.
func (m *machine) uint(n uint64) (uint64, error) {
	b, err := m.take(n)
	if err != nil {
		return 0, err
	}
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:]), nil
}

// counted reads a length of n bytes, and then as many bytes.
func (m *machine) counted(n uint64) ([]byte, error) {
	k, err := m.uint(n)
	if err != nil {
		return nil, err
	}
	return m.take(k)
}

func (m *machine) line() (string, error) {
	i := bytes.IndexByte(m.in[m.at:], '\n')
	if i < 0 {
		return "", errors.New("pickle ends early")
	}
	s := string(m.in[m.at : m.at+i])
	m.at += i + 1
	return s, nil
}

func (m *machine) push(v any) error {
	if m.room -= sizeOfEntry; m.room < 0 {
		return errRoom
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) pop() (any, error) {
	n := len(m.stack)
	if n == 0 {
		return nil, errors.New("stack is empty")
	}
	v := m.stack[n-1]
	if _, ok := v.(mark); ok {
		return nil, errors.New("found a mark where a value should be")
	}
	m.stack = m.stack[:n-1]
	return v, nil
}

// popMark pops the last mark and everything above it, which it returns.
func (m *machine) popMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			items := slices.Clone(m.stack[i+1:])
			m.stack = m.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("no mark on the stack")
}

func (m *machine) top() (any, error) {
	v, err := m.pop()
	if err == nil {
		m.stack = append(m.stack, v)
	}
	return v, err
}

func (m *machine) popN(n int) ([]any, error) {
	items := make([]any, n)
	for i := n - 1; i >= 0; i-- {
		var err error
		if items[i], err = m.pop(); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// step executes one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		v, err := m.uint(1)
		if err == nil && v > 5 {
			err = fmt.Errorf("pickle protocol %d, at most 5 is read", v)
		}
		return err
	case opFrame:
		_, err := m.uint(8) // framing is for streams, but the whole pickle is in memory
		return err
	case opMark:
		return m.push(mark{})
	case opPop:
		if n := len(m.stack); n > 0 { // it may pop a mark
			m.stack = m.stack[:n-1]
			return nil
		}
		return errors.New("stack is empty")
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		v, err := m.top()
		if err != nil {
			return err
		}
		return m.push(v)
	case opNone:
		return m.push(nil)
	case opNewTrue:
		return m.push(true)
	case opNewFalse:
		return m.push(false)
	case opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opBinFloat:
		return m.number(op)
	case opBinUnicode, opShortBinUni, opBinUnicode8, opBinString, opShortBinString, opBinBytes, opShortBinBytes,
		opBinBytes8, opByteArray8:
		return m.text(op)
	case opEmptyList, opList, opAppend, opAppends, opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3,
		opEmptyDict, opDict, opSetItem, opSetItems, opEmptySet, opAddItems, opFrozenSet:
		return m.container(op)
	case opBinGet, opLongBinGet, opBinPut, opLongBinPut, opMemoize:
		return m.memory(op)
	case opGlobal, opStackGlobal, opReduce, opNewObj, opNewObjEx, opBuild, opBinPersID:
		return m.build(op)
	}
	return fmt.Errorf("opcode %#02x is not one of pickle protocols 2 to 5, or needs more than data", op)
}

func (m *machine) number(op byte) error {
	switch op {
	case opBinInt:
		v, err := m.uint(4)
		if err != nil {
			return err
		}
		return m.made(int64(int32(v)))
	case opBinInt1, opBinInt2:
		n := uint64(1)
		if op == opBinInt2 {
			n = 2
		}
		v, err := m.uint(n)
		if err != nil {
			return err
		}
		return m.made(int64(v))
	case opBinFloat:
		b, err := m.take(8)
		if err != nil {
			return err
		}
		return m.made(math.Float64frombits(binary.BigEndian.Uint64(b)))
	}
	n := uint64(1)
	if op == opLong4 {
		n = 4
	}
	b, err := m.counted(n)
	if err != nil {
		return err
	}
	if len(b) > maxLong {
		return fmt.Errorf("integer of %d bytes, at most %d are read", len(b), maxLong)
	}
	return m.made(long(b))
}

// long decodes a little-endian two's complement integer.
func long(b []byte) any {
	be := slices.Clone(b)
	slices.Reverse(be)
	v := new(big.Int).SetBytes(be)
	if len(be) > 0 && be[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(be))))
	}
	if v.IsInt64() {
		return v.Int64()
	}
	return v
}

func (m *machine) text(op byte) error {
	var width uint64
	switch op {
	case opShortBinUni, opShortBinString, opShortBinBytes:
		width = 1
	case opBinUnicode, opBinString, opBinBytes:
		width = 4
	default:
		width = 8
	}
	b, err := m.counted(width)
	if err != nil {
		return err
	}
	switch op {
	case opBinBytes, opShortBinBytes, opBinBytes8, opByteArray8:
		return m.made(slices.Clone(b))
	}
	if !utf8.Valid(b) { // as torch reads it, also for Python 2's str
		return errors.New("string is not UTF-8")
	}
	return m.made(string(b))
}

func (m *machine) container(op byte) error {
	switch op {
	case opEmptyList:
		return m.made(&list{})
	case opEmptyTuple:
		return m.made(&tuple{})
	case opEmptyDict:
		return m.made(&dict{})
	case opEmptySet:
		return m.made(&set{})
	case opTuple1, opTuple2, opTuple3:
		items, err := m.popN(int(op-opTuple1) + 1)
		if err != nil {
			return err
		}
		return m.made(&tuple{items: items})
	case opAppend:
		items, err := m.popN(1)
		if err != nil {
			return err
		}
		return m.extend(items)
	case opSetItem:
		items, err := m.popN(2)
		if err != nil {
			return err
		}
		return m.update(items)
	}
	items, err := m.popMark()
	if err != nil {
		return err
	}
	switch op {
	case opList:
		return m.made(&list{items: items})
	case opTuple:
		return m.made(&tuple{items: items})
	case opFrozenSet:
		return m.made(&set{items: items})
	case opDict:
		if err := m.made(&dict{}); err != nil {
			return err
		}
		return m.update(items)
	case opSetItems:
		return m.update(items)
	}
	return m.extend(items) // opAppends, opAddItems
}

// extend adds items to the list or set on top of the stack, or to an instance of a subclass.
func (m *machine) extend(items []any) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case *list:
		v.items = append(v.items, items...)
	case *set:
		v.items = append(v.items, items...)
	case *object:
		if v.list == nil {
			v.list = &list{}
		}
		v.list.items = append(v.list.items, items...)
	default:
		return fmt.Errorf("found %s where a list or set should be", kind(v))
	}
	return nil
}

// update puts pairs of keys and values into the dict on top of the stack, or into an instance of a subclass.
func (m *machine) update(pairs []any) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	var d *dict
	switch v := v.(type) {
	case *dict:
		d = v
	case *object:
		if v.dict == nil {
			v.dict = &dict{}
		}
		d = v.dict
	default:
		return fmt.Errorf("found %s where a dict should be", kind(v))
	}
	if len(pairs)%2 != 0 {
		return errors.New("a key without a value")
	}
	if m.room -= sizeOfContainer * int64(len(pairs)); m.room < 0 {
		return errRoom
	}
	for i := 0; i < len(pairs); i += 2 {
		if err := d.set(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) memory(op byte) error {
	var key uint64
	var err error
	switch op {
	case opBinGet, opBinPut:
		key, err = m.uint(1)
	case opLongBinGet, opLongBinPut:
		key, err = m.uint(4)
	case opMemoize:
		key = uint64(len(m.memo) + len(m.other))
	}
	if err != nil {
		return err
	}
	if op == opBinGet || op == opLongBinGet {
		if key < uint64(len(m.memo)) {
			return m.push(m.memo[key])
		}
		v, ok := m.other[uint32(key)]
		if !ok {
			return fmt.Errorf("nothing was memoized as %d", key)
		}
		return m.push(v)
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	return m.memoize(key, v)
}

// memoize keeps a value under a key.
func (m *machine) memoize(key uint64, v any) error {
	switch n := uint64(len(m.memo)); {
	case key < n:
		m.memo[key] = v
		return nil
	case key == n && m.other[uint32(key)] == nil:
		m.room -= sizeOfEntry
		m.memo = append(m.memo, v)
	default:
		if m.other == nil {
			m.other = map[uint32]any{}
		}
		m.room -= sizeOfContainer
		m.other[uint32(key)] = v
	}
	if m.room < 0 {
		return errRoom
	}
	return nil
}
