package cpu

import (
	"context"
	"math"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/ref"
)

// half returns x in a narrower type.
func half(d tensor.DType, x *tensor.Tensor) *tensor.Tensor {
	v, _ := x.Float64s()
	t, err := ops.FromFloat64s(nil, d, v, x.Shape()...)
	if err != nil {
		panic(err)
	}
	return t
}

// checkHalf compares a node on numbers in a narrow type with the interpreter, which rounds its result once. It fails
// if the node is evaluated.
func checkHalf(t *testing.T, op string, outputs int, in []Operand, attrs ...ir.Attr) {
	t.Helper()
	for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		narrow := make([]Operand, len(in))
		for i, o := range in {
			if narrow[i] = o; o.Data != nil && o.Data.DType() == tensor.Float32 {
				narrow[i].Data = half(d, o.Data)
			}
		}
		g, feed := NodeGraph(t, op, outputs, narrow, attrs...)
		want := Run(t, g, runtime.Options{Backend: ref.New()}, feed)
		m, err := runtime.New(g, runtime.Options{Backend: New(), Profile: true})
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		s := m.NewSession()
		got, err := s.Run(context.Background(), feed)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		for _, p := range s.Profile() {
			if p.Form == "eval" {
				t.Fatalf("%s %v: %s is evaluated", op, d, p.Op)
			}
		}
		for name, w := range want {
			tol := ir.Tolerance{Ulps: 1.01} // a result next to the middle of two numbers may become either
			same := got[name].(*tensor.Tensor).DType() == w.(*tensor.Tensor).DType()
			if e := backendtest.Diff(got[name], w, tol); e != "" || !same {
				t.Fatalf("%s %v: output %s is %s, expected %s: %s", op, d, name, got[name], w, e)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHalfNodes(t *testing.T) {
	r := NewGen(161)
	for _, n := range []int{1, 7, 33, 130} {
		x, y := Given(r.Floats(1, 3, 5, n)), Given(r.Floats(1, 5, n))
		for _, op := range []string{"Add", "Sub", "Mul", "Max", "Min", "PRelu"} {
			checkHalf(t, op, 1, []Operand{x, y})
		}
		for _, op := range []string{"Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "Exp", "Gelu", "HardSwish", "Softmax",
			"Sqrt", "Floor", "Identity", "Flatten", "LogSoftmax"} {
			checkHalf(t, op, 1, []Operand{x})
		}
		w := r.Floats(0.3, n, 9)
		checkHalf(t, "MatMul", 1, []Operand{x, Fixed(w)})
		checkHalf(t, "MatMul", 1, []Operand{x, Given(w)})
		checkHalf(t, "Gemm", 1, []Operand{y, Fixed(w), Fixed(r.Floats(1, 9))})
		checkHalf(t, "LayerNormalization", 1, []Operand{x, Fixed(r.Floats(1, n)), Fixed(r.Floats(1, n))})
		checkHalf(t, "Transpose", 1, []Operand{x}, ir.A("perm", []int{1, 2, 0}))
		checkHalf(t, "Concat", 1, []Operand{x, x}, ir.A("axis", 1))
		checkHalf(t, "Gather", 1, []Operand{y, Fixed(Whole(1, 0, 4))}, ir.A("axis", 0))
		checkHalf(t, "ReduceMean", 1, []Operand{x, Ints(2)})
		checkHalf(t, "Reshape", 1, []Operand{x, Ints(5, -1)})
		checkHalf(t, "Conv", 1, []Operand{x, Fixed(r.Floats(0.3, 4, 5, 1))})
		checkHalf(t, "MaxPool", 1, []Operand{x}, ir.A("kernel_shape", []int{1}))
		checkHalf(t, "TopK", 2, []Operand{x, Ints(int64(1 + n/3))})
		checkHalf(t, "Equal", 1, []Operand{x, y})
		checkHalf(t, "Cast", 1, []Operand{x}, ir.A("to", int(tensor.Float32)))
		checkHalf(t, "Cast", 1, []Operand{x}, ir.A("to", int(tensor.Float16)))
		checkHalf(t, "Cast", 1, []Operand{x}, ir.A("to", int(tensor.BFloat16)))
	}
}

// TestHalfCasts checks casts of all numbers of 16 bits, and of numbers next to the middle of two of them.
func TestHalfCasts(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	var near []float32
	for i, h := range all {
		f := tensor.F16(h).Float32()
		near = append(near, math.Float32frombits(math.Float32bits(f)|0x1000), math.Float32frombits(uint32(i)<<16|0x8000),
			math.Float32frombits(uint32(i)<<16|0x7fff))
	}
	for _, to := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		sameNumbersOf(t, "Cast", Given(tensor.FromSlice(near, len(near))), ir.A("to", int(to)))
	}
	h, b := tensor.New(tensor.Float16, 1<<16), tensor.New(tensor.BFloat16, 1<<16)
	for i := range all {
		tensor.Data[tensor.F16](h)[i], tensor.Data[tensor.BF16](b)[i] = tensor.F16(i), tensor.BF16(i)
	}
	sameNumbersOf(t, "Cast", Given(h), ir.A("to", int(tensor.Float32)))
	sameNumbersOf(t, "Cast", Given(b), ir.A("to", int(tensor.Float32)))
	whole := tensor.New(tensor.Int64, 5000)
	for i := range tensor.Data[int64](whole) {
		tensor.Data[int64](whole)[i] = int64(i-2500) * int64(1+i*i*i)
	}
	sameNumbersOf(t, "Cast", Given(whole), ir.A("to", int(tensor.Float16)))
	sameNumbersOf(t, "Cast", Given(whole), ir.A("to", int(tensor.BFloat16)))
}

// sameNumbersOf compares a node of one operand with the interpreter, number by number.
func sameNumbersOf(t *testing.T, op string, in Operand, attrs ...ir.Attr) {
	t.Helper()
	g, feed := NodeGraph(t, op, 1, []Operand{in}, attrs...)
	want := Run(t, g, runtime.Options{Backend: ref.New()}, feed)["outa"].(*tensor.Tensor)
	got := Run(t, g, runtime.Options{Backend: New()}, feed)["outa"].(*tensor.Tensor)
	a, _ := got.Float64s()
	b, _ := want.Float64s()
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			t.Fatalf("%s of %s: element %d is %v, expected %v", op, in.Data, i, a[i], b[i])
		}
	}
}

