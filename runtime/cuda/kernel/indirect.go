package kernel

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Index is a column of indices, one per element of a shape. Each selects one of Dim slices with stride Along.
// Negative indices count from the end.
type Index struct {
	Operand // type int32 or int64
	Dim     int
	Along   int
}

// Gather returns launches that set each element of out to the element of data at its position plus the offsets that
// the indices add. If an index is out of range, nothing is read, the element is 0, and the number in fault, if
// given, is set to 1. ok is false for types and sizes that no kernel supports.
func Gather(shape []int, fault Buffer, out, data Operand, columns ...Index) (calls []Call, ok bool) {
	list := []Operand{out, data}
	for _, c := range columns {
		list = append(list, c.Operand)
	}
	size := out.Type.Bits() / 8
	if size != 1 && size != 2 && size != 4 && size != 8 || out.Type.Bits()%8 != 0 || !indexed(columns) {
		return nil, false
	}
	eachPart(shape, list, maxItems, func(dims []int, list []Operand) {
		calls = append(calls, gatherPart(dims, list, size, fault, columns))
	})
	return calls, true
}

func indexed(columns []Index) bool {
	for _, c := range columns {
		if c.Type != tensor.Int64 && c.Type != tensor.Int32 || c.Dim < 0 || c.Along < 0 {
			return false
		}
	}
	return len(columns) > 0
}

func gatherPart(dims []int, list []Operand, size int, fault Buffer, columns []Index) Call {
	last, unit := len(dims)-1, 4
	for i, o := range list {
		if want := 1; i < 2 && o.Strides[last] != want || i >= 2 && o.Strides[last] != 0 {
			unit = 1
		}
		if i < 2 && (o.Offset%4 != 0 || slices.ContainsFunc(o.Strides[:last], func(s int) bool { return s%4 != 0 })) {
			unit = 1
		}
	}
	if dims[last]%4 != 0 || slices.ContainsFunc(columns, func(c Index) bool { return c.Along%4 != 0 }) {
		unit = 1
	}
	p := newPlaces(list, unit)
	count, args := itemArgs(dims, unit)
	args = append(args, p.args()...)
	wide := make([]bool, len(columns))
	for i, o := range list {
		bytes := size
		if i >= 2 {
			c := columns[i-2]
			wide[i-2] = c.Type == tensor.Int64
			bytes = c.Type.Bits() / 8
			args = append(args, U64(c.Dim), U64(c.Along))
		}
		args = append(args, PtrAt(o.Buffer, o.Offset*bytes))
	}
	if fault != 0 {
		args = append(args, Ptr(fault))
	}
	code := cachedCode(fmt.Sprint("gather ", len(dims), unit, size, wide, fault != 0, p.key()), func() *Code {
		return New("gather", mapThreads, func(k *ptx.Kernel) {
			items(k, len(dims), p, func(at []ptx.U64) {
				out := k.PtrParam("p0").Index64(at[p.of[0]], size)
				in := k.PtrParam("p1")
				place, valid := indexParams(k, wide)(func(i int) ptx.U64 { return at[p.of[i+2]] })
				place = place.Add(at[p.of[1]])
				x := make([]raw, unit)
				for i := range x {
					x[i] = variable(k, size)
				}
				k.If(valid, func() {
					for i, y := range load(in.Index64(place, size), size, unit) {
						if size == 8 {
							x[i].long.Set(y.long)
						} else {
							x[i].low.Set(y.low)
						}
					}
				})
				report(k, fault, valid)
				store(out, size, x)
			})
		})
	})
	return NewCall(code, driver.Dim{X: uint32((count + mapThreads - 1) / mapThreads), Y: 1, Z: 1}, args...)
}

// itemArgs returns the number of items of unit elements along the last axis, and the arguments of items.
func itemArgs(dims []int, unit int) (count int, args []Arg) {
	count, args = 1, []Arg{{}}
	for d, n := range dims {
		if d == len(dims)-1 {
			n /= unit
		}
		if count *= n; d > 0 {
			args = append(args, axisArgs(n)...)
		}
	}
	args[0] = U32(count)
	return count, args
}

// items appends body for the thread's item of a shape of rank axes, with the offsets in the groups of p.
func items(k *ptx.Kernel, rank int, p *places, body func(at []ptx.U64)) {
	n := k.U32Param("n")
	axes := make([]axis, rank)
	for d := 1; d < rank; d++ {
		axes[d] = axisParam(k, d)
	}
	at := p.params(k)
	i := k.BlockX().MAD(ptx.U(mapThreads), k.ThreadX())
	k.If(i.Lt(n), func() {
		c, rest := make([]ptx.U32, rank), i
		for d := rank - 1; d > 0; d-- {
			rest, c[d] = axes[d].divide(rest)
		}
		c[0] = rest
		body(at(c))
	})
}

// indexParams adds the parameters of columns of indices. It returns a function that appends the sum of the offsets
// that they select, and whether all are in range; at is the offset of an index in its column.
func indexParams(k *ptx.Kernel, wide []bool) func(at func(i int) ptx.U64) (place ptx.U64, valid ptx.Pred) {
	dim, along, base := make([]ptx.U64, len(wide)), make([]ptx.U64, len(wide)), make([]ptx.Addr, len(wide))
	for i := range wide {
		dim[i], along[i] = k.U64Param(fmt.Sprintf("dim%d", i)), k.U64Param(fmt.Sprintf("along%d", i))
		base[i] = k.PtrParam(fmt.Sprintf("index%d", i))
	}
	return func(at func(i int) ptx.U64) (place ptx.U64, valid ptx.Pred) {
		for i, w := range wide {
			var x ptx.U64
			if w {
				x = base[i].Index64(at(i), 8).LoadU64(0)
			} else {
				x = base[i].Index64(at(i), 4).LoadS32(0).Wide()
			}
			x = x.SignedLt(ptx.L(0)).SelectU64(x.Add(dim[i]), x)
			within := x.Lt(dim[i])
			if i == 0 {
				place, valid = x.Mul(along[i]), within
			} else {
				place, valid = x.MAD(along[i], place), valid.And(within)
			}
		}
		return place, valid
	}
}

