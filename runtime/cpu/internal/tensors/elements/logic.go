package elements

import (
	"encoding/binary"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that compute bools from bools or numbers, element by element.
func init() {
	and := inRuns(func(y, a, b []bool) { joinTruths(ands, y, a, b) })
	or := inRuns(func(y, a, b []bool) { joinTruths(ors, y, a, b) })
	xor := inRuns(func(y, a, b []bool) { joinTruths(xors, y, a, b) })
	not := elementRow(func(p *elementPass, row rowPart) {
		y, x := result[bool](p, row), operand[bool](p, 0, row)
		if p.b.Unit[0] {
			notAll(y, x)
			return
		}
		for i := range y {
			y[i] = !x[0]
		}
	})
	record.Register(
		record.Record{Op: "And", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, and)}},
		record.Record{Op: "Or", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, or)}},
		record.Record{Op: "Xor", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, xor)}},
		record.Record{Op: "Not", Tensor: record.TensorKind{Make: logicKernel(1, tensor.Bool, not)}},
		record.Record{Op: "IsNaN", Tensor: record.TensorKind{Make: record.Either(
			logicKernel(1, tensor.Float32, nanRow[float32]), logicKernel(1, tensor.Float64, nanRow[float64]))}},
		record.Record{Op: "IsInf", Tensor: record.TensorKind{Make: isInfKernel}},
	)
}

func isInfKernel(s *lowering.Step) record.TensorMaker {
	above, below := s.Node.Attrs.Bool("detect_positive", true), s.Node.Attrs.Bool("detect_negative", true)
	lo, hi := math.Inf(-1), math.Inf(1)
	lo32, hi32, lo64, hi64 := float32(lo), float32(hi), lo, hi
	if below {
		lo32, lo64 = -math.MaxFloat32, -math.MaxFloat64
	}
	if above {
		hi32, hi64 = math.MaxFloat32, math.MaxFloat64
	}
	return record.Either(logicKernel(1, tensor.Float32, rangeRow(lo32, hi32)),
		logicKernel(1, tensor.Float64, rangeRow(lo64, hi64)))(s)
}

// logicKernel supports one or two inputs of an element type, with broadcasting.
func logicKernel(inputs int, dtype tensor.DType, run elementRow) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != inputs || s.Absent(0) || s.Absent(inputs-1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			if !d.Typed(s, 0, dtype) || !d.Typed(s, inputs-1, dtype) || !d.Gives(s, 0, tensor.Bool) {
				return nil
			}
			return elementKernel(d, s, run)
		}
	}
}

// joinTruths combines bools, whose bytes are 0 or 1, eight at a time.
func joinTruths(how Arithmetic, y, a, b []bool) {
	n := len(y) &^ 7
	to, x, z := tensors.Reinterpret[uint8](y), tensors.Reinterpret[uint8](a[:len(y)]), tensors.Reinterpret[uint8](b[:len(y)])
	for i := 0; i < n; i += 8 {
		v, w := binary.NativeEndian.Uint64(x[i:]), binary.NativeEndian.Uint64(z[i:])
		switch how {
		case ands:
			v &= w
		case ors:
			v |= w
		default:
			v ^= w
		}
		binary.NativeEndian.PutUint64(to[i:], v)
	}
	JoinInts(how, to[n:], x[n:], z[n:])
}

// notAll negates bools, eight at a time.
func notAll(y, x []bool) {
	to, from, i := tensors.Reinterpret[uint8](y), tensors.Reinterpret[uint8](x), 0
	for ; i+8 <= len(to); i += 8 {
		binary.NativeEndian.PutUint64(to[i:], binary.NativeEndian.Uint64(from[i:])^0x0101010101010101)
	}
	for ; i < len(y); i++ {
		y[i] = !x[i]
	}
}

// rangeRow computes whether each element is outside the range from least to most.
func rangeRow[T float32 | float64](least, most T) elementRow {
	return func(p *elementPass, row rowPart) {
		y, x := result[bool](p, row), operand[T](p, 0, row)
		if !p.b.Unit[0] {
			for i := range y {
				y[i] = x[0] < least || x[0] > most
			}
			return
		}
		for i, v := range x[:len(y)] {
			y[i] = v < least || v > most
		}
	}
}

// nanRow computes whether each element is NaN.
func nanRow[T float32 | float64](p *elementPass, row rowPart) {
	y, x := result[bool](p, row), operand[T](p, 0, row)
	if !p.b.Unit[0] {
		for i := range y {
			y[i] = x[0] != x[0]
		}
		return
	}
	for i, v := range x[:len(y)] {
		y[i] = v != v
	}
}
