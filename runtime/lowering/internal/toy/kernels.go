package toy

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/lowering"
)

// makers holds the loops of operators that are not elementwise.
var makers = map[string]maker{
	"Transpose": transpose,

	"MatMul":      matMul,
	"essm.Linear": linear,

	"LayerNormalization": layerNorm,
	"Softmax":            softmax,

	"essm.Scan": scan,
}

// elementwise computes each element of the result by the operator's expression.
func elementwise(d *lowering.Binding, s *lowering.Step) kernel {
	e, ok := ops.Element(d.Concrete(s))
	if !ok {
		return nil
	}
	shape, reads := d.Shape(s.Out[0]), e.Reads()
	var shapes [][]int
	for _, i := range reads {
		shapes = append(shapes, d.ShapeOf(s, i))
	}
	if b, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(b, shape) {
		return nil
	}
	n, _ := tensor.Size(shape)
	m, at := scalar.NewMachine(scalar.Linearize(nil, e), min(n, ir.Pace)), make([][]int, len(s.In))
	args, y := make([][]float64, len(s.In)), [][]float64{lowering.Make[float64](d, min(n, ir.Pace))}
	part, fixed := make([][]float64, len(s.In)), make([][]float64, len(s.In))
	for _, i := range reads {
		args[i], at[i] = lowering.Make[float64](d, n), places(d, s, i, shape)
		fixed[i] = numbers(d, s, i) // they may be of any type
	}
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for i := range at {
			for k, o := range ops.All(c, at[i]) {
				if w := fixed[i]; w != nil {
					args[i][k] = w[o]
				} else {
					args[i][k] = float64(in[i][o])
				}
			}
		}
		for lo, hi := range ops.Parts(c, n) {
			for _, i := range reads {
				part[i] = args[i][lo:hi]
			}
			m.Run(hi-lo, y, part)
			for k, x := range y[0][:hi-lo] {
				out[0][lo+k] = float32(x)
			}
		}
	}
}

// numbers returns the elements of a constant or settled input, or nil. Those of a settled one change between runs.
func numbers(d *lowering.Binding, s *lowering.Step, i int) []float64 {
	return s.Numbers64(d.Program.Config.Constants, i)
}

// places returns the index in input i for each element of the result, after broadcasting.
func places(d *lowering.Binding, s *lowering.Step, i int, shape []int) []int {
	return lowering.Offsets[int](d, shape, ops.BroadcastStrides(d.ShapeOf(s, i), shape), 0)
}

// copying copies, for operators that change only the shape. It returns nil if the shapes do not fit, so that the
// operator returns its error.
func copying(d *lowering.Binding, s *lowering.Step) kernel {
	before, err := tensor.Size(d.ShapeOf(s, 0))
	if after, err2 := tensor.Size(d.Shape(s.Out[0])); err != nil || err2 != nil || before != after {
		return nil
	}
	return func(c *ir.EvalCtx, out, in [][]float32) { ops.Put(c, out[0], in[0]) }
}

func transpose(d *lowering.Binding, s *lowering.Step) kernel {
	in, shape := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	strides, permuted := ops.Strides(in), make([]int, len(in))
	for i, axis := range ops.Permutation(s.Node) {
		permuted[i] = strides[axis]
	}
	at := lowering.Offsets[int](d, shape, permuted, 0)
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for i, o := range ops.All(c, at) {
			out[0][i] = in[0][o]
		}
	}
}

// matMul multiplies matrices. The dimensions before the last two broadcast.
func matMul(d *lowering.Binding, s *lowering.Step) kernel {
	a, b, shape := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	if len(a) < 2 || len(b) < 2 || a[len(a)-1] != b[len(b)-2] {
		return nil
	}
	outer := shape[:len(shape)-2]
	m, k, n := a[len(a)-2], a[len(a)-1], b[len(b)-1]
	batch := func(shape []int) []int {
		at := lowering.Offsets[int](d, outer, ops.BroadcastStrides(shape[:len(shape)-2], outer), 0)
		for i := range at {
			at[i] *= shape[len(shape)-2] * shape[len(shape)-1]
		}
		return at
	}
	as, bs := batch(a), batch(b)
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for p := range as {
			product(c, out[0][p*m*n:], in[0][as[p]:], in[1][bs[p]:], m, k, n, n, 1)
		}
	}
}

// product computes y = a b for matrices of m × k and k × n numbers. down and right are the strides of rows and columns
// of b.
func product(c *ir.EvalCtx, y, a, b []float32, m, k, n, down, right int) {
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range ops.Each(c, k) {
				sum += float64(a[i*k+l]) * float64(b[l*down+j*right])
			}
			y[i*n+j] = float32(sum)
		}
	}
}