// report sets the number in fault to 1 where valid is false.
func report(k *ptx.Kernel, fault Buffer, valid ptx.Pred) {
	if fault != 0 {
		a := k.PtrParam("fault")
		k.If(valid.Not(), func() { a.SetBits(0, ptx.U(1)) })
	}
}

// Combination is how a scatter combines an element with an update.
type Combination string

// The combinations of ONNX's Scatter operators.
const (
	Replace Combination = "none"
	AddTo   Combination = "add"
	MulBy   Combination = "mul"
	MaxWith Combination = "max"
	MinWith Combination = "min"
)

// Scatter returns launches that combine elements of out with updates, one after the other for steps positions along
// the first axis of the shape (steps, …). An update is combined with the element at its position in out, whose
// stride along the first axis must be 0, plus the offsets that the indices add. Different threads must not reach the
// same element: positions that differ in any other coordinate than the first must be different elements. Updates
// with an index out of range are ignored, and the number in fault, if given, is set to 1.
func Scatter(shape []int, r Combination, fault Buffer, out, updates Operand, columns ...Index) (calls []Call, ok bool) {
	size := out.Type.Bits() / 8
	d, known := domainOf(out.Type)
	if r == Replace { // elements of any type
		list := []Operand{out, updates}
		_, list, known = asIntegers(shape, list)
		if known = known && size <= 8; known {
			out, updates, d = list[0], list[1], integer
		}
	}
	if !indexed(columns) || out.Strides[0] != 0 || !known || d == truth && r != Replace {
		return nil, false
	}
	list := []Operand{out, updates}
	for _, c := range columns {
		list = append(list, c.Operand)
	}
	steps, inner := shape[0], make([]Operand, len(list))
	jumps := make([]int, len(list)) // along the first axis
	for i, o := range list {
		if o.Strides == nil {
			o.Strides = rowMajor(shape)
		}
		inner[i], jumps[i] = o, o.Strides[0]
		inner[i].Strides = o.Strides[1:]
	}
	if steps == 0 || steps > maxItems {
		return nil, steps == 0
	}
	eachPart(shape[1:], inner, maxItems, func(dims []int, list []Operand) {
		calls = append(calls, scatterPart(dims, list, size, r, steps, jumps, fault, columns))
	})
	return calls, true
}

func scatterPart(dims []int, list []Operand, size int, r Combination, steps int, jumps []int, fault Buffer,
	columns []Index) Call {
	p := newPlaces(list, 1)
	count, args := itemArgs(dims, 1)
	args = append(args, p.args()...)
	args = append(args, U32(steps), PtrAt(list[0].Buffer, list[0].Offset*size), PtrAt(list[1].Buffer, list[1].Offset*size),
		U64(jumps[1]))
	wide := make([]bool, len(columns))
	for i, c := range columns {
		wide[i] = c.Type == tensor.Int64
		args = append(args, U64(jumps[i+2]))
	}
	for i, c := range columns {
		args = append(args, U64(c.Dim), U64(c.Along), PtrAt(c.Buffer, list[i+2].Offset*c.Type.Bits()/8))
	}
	t := list[0].Type
	if fault != 0 {
		args = append(args, Ptr(fault))
	}
	code := cachedCode(fmt.Sprint("scatter ", len(dims), t, r, wide, fault != 0, p.key()), func() *Code {
		return New("scatter", mapThreads, func(k *ptx.Kernel) {
			items(k, len(dims), p, func(at []ptx.U64) {
				n, out, in := k.U32Param("steps"), k.PtrParam("p0"), k.PtrParam("p1")
				jump, jumps := k.U64Param("jump"), make([]ptx.U64, len(wide))
				for i := range jumps {
					jumps[i] = k.U64Param(fmt.Sprintf("jump%d", i))
				}
				in = in.Index64(at[p.of[1]], size)
				params, all := indexParams(k, wide), k.VarU32(ptx.U(1))
				k.For(ptx.U(0), n, ptx.U(1), func(step ptx.U32) {
					place, valid := params(func(i int) ptx.U64 { return step.Wide().MAD(jumps[i], at[p.of[i+2]]) })
					all.Set(valid.SelectU32(all, ptx.U(0)))
					k.If(valid, func() {
						to := out.Index64(place.Add(at[p.of[0]]), size)
						x := load(in.Index64(step.Wide().Mul(jump), size), size, 1)[0]
						if r != Replace {
							x = combined(k, t, r, load(to, size, 1)[0], x)
						}
						store(to, size, []raw{x})
					})
				})
				report(k, fault, all.Ne(ptx.U(0)))
			})
		})
	})
	return NewCall(code, driver.Dim{X: uint32((count + mapThreads - 1) / mapThreads), Y: 1, Z: 1}, args...)
}

// combined returns the element x of type t, combined with an update.
func combined(k *ptx.Kernel, t tensor.DType, r Combination, x, update raw) raw {
	a, b := scalar.Input(0), scalar.Input(1)
	e := map[Combination]scalar.Expr{AddTo: scalar.Add(a, b), MulBy: scalar.Mul(a, b), MaxWith: scalar.Max(a, b),
		MinWith: scalar.Min(a, b)}[r]
	return plan(e, []tensor.DType{t, t}, t).compute(k, []raw{x, update})
}