// halfGraphs have values of float16 that are read in both types, leave as they are, and go into subgraphs.
var halfGraphs = []string{
	`g (float16[L,4] x) => (float16[L,4] y, float16[L,4] x2, float[L,4] z, float16[L,4] a) {
		x2 = Identity (x)
		a = Relu (x)
		z = Cast <to = 1> (a)
		b = Mul (a, a)
		c = Sub (b, x)
		y = Sqrt (c)
	}`,
	`g (float16[L,4] x, int64 n) => (float16[L,4] y, float16[N] w) {
		w = HannWindow <output_datatype = 10> (n)
		s = ReduceMax (w)
		y = Mul (x, s)
	}`,
	`g (float16[L,4] x, bool k) => (float16[L,4] y) {
		a = Exp (x)
		b = If (k) <then_branch = t () => (float16[L,4] u) { u = Add (a, x) },
			else_branch = e () => (float16[L,4] v) { c = Mul (a, x)  v = Neg (c) }>
		y = Sub (b, a)
	}`,
	`g (float16[L,4] x, int64 n, bool k) => (float16[L,4] y, float16[M,L,4] s) {
		a = Tanh (x)
		y, s = Loop (n, k, x) <body = body (int64 i, bool c, float16[L,4] p) => (bool c2, float16[L,4] q, float16[L,4] o) {
			c2 = Identity (c)
			h = Mul (p, a)
			q = Add (h, x)
			o = Sub (q, p)
		}>
	}`,
	`g (float16[L,4] x) => (bfloat16[L,4] y, float16[L,4] z, int64[L,4] i) {
		a = Exp (x)
		b = Cast <to = 16> (a)
		y = Add (b, b)
		d = Cast <to = 11> (y)
		e = Cast <to = 10> (d)
		z = Div (e, a)
		w = Add (z, z)
		i = Cast <to = 7> (w)
	}`,
}

func TestHalfGraphs(t *testing.T) {
	r := NewGen(162)
	for _, text := range halfGraphs {
		g := Parse(t, text)
		for _, n := range []int{1, 5, 40} {
			feed := map[string]tensor.Datum{}
			for _, v := range g.Inputs {
				switch v.Name {
				case "x":
					feed["x"] = half(tensor.Float16, r.Floats(1, n, 4))
				case "k":
					feed["k"] = Flag(n != 5)
				case "n":
					feed["n"] = Number(int64(n % 7))
				}
			}
			want := Run(t, g, runtime.Options{Backend: ref.New()}, feed)
			for _, threads := range []int{1, 3} {
				got := Run(t, g, runtime.Options{Backend: New(), Threads: threads}, feed)
				for name, w := range want {
					if e := backendtest.Diff(got[name], w, ir.Tolerance{Ulps: 4}); e != "" {
						t.Errorf("%s: output %s: %s", text, name, e)
					}
				}
			}
		}
	}
}
