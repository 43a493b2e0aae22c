package kernel

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Operand is a tensor that a kernel reads or writes, with its layout along the axes of a shape.
type Operand struct {
	Buffer Buffer
	Type   tensor.DType
	// Offset is the offset of the first element, and Strides the distances of neighbours along each axis, both in
	// elements. Stride 0 repeats elements (broadcasting); negative strides reverse their order. Nil strides mean
	// row-major order.
	Offset  int
	Strides []int
}

// Dense returns a tensor in row-major order.
func Dense(b Buffer, t tensor.DType) Operand { return Operand{Buffer: b, Type: t} }

// rowMajor returns the strides of a tensor in row-major order.
func rowMajor(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// maxItems is the maximum number of elements of one launch, so that their numbers are below 2^31.
const maxItems = 1 << 30

// eachPart calls f for parts of a shape of at most limit elements, with the layout of the operands in the part. The
// first operand is the result. It minimizes the number of axes: axes of size 1 are dropped, and neighbours that are
// one axis in all operands are joined.
func eachPart(shape []int, list []Operand, limit int, f func(shape []int, list []Operand)) {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Strides == nil {
			list[i].Strides = rowMajor(shape)
		}
	}
	if slices.Contains(shape, 0) {
		return
	}
	var dims []int
	strides := make([][]int, len(list))
	for d, n := range shape {
		if n == 1 {
			continue
		}
		last := len(dims) - 1
		join := last >= 0
		for i := range list {
			join = join && strides[i][last] == list[i].Strides[d]*n
		}
		if join {
			dims[last] *= n
		} else {
			dims = append(dims, n)
		}
		for i := range list {
			if join {
				strides[i][last] = list[i].Strides[d]
			} else {
				strides[i] = append(strides[i], list[i].Strides[d])
			}
		}
	}
	for i := range list {
		list[i].Strides = strides[i]
	}
	split(dims, list, limit, f)
}

func split(dims []int, list []Operand, limit int, f func(shape []int, list []Operand)) {
	inner := 1
	for _, n := range dims {
		inner *= n
	}
	if inner <= limit {
		if len(dims) == 0 { // one element
			dims = []int{1}
			for i := range list {
				list[i].Strides = []int{1}
			}
		}
		f(dims, list)
		return
	}
	inner /= dims[0]
	step := max(1, limit/inner)
	for from := 0; from < dims[0]; from += step {
		part := slices.Clone(list)
		for i := range part {
			part[i].Offset += from * part[i].Strides[0]
		}
		n := min(step, dims[0]-from)
		if n > 1 || len(dims) == 1 {
			split(append([]int{n}, dims[1:]...), part, limit, f)
			continue
		}
		for i := range part {
			part[i].Strides = part[i].Strides[1:]
		}
		split(dims[1:], part, limit, f)
	}
}

// divider returns the constants for dividing numbers below 2^31 by n, from 1 to 2^31-1: add the upper half of the
// product with magic and the number, then shift by shift.
func divider(n int) (magic uint32, shift int) {
	s := bits.Len32(uint32(n - 1))
	return uint32(uint64(1<<s-uint64(n))<<32/uint64(n)) + 1, s
}

// axis is an axis of a shape in a kernel: its length, and the constants to divide by it.
type axis struct{ n, magic, shift ptx.U32 }

func axisParam(k *ptx.Kernel, d int) axis {
	return axis{k.U32Param(fmt.Sprintf("n%d", d)), k.U32Param(fmt.Sprintf("magic%d", d)), k.U32Param(fmt.Sprintf("shift%d", d))}
}

func axisArgs(n int) []Arg {
	magic, shift := divider(n)
	return []Arg{U32(n), {bits: uint64(magic), size: 4}, U32(shift)}
}

// divide returns the quotient of x by the axis' length, and the remainder.
func (a axis) divide(x ptx.U32) (q, rest ptx.U32) {
	q = x.MulHi(a.magic).Add(x).Shr(a.shift)
	return q, x.Sub(q.Mul(a.n))
}

