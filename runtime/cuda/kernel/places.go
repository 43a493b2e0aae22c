package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Places copies elements of x by tables: axes[a][i] is the index in x along axis a for index i of the result. sizes
// is the shape of x. Elements have 4 bytes. constant stores the tables. Places returns false for unsupported shapes.
func Places(y, x Buffer, sizes []int, axes [][]int, constant func(key string, make func() []byte) Buffer) (Call, bool) {
	n, m := 1, 1
	var table []uint32
	args := []Arg{Ptr(y), Ptr(x), {}, {}}
	for a := len(sizes) - 1; a >= 0; a-- {
		args = append(args, U32(len(axes[a])))
		for _, i := range axes[a] {
			table = append(table, uint32(i*n))
		}
		n *= sizes[a]
		m *= len(axes[a])
		if n > MaxRows || m > MaxRows {
			return Call{}, false
		}
	}
	args[2] = Ptr(constant(fmt.Sprint("places ", sizes, axes), func() []byte {
		var b []byte
		for _, v := range table {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}))
	args[3] = U32(m)
	c := New(fmt.Sprintf("places_%d", len(sizes)), 256, func(k *ptx.Kernel) {
		y, x, table, count := k.PtrParam("y"), k.PtrParam("x"), k.PtrParam("table"), k.U32Param("count")
		i := k.BlockX().MAD(ptx.U(256), k.ThreadX())
		size := make([]ptx.U32, len(sizes))
		for a := range size {
			size[a] = k.U32Param(fmt.Sprintf("size%d", a))
		}
		k.If(i.Lt(count), func() {
			rest, at, first := i, k.VarU32(ptx.U(0)), k.VarU32(ptx.U(0))
			for _, s := range size {
				q := rest.Div(s)
				at.Set(at.Add(table.Index(first.Add(rest.Sub(q.Mul(s))), 4).ConstU32(0)))
				first.Set(first.Add(s))
				rest = q
			}
			y.Index(i, 4).StoreU32(0, x.Index(at, 4).LoadU32(0))
		})
	})
	return NewCall(c, driver.Dim{X: uint32((m + 255) / 256), Y: 1, Z: 1}, args...), true
}

// PlacesOf is Places for elements of any type of whole bytes up to 8. At indices of -1 the result is beyond.
func PlacesOf(y, x Tensor, sizes []int, axes [][]int, beyond float64, constant func(key string, make func() []byte) Buffer) (Call, bool) {
	_, known := domainOf(x.Type)
	count, outside := 1, false
	var table []byte
	var shape []int
	for a, list := range axes {
		for _, i := range list {
			outside = outside || i < 0
			table = binary.LittleEndian.AppendUint32(table, uint32(int32(i)))
		}
		shape = append(shape, len(list))
		count *= len(list)
		if count > MaxRows || !fits(sizes[:a+1]...) {
			return Call{}, false
		}
	}
	if x.Type.Bits() > 64 || x.Type.Bits()%8 != 0 || outside && !known || len(axes) == 0 {
		return Call{}, false
	}
	tables := constant(fmt.Sprint("places of ", sizes, axes), func() []byte { return table })
	return each(fmt.Sprintf("places_of_%v_%d_%t", x.Type, len(axes), outside), count, func(d *plain, i ptx.U32) {
		out, in := vector{d.address(y.Buffer), x.Type}, vector{d.address(x.Buffer), x.Type}
		at, from := d.address(tables), d.VarU32(ptx.U(0))
		ok, start := from.Eq(from), d.VarU32(ptx.U(0))
		for a, c := range index(i, d.sizes(shape...)) {
			k := at.Index(start.Add(c), 4).ConstU32(0)
			ok = ok.And(k.S32().Ge(ptx.I(0)))
			from = from.MAD(d.size(sizes[a]), k)
			start.Set(d.size(sum(shape[:a+1])))
		}
		if !outside {
			out.copyTo(i.Wide(), in, from.Wide())
			return
		}
		d.IfElse(ok, func() { out.copyTo(i.Wide(), in, from.Wide()) }, func() {
			out.set(i.Wide(), d.float(beyond))
		})
	})
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// SubsetProducts multiplies rows of each of batch sequences of length rows: row t of the result is the product of
// the size rows whose indices are in subsets from t·size on. It returns false for unsupported shapes.
func SubsetProducts(y, x, subsets Buffer, batch, length, features, size int) (Call, bool) {
	count := batch * length * features
	if count > MaxRows {
		return Call{}, false
	}
	c := New(fmt.Sprintf("subset_products_%d", size), 256, func(k *ptx.Kernel) {
		y, x, subsets, count := k.PtrParam("y"), k.PtrParam("x"), k.PtrParam("subsets"), k.U32Param("count")
		length, features := k.U32Param("length"), k.U32Param("features")
		i := k.BlockX().MAD(ptx.U(256), k.ThreadX())
		k.If(i.Lt(count), func() {
			row := i.Div(features)
			feature := i.Sub(row.Mul(features))
			sample := row.Div(length)
			step := row.Sub(sample.Mul(length))
			var all ptx.F64
			for f := range size {
				from := subsets.Index(step.MAD(ptx.U(size), ptx.U(f)), 4).ConstU32(0)
				v := x.Index(sample.MAD(length, from).MAD(features, feature), 4).LoadF32(0).F64()
				if f == 0 {
					all = v
				} else {
					all = all.Mul(v)
				}
			}
			y.Index(i, 4).StoreF32(0, all.F32())
		})
	})
	return NewCall(c, driver.Dim{X: uint32((count + 255) / 256), Y: 1, Z: 1}, Ptr(y), Ptr(x), Ptr(subsets), U32(count), U32(length),
		U32(features)), true
}