// linear computes a dense layer. Its constants may be float64.
func linear(d *lowering.Binding, s *lowering.Step) kernel {
	w, bias := numbers(d, s, 1), numbers(d, s, 2)
	if w == nil || bias == nil && !s.Absent(2) {
		return nil
	}
	m, k := s.ConstShape(1)[0], s.ConstShape(1)[1]
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for i := range ops.Costly(c, len(out[0]), k) {
			row, sum := i/m, 0.0
			if bias != nil {
				sum = bias[i%m]
			}
			for j, x := range in[0][row*k : (row+1)*k] {
				sum += float64(x) * w[i%m*k+j]
			}
			out[0][i] = float32(sum)
		}
	}
}

// layerNorm normalizes each row to mean 0 and variance 1, then multiplies by weights and adds a shift.
func layerNorm(d *lowering.Binding, s *lowering.Step) kernel {
	shape := d.ShapeOf(s, 0)
	_, width := lowering.Features(shape)
	if axis := s.Node.Attrs.Int("axis", -1); len(s.Out) > 1 || axis != -1 && axis != int64(len(shape)-1) || width == 0 {
		return nil
	}
	for i := 1; i < len(s.In); i++ {
		if w := d.ShapeOf(s, i); s.In[i] != nil && !slices.Equal(w, []int{width}) {
			return nil
		}
	}
	epsilon := s.Node.Attrs.Float("epsilon", 1e-5)
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for at := 0; at < len(out[0]); at += width {
			x, y := in[0][at:at+width], out[0][at:at+width]
			mean, variance := 0.0, 0.0
			for _, v := range ops.All(c, x) {
				mean += float64(v) / float64(width)
			}
			for _, v := range ops.All(c, x) {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(width)
			}
			for i, v := range ops.All(c, x) {
				z := (float64(v) - mean) / math.Sqrt(variance+epsilon) * float64(in[1][i])
				if len(in) > 2 && in[2] != nil {
					z += float64(in[2][i])
				}
				y[i] = float32(z)
			}
		}
	}
}

func softmax(d *lowering.Binding, s *lowering.Step) kernel {
	shape := d.ShapeOf(s, 0)
	_, width := lowering.Features(shape)
	if axis := s.Node.Attrs.Int("axis", -1); axis != -1 && axis != int64(len(shape)-1) || width == 0 {
		return nil
	}
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for at := 0; at < len(out[0]); at += width {
			x, y := in[0][at:at+width], out[0][at:at+width]
			most, sum := math.Inf(-1), 0.0
			for _, v := range ops.All(c, x) {
				most = max(most, float64(v))
			}
			for _, v := range ops.All(c, x) {
				sum += math.Exp(float64(v) - most)
			}
			for i, v := range ops.All(c, x) {
				y[i] = float32(math.Exp(float64(v)-most) / sum)
			}
		}
	}
}

// scan computes a diagonal recurrence from a zero state, without the last state.
func scan(d *lowering.Binding, s *lowering.Step) kernel {
	shape := d.ShapeOf(s, 0)
	var parts [4][]float64 // real and imaginary parts of λΔ, and of b
	for i := range parts {
		if parts[i] = numbers(d, s, 1+i); parts[i] == nil {
			return nil
		}
	}
	direction := s.Node.Attrs.Str("direction", essm.Forward)
	if !s.Absent(5) || !s.Absent(6) || len(s.Out) > 2 || s.Node.Attrs.Int("window", 0) != 0 ||
		len(parts[0]) != shape[2] {
		return nil
	}
	batch, length, n := shape[0], shape[1], shape[2]
	x := lowering.Make[complex128](d, length)
	return func(c *ir.EvalCtx, out, in [][]float32) {
		for sample := range batch {
			for j := range n {
				a := essm.Pow(complex(parts[0][j], parts[1][j]), 1)
				b := complex(parts[2][j], parts[3][j])
				v := func(t int) complex128 { return complex(float64(in[0][(sample*length+t)*n+j]), 0) }
				ops.Fill(c, x, 0)
				var z complex128
				for t := 0; t < length && direction != essm.Backward; t++ {
					c.Step(1)
					z = a*z + b*v(t)
					x[t] = z
				}
				z = 0
				for t := length - 2; t >= 0 && direction != essm.Forward; t-- {
					c.Step(1)
					z = a*z + b*v(t+1)
					x[t] += z
				}
				for t, z := range ops.All(c, x) {
					if out[0] != nil {
						out[0][(sample*length+t)*n+j] = float32(real(z))
					}
					if len(out) > 1 && out[1] != nil {
						out[1][(sample*length+t)*n+j] = float32(imag(z))
					}
				}
			}
		}
	}
}