// places appends code that computes the offsets of operands, in elements, from coordinates of all axes. Operands
// with equal strides share an offset. Strides are parameters, unless they are 0.
type places struct {
	groups [][]int // of strides
	of     []int   // by operand: index of its group
	far    bool    // strides have 64 bits
}

// newPlaces analyses strides; those along the last axis count unit times.
func newPlaces(list []Operand, unit int) *places {
	p := &places{}
	for _, o := range list {
		s := slices.Clone(o.Strides)
		s[len(s)-1] *= unit
		for _, x := range s {
			p.far = p.far || x != int(int32(x))
		}
		g := slices.IndexFunc(p.groups, func(t []int) bool { return slices.Equal(s, t) })
		if g < 0 {
			g = len(p.groups)
			p.groups = append(p.groups, s)
		}
		p.of = append(p.of, g)
	}
	return p
}

// key is everything that the code of the offsets depends on.
func (p *places) key() string {
	key := fmt.Sprint(p.of, p.far)
	for _, g := range p.groups {
		for _, s := range g {
			key += fmt.Sprint(s == 0)
		}
		key += ";"
	}
	return key
}

func (p *places) args() (args []Arg) {
	for _, g := range p.groups {
		for _, s := range g {
			switch {
			case s == 0:
			case p.far:
				args = append(args, U64(s))
			default:
				args = append(args, S32(s))
			}
		}
	}
	return args
}

// params adds the parameters, and returns a function from coordinates to the offsets of the groups.
func (p *places) params(k *ptx.Kernel) func(c []ptx.U32) []ptx.U64 {
	strides := make([][]any, len(p.groups))
	for g, list := range p.groups {
		strides[g] = make([]any, len(list))
		for d, s := range list {
			switch name := fmt.Sprintf("stride%d_%d", g, d); {
			case s == 0:
			case p.far:
				strides[g][d] = k.U64Param(name)
			default:
				strides[g][d] = k.S32Param(name)
			}
		}
	}
	return func(c []ptx.U32) []ptx.U64 {
		at := make([]ptx.U64, len(p.groups))
		for g := range at {
			at[g] = ptx.L(0)
			for d, s := range strides[g] {
				switch s := s.(type) {
				case ptx.U64:
					at[g] = c[d].Wide().MAD(s, at[g])
				case ptx.S32:
					at[g] = c[d].S32().MADWide(s, at[g])
				}
			}
		}
		return at
	}
}

const mapThreads = 256

// mapped returns launches that compute each element of list[0] from the elements of the others at the same position.
// compute returns the bits of a result; it must depend only on the key. If memory is contiguous, a thread computes 4
// neighbours.
func mapped(name, key string, shape []int, list []Operand, compute func(k *ptx.Kernel, in []raw) raw) (calls []Call) {
	eachPart(shape, list, maxItems, func(dims []int, list []Operand) {
		calls = append(calls, mapPart(name, key, dims, list, compute))
	})
	return calls
}

func mapPart(name, key string, dims []int, list []Operand, compute func(k *ptx.Kernel, in []raw) raw) Call {
	last := len(dims) - 1
	unit := 4
	if list[0].Strides[last] != 1 || last > 0 && dims[last]%4 != 0 {
		unit = 1
	}
	for _, o := range list {
		switch o.Strides[last] {
		case 0:
			continue
		case 1:
		default:
			unit = 1
		}
		for _, s := range append(o.Strides[:last:last], o.Offset) {
			if s%4 != 0 {
				unit = 1
			}
		}
	}
	count := dims[0]
	var args []Arg
	if last > 0 {
		count = 1
		for d, n := range dims {
			if d == last {
				n /= unit
			}
			if count *= n; d > 0 {
				args = append(args, axisArgs(n)...)
			}
		}
	}
	p := newPlaces(list, unit)
	args = append([]Arg{U32(count)}, append(args, p.args()...)...)
	sizes, repeats := make([]int, len(list)), make([]bool, len(list))
	for i, o := range list {
		sizes[i] = o.Type.Bits() / 8
		repeats[i] = o.Strides[last] == 0
		args = append(args, PtrAt(o.Buffer, o.Offset*sizes[i]))
	}
	if last == 0 {
		count = (count + unit - 1) / unit
	}
	code := cachedCode(fmt.Sprint("map ", name, key, len(dims), unit, sizes, repeats, p.key()), func() *Code {
		return New(name, mapThreads, func(k *ptx.Kernel) { mapCode(k, len(dims), unit, p, sizes, repeats, compute) })
	})
	return NewCall(code, driver.Dim{X: uint32((count + mapThreads - 1) / mapThreads), Y: 1, Z: 1}, args...)
}

func mapCode(k *ptx.Kernel, rank, unit int, p *places, sizes []int, repeats []bool,
	compute func(k *ptx.Kernel, in []raw) raw) {
	n := k.U32Param("n") // elements if there is one axis, otherwise items of unit elements
	axes := make([]axis, rank)
	for d := 1; d < rank; d++ {
		axes[d] = axisParam(k, d)
	}
	at := p.params(k)
	base := make([]ptx.Addr, len(sizes))
	for i := range base {
		base[i] = k.PtrParam(fmt.Sprintf("p%d", i))
	}
	i := k.BlockX().MAD(ptx.U(mapThreads), k.ThreadX())
	first := i
	if rank == 1 && unit > 1 {
		first = i.Mul(ptx.U(unit))
	}
	k.If(first.Lt(n), func() {
		c, rest := make([]ptx.U32, rank), i
		for d := rank - 1; d > 0; d-- {
			rest, c[d] = axes[d].divide(rest)
		}
		c[0] = rest
		place, addr := at(c), make([]ptx.Addr, len(base))
		for j := range addr {
			addr[j] = base[j].Index64(place[p.of[j]], sizes[j])
		}
		in := make([][]raw, len(base)) // by operand and element
		for j := 1; j < len(base); j++ {
			if repeats[j] {
				x := load(addr[j], sizes[j], 1)[0]
				for range unit {
					in[j] = append(in[j], x)
				}
			}
		}
		results := func() []raw {
			out := make([]raw, unit)
			for e := range out {
				of := make([]raw, len(base)-1)
				for j := range of {
					of[j] = in[j+1][e]
				}
				out[e] = compute(k, of)
			}
			return out
		}
		read := func() {
			for j := 1; j < len(base); j++ {
				if !repeats[j] {
					in[j] = load(addr[j], sizes[j], unit)
				}
			}
		}
		if rank > 1 || unit == 1 {
			read()
			store(addr[0], sizes[0], results())
			return
		}
		for j := 1; j < len(base); j++ {
			if !repeats[j] {
				for range unit {
					in[j] = append(in[j], variable(k, sizes[j]))
				}
			}
		}
		all := in
		whole := first.Add(ptx.U(unit)).Le(n)
		set := func(x []raw, j, e int) {
			if sizes[j] == 8 {
				all[j][e].long.Set(x[0].long)
			} else {
				all[j][e].low.Set(x[0].low)
			}
		}
		k.IfElse(whole, func() {
			for j := 1; j < len(base); j++ {
				if !repeats[j] {
					for e, x := range load(addr[j], sizes[j], unit) {
						set([]raw{x}, j, e)
					}
				}
			}
		}, func() {
			left := n.Sub(first).Sub(ptx.U(1))
			for e := range unit {
				for j := 1; j < len(base); j++ {
					if !repeats[j] { // past the end, the last one again
						set(load(addr[j].Index(left.Min(ptx.U(e)), sizes[j]), sizes[j], 1), j, e)
					}
				}
			}
		})
		out := results()
		k.IfElse(whole, func() { store(addr[0], sizes[0], out) }, func() {
			for e := range unit {
				k.If(first.Add(ptx.U(e)).Lt(n), func() {
					store(addr[0].Index(ptx.U(e), sizes[0]), sizes[0], out[e:e+1])
				})
			}
		})
	})
}

// variable returns an element that set can change.
func variable(k *ptx.Kernel, size int) raw {
	if size == 8 {
		return raw{long: k.VarU64(ptx.L(0))}
	}
	return raw{low: k.VarU32(ptx.U(0))}
}
