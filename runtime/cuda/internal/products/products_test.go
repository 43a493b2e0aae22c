package products_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	_ "github.com/essmc/essmc/runtime/cuda/internal/products"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
	"github.com/essmc/essmc/runtime/ref"
)

// backend implements all steps with records.
type backend struct{}

func (backend) Name() string { return "products" }
func (backend) Implement(_ *lowering.Compiler, s *lowering.Step) lowering.Support {
	if record.For(s) != nil {
		return lowering.Implemented
	}
	return lowering.Evaluate
}

// steps runs all steps of a graph on an emulated device by their records, after the fusions that take them, and returns the
// outputs and the numbers of steps of fusions.
func steps(t *testing.T, g *ir.Graph, c runtime.Config, in map[string]tensor.Datum) (map[string]tensor.Datum, []string) {
	t.Helper()
	c.Threads = 1
	p, err := lowering.Lower(g, c, backend{})
	if err != nil {
		t.Fatal(err)
	}
	var types []ir.Type
	for _, v := range p.Inputs {
		x := in[v.Name].(*tensor.Tensor)
		types = append(types, lowering.TypeOf(x.DType(), x.Shape()))
	}
	d := p.Bind(runtime.Binding{Inputs: types}, nil)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	bench, b := kerneltest.New(t), record.NewBuilder(d)
	placed := map[kernel.Buffer]kernel.Buffer{}
	place := func(x kernel.Buffer) kernel.Buffer {
		if placed[x] == 0 && x != 0 {
			switch m := b.Memory(x); {
			case m.Constant != nil:
				placed[x] = bench.In(m.Constant.Make())
			case m.Scratch > 0:
				placed[x] = bench.Out(m.Scratch)
			case m.Value.Const != nil:
				placed[x] = bench.In(m.Value.Const.Bytes())
			case d.Given(m.Value):
				placed[x] = bench.In(in[m.Value.Name].(*tensor.Tensor).Bytes())
			default:
				placed[x] = bench.Out(b.Bytes(m.Value))
			}
		}
		return placed[x]
	}
	run := func(u device.Unit) {
		for _, w := range u.Work {
			if w.Kind == device.Fill {
				bench.Set(place(kernel.Buffer(w.Dst)), bytes.Repeat([]byte{w.Byte}, w.Bytes))
				continue
			}
			call := w.Launch.(*record.Call).Call
			call.Args = append([]kernel.Arg(nil), call.Args...)
			for i := range call.Args {
				call.Args[i].Buffer = place(call.Args[i].Buffer)
			}
			bench.Run(call)
		}
	}
	left, fused := p.Steps, []string{}
	for len(left) > 0 {
		taken := 0
		for _, f := range record.Fusions() {
			b.Begin(left[0].Node)
			if list := f.Build(b, left); list != nil {
				run(b.Keep())
				fused = append(fused, fmt.Sprint(len(list)))
				left = slices.DeleteFunc(slices.Clone(left), func(s *lowering.Step) bool { return slices.Contains(list, s) })
				taken = len(list)
				break
			}
			b.Drop()
		}
		if taken == 0 {
			s := left[0]
			left = left[1:]
			b.Begin(s.Node)
			if r := record.For(s); r == nil { // on the host
				var args []tensor.Datum
				for _, v := range s.In {
					x := tensor.New(d.DType(v), d.Shape(v)...)
					copy(x.Bytes(), bench.Bytes(place(b.Buffer(v))))
					args = append(args, x)
				}
				y, err := d.Evaluate(d.Concrete(s), args)
				if err != nil {
					t.Fatal(err)
				}
				bench.Set(place(b.Buffer(s.Out[0])), y[0].(*tensor.Tensor).Bytes())
			} else if !r.Build(b, s) {
				t.Fatalf("%s is not computed", s.Node)
			}
			run(b.Keep())
		}
	}
	out := map[string]tensor.Datum{}
	for i, v := range p.Outputs {
		x := tensor.New(d.DType(v), d.Shape(v)...)
		if at := b.Buffer(v); at != 0 {
			copy(x.Bytes(), bench.Bytes(place(at)))
		}
		out[g.Outputs[i].Name] = x
	}
	return out, fused
}

// check holds the outputs of a graph against the interpreter's.
func check(t *testing.T, text string, in map[string]tensor.Datum) []string {
	t.Helper()
	return checkGraph(t, parse(t, text), runtime.Config{}, in, ir.Summing)
}

func checkGraph(t *testing.T, g *ir.Graph, c runtime.Config, in map[string]tensor.Datum, tol ir.Tolerance) []string {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	got, fused := steps(t, g, c, in)
	for name := range want {
		if diff := backendtest.Diff(got[name], want[name], tol); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	return fused
}

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>`+text), "text", ops.Default,
		irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// random returns a tensor of a type with numbers that its products keep: for integers, small ones.
func random(dtype tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	r := rand.New(rand.NewPCG(uint64(n), 5))
	x := make([]float64, n)
	for i := range x {
		if x[i] = r.NormFloat64(); dtype == tensor.Int32 || dtype == tensor.Int64 {
			x[i] = float64(r.IntN(100) - 50)
		}
	}
	v, err := tensor.FromFloat64s(dtype, x, shape...)
	if err != nil {
		panic(err)
	}
	return v
}

// constantText writes the numbers of a constant.
func constantText(shape ...int) string {
	var list []string
	for _, x := range tensor.Data[float32](random(tensor.Float32, shape...)) {
		list = append(list, fmt.Sprint(x))
	}
	return fmt.Sprintf("{%s}", strings.Join(list, ", "))
}

func shapeText(shape []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ",")
}

func TestMatMul(t *testing.T) {
	for _, c := range []struct{ a, b []int }{
		{[]int{5, 7}, []int{7, 9}}, {[]int{3, 20, 17}, []int{17, 33}}, {[]int{2, 1, 9, 6}, []int{3, 6, 10}},
		{[]int{7}, []int{7}}, {[]int{7}, []int{7, 5}}, {[]int{2, 4, 7}, []int{7}}, {[]int{1, 40}, []int{40, 50}},
		{[]int{20, 0}, []int{0, 30}}, {[]int{0, 4}, []int{4, 3}}, {[]int{3, 5}, []int{2, 5, 1}},
		{[]int{2, 33, 70}, []int{2, 70, 12}},
	} {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int32, tensor.Int64} {
			name := strings.ToLower(dtype.String())
			text := fmt.Sprintf("g (%s[%s] a, %s[%s] b) => (y) { y = MatMul (a, b) }", name, shapeText(c.a), name, shapeText(c.b))
			t.Run(text, func(t *testing.T) {
				check(t, text, map[string]tensor.Datum{"a": random(dtype, c.a...), "b": random(dtype, c.b...)})
			})
		}
		if w := c.b; len(w) == 2 && w[0] > 0 && w[1] > 0 {
			text := fmt.Sprintf("g (float[%s] a) => (y) <float[%s] b = %s> { y = MatMul (a, b) }", shapeText(c.a), shapeText(w),
				constantText(w...))
			check(t, text, map[string]tensor.Datum{"a": random(tensor.Float32, c.a...)})
		}
	}
}

// Constants of float16 are laid out once; a factor that is turned is packed.
func TestMatMulOfHalves(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		name := strings.ToLower(dtype.String())
		var bits []string // of the constant
		for w := range slices.Chunk(random(dtype, 35, 33).Bytes(), 2) {
			bits = append(bits, fmt.Sprint(binary.LittleEndian.Uint16(w)))
		}
		check(t, fmt.Sprintf("g (%s[2,20,35] a) => (y) <%s[35,33] b = {%s}> { y = MatMul (a, b) }", name, name,
			strings.Join(bits, ", ")), map[string]tensor.Datum{"a": random(dtype, 2, 20, 35)})
		check(t, fmt.Sprintf(`g (%s[3,40,20] a, %s[3,40,33] b) => (y) { y = Einsum <equation: string = "bki,bkj->bij"> (a, b) }`,
			name, name), map[string]tensor.Datum{"a": random(dtype, 3, 40, 20), "b": random(dtype, 3, 40, 33)})
	}
}

// bytesOf returns random integers of 8 bits.
func bytesOf(dtype tensor.DType, shape ...int) *tensor.Tensor {
	x := tensor.New(dtype, shape...)
	r := rand.New(rand.NewPCG(uint64(x.Len()), 6))
	for i := range x.Bytes() {
		x.Bytes()[i] = byte(r.Uint32())
	}
	return x
}

// Products of integers are exact, with each form of zero points and of shapes.
func TestMatMulInteger(t *testing.T) {
	for i, c := range []struct{ a, b, za, zb []int }{
		{[]int{5, 7}, []int{7, 9}, nil, nil}, {[]int{33, 64}, []int{64, 20}, []int{}, []int{}},
		{[]int{3, 20, 17}, []int{17, 33}, []int{1}, nil}, {[]int{20, 17}, []int{17, 33}, []int{20}, []int{33}},
		{[]int{2, 1, 9, 6}, []int{3, 6, 10}, []int{9}, []int{10}}, {[]int{7}, []int{7}, []int{}, []int{}},
		{[]int{7}, []int{7, 5}, nil, []int{5}}, {[]int{2, 4, 7}, []int{7}, []int{4}, nil}, {[]int{4, 0}, []int{0, 5}, []int{}, nil},
		{[]int{0, 4}, []int{4, 3}, nil, nil}, {[]int{2, 33, 70}, []int{2, 70, 12}, []int{}, []int{}},
	} {
		types := [][2]tensor.DType{{tensor.Uint8, tensor.Uint8}, {tensor.Int8, tensor.Uint8}, {tensor.Uint8, tensor.Int8},
			{tensor.Int8, tensor.Int8}}[i%4]
		params, args, in := []string{}, []string{}, map[string]tensor.Datum{}
		for j, shape := range [][]int{c.a, c.b, c.za, c.zb} {
			name := []string{"a", "b", "za", "zb"}[j]
			if shape == nil {
				args = append(args, "")
				continue
			}
			args = append(args, name)
			dims := ""
			if len(shape) > 0 {
				dims = "[" + shapeText(shape) + "]"
			}
			params = append(params, fmt.Sprintf("%s%s %s", strings.ToLower(types[j%2].String()), dims, name))
			in[name] = bytesOf(types[j%2], shape...)
		}
		for len(args) > 2 && args[len(args)-1] == "" {
			args = args[:len(args)-1]
		}
		text := fmt.Sprintf("g (%s) => (y) { y = MatMulInteger (%s) }", strings.Join(params, ", "), strings.Join(args, ", "))
		t.Run(text, func(t *testing.T) { checkGraph(t, parse(t, text), runtime.Config{}, in, ir.Exact) })
	}
}

// Requantized products are exact: with ties, with results beyond the range, and with scales of each type and form.
func TestQLinearMatMul(t *testing.T) {
	for i, c := range []struct {
		a, b   []int
		each   bool
		za, zb tensor.DType // types of the factors
		scale  tensor.DType
		out    tensor.DType
	}{
		{[]int{5, 7}, []int{7, 9}, false, tensor.Uint8, tensor.Uint8, tensor.Float32, tensor.Uint8},
		{[]int{3, 20, 17}, []int{17, 36}, true, tensor.Int8, tensor.Uint8, tensor.Float16, tensor.Int8},
		{[]int{2, 9, 64}, []int{2, 64, 10}, true, tensor.Uint8, tensor.Int8, tensor.BFloat16, tensor.Int8},
		{[]int{2, 1, 9, 6}, []int{3, 6, 10}, false, tensor.Int8, tensor.Int8, tensor.Float32, tensor.Uint8},
		{[]int{7}, []int{7, 5}, false, tensor.Uint8, tensor.Int8, tensor.Float32, tensor.Int8},
	} {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		scale := func(n int) *tensor.Tensor {
			x := make([]float64, n)
			for i := range x {
				x[i] = 0.25 * float64(1+r.IntN(4)) // products and quotients have ties
			}
			v, _ := tensor.FromFloat64s(c.scale, x, n)
			return v
		}
		rows, columns := 1, 1
		if c.each {
			rows, columns = c.a[len(c.a)-2], c.b[len(c.b)-1]
		}
		y, _ := tensor.FromFloat64s(c.scale, []float64{64}, 1)
		in := map[string]tensor.Datum{"a": bytesOf(c.za, c.a...), "sa": scale(rows), "za": bytesOf(c.za, rows),
			"b": bytesOf(c.zb, c.b...), "sb": scale(columns), "zb": bytesOf(c.zb, columns), "sy": y, "zy": bytesOf(c.out, 1)}
		var params []string
		names := []string{"a", "sa", "za", "b", "sb", "zb", "sy", "zy"}
		for _, name := range names {
			x := in[name].(*tensor.Tensor)
			params = append(params, fmt.Sprintf("%s[%s] %s", strings.ToLower(x.DType().String()), shapeText(x.Shape()), name))
		}
		text := fmt.Sprintf("g (%s) => (y) { y = QLinearMatMul (%s) }", strings.Join(params, ", "), strings.Join(names, ", "))
		t.Run(text, func(t *testing.T) { checkGraph(t, parse(t, text), runtime.Config{}, in, ir.Exact) })
	}
}

func TestGemm(t *testing.T) {
	for _, c := range []string{"[20,9]", "[1,9]", "[9]", "[20,1]", "[1]", ""} {
		for i := range 4 {
			a, b := []int{20, 13}, []int{13, 9}
			if i&1 != 0 {
				a = []int{13, 20}
			}
			if i&2 != 0 {
				b = []int{9, 13}
			}
			in := map[string]tensor.Datum{"a": random(tensor.Float32, a...), "b": random(tensor.Float32, b...)}
			args, params := "a, b", fmt.Sprintf("float[%s] a, float[%s] b", shapeText(a), shapeText(b))
			if c != "" {
				args, params = "a, b, c", params+", float"+c+" c"
				var shape []int
				for _, d := range strings.Split(strings.Trim(c, "[]"), ",") {
					n := 0
					fmt.Sscan(d, &n)
					shape = append(shape, n)
				}
				in["c"] = random(tensor.Float32, shape...)
			}
			text := fmt.Sprintf("g (%s) => (y) { y = Gemm <transA: int = %d, transB: int = %d, alpha: float = 0.5, beta: float = -2> (%s) }",
				params, i&1, i>>1, args)
			t.Run(text, func(t *testing.T) { check(t, text, in) })
		}
	}
}

func TestLinear(t *testing.T) {
	text := "g (float[3,21,10] x) => (y) <double[17,10] w = " + constantText(17, 10) + ", float[17] b = " + constantText(17) +
		"> { y = essm.Linear (x, w, b) }"
	check(t, text, map[string]tensor.Datum{"x": random(tensor.Float32, 3, 21, 10)})
	check(t, "g (float[2,21,8] x, float[17,8] w) => (y) { y = essm.Linear (x, w) }",
		map[string]tensor.Datum{"x": random(tensor.Float32, 2, 21, 8), "w": random(tensor.Float32, 17, 8)})
}

// The option for products rounds products with at least 32 × 32 weights, and no others.
func TestLinearLow(t *testing.T) {
	for _, n := range []int{31, 32} {
		text := fmt.Sprintf("g (float[20,40] x) => (y) <float[%d,40] w = %s> { y = essm.Linear (x, w) }", n, constantText(n, 40))
		in := map[string]tensor.Datum{"x": random(tensor.Float32, 20, 40)}
		plain, _ := steps(t, parse(t, text), runtime.Config{}, in)
		for _, c := range []runtime.Config{{Products: tensor.BFloat16}, {TF32: true}} {
			low, _ := steps(t, parse(t, text), c, in)
			if same := string(plain["y"].(*tensor.Tensor).Bytes()) == string(low["y"].(*tensor.Tensor).Bytes()); same != (n < 32) {
				t.Errorf("%d × 40 weights, TF32 %v: equal %v", n, c.TF32, same)
			}
		}
	}
}

func TestHeads(t *testing.T) {
	for _, c := range []struct{ g, c, s, p, q int }{{12, 1, 4, 5, 3}, {24, 2, 4, 5, 3}, {12, 2, 4, 5, 3}, {80, 2, 2, 33, 20}} {
		text := fmt.Sprintf("g (float[2,9,%d] x) => (y) <float[%d,%d,%d,%d] w = %s> { y = essm.HeadLinear (x, w) }", c.g, c.c, c.s,
			c.p, c.q, constantText(c.c, c.s, c.p, c.q))
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			check(t, text, map[string]tensor.Datum{"x": random(tensor.Float32, 2, 9, c.g)})
		})
	}
}

func TestHeadScale(t *testing.T) {
	for _, dtype := range []string{"float", "double"} {
		check(t, "g (float[2,9,12] x) => (y) <"+dtype+"[3,4,3] w = "+constantText(3, 4, 3)+"> { y = essm.HeadScale (x, w) }",
			map[string]tensor.Datum{"x": random(tensor.Float32, 2, 9, 12)})
	}
	check(t, "g (float[9,12] x, float[1,4,3] w) => (y) { y = essm.HeadScale (x, w) }",
		map[string]tensor.Datum{"x": random(tensor.Float32, 9, 12), "w": random(tensor.Float32, 1, 4, 3)})
}

func TestEinsum(t *testing.T) {
	for _, c := range []struct {
		equation string
		shapes   [][]int
	}{
		{"ij,jk->ik", [][]int{{12, 9}, {9, 20}}}, {"bij,bkj->bik", [][]int{{2, 12, 9}, {2, 20, 9}}},
		{"bhid,bhjd->bhij", [][]int{{2, 3, 10, 8}, {2, 3, 11, 8}}}, {"ii->i", [][]int{{5, 5}}}, {"ij->", [][]int{{5, 6}}},
		{"ijk,jl->kil", [][]int{{10, 9, 11}, {9, 12}}}, {"...ij,...jk->...ik", [][]int{{2, 9, 8}, {1, 8, 10}}},
		{"i,j->ji", [][]int{{20}, {30}}}, {"ijk,ijl->kl", [][]int{{3, 4, 9}, {3, 4, 10}}}, {"ij,kj->k", [][]int{{4, 5}, {6, 5}}},
		{"aib,cbj->aicj", [][]int{{3, 9, 12}, {4, 12, 10}}},
	} {
		params, in := []string{}, map[string]tensor.Datum{}
		names := []string{"a", "b"}[:len(c.shapes)]
		for i, s := range c.shapes {
			params = append(params, fmt.Sprintf("float[%s] %s", shapeText(s), names[i]))
			in[names[i]] = random(tensor.Float32, s...)
		}
		text := fmt.Sprintf("g (%s) => (y) { y = Einsum <equation: string = %q> (%s) }", strings.Join(params, ", "), c.equation,
			strings.Join(names, ", "))
		t.Run(c.equation, func(t *testing.T) { check(t, text, in) })
	}
}

func TestConvolutions(t *testing.T) {
	for _, c := range []struct {
		op, attrs string
		x, w      []int
	}{
		{"Conv", "", []int{2, 3, 20}, []int{9, 3, 4}},
		{"Conv", "group: int = 6, pads: ints = [3, 0]", []int{1, 6, 17}, []int{6, 1, 4}},
		{"Conv", "pads: ints = [1, 2, 0, 1], strides: ints = [2, 1], dilations: ints = [1, 2]", []int{2, 4, 9, 11}, []int{10, 4, 3, 2}},
		{"Conv", "group: int = 2, auto_pad: string = \"SAME_UPPER\", strides: ints = [2, 2]", []int{1, 6, 9, 8}, []int{16, 3, 3, 3}},
		{"Conv", "auto_pad: string = \"SAME_LOWER\"", []int{1, 2, 4, 5, 6}, []int{8, 2, 2, 2, 2}},
		{"Conv", "", []int{2, 5, 6, 7}, []int{12, 5, 1, 1}},
		{"ConvTranspose", "", []int{2, 3, 8}, []int{3, 5, 4}},
		{"ConvTranspose", "group: int = 2, pads: ints = [1, 0, 2, 1], strides: ints = [2, 3], output_padding: ints = [1, 0]",
			[]int{1, 4, 5, 6}, []int{4, 3, 3, 2}},
		{"ConvTranspose", "auto_pad: string = \"SAME_UPPER\", strides: ints = [3]", []int{1, 2, 5}, []int{2, 3, 4}},
		{"ConvTranspose", "output_shape: ints = [12], strides: ints = [2], dilations: ints = [2]", []int{1, 2, 5}, []int{2, 3, 3}},
	} {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
			if c.attrs != "" && c.attrs[0] != '<' {
				c.attrs = "<" + c.attrs + ">"
			}
			bias := c.w[0]
			if c.op == "ConvTranspose" {
				if bias = c.w[1]; strings.Contains(c.attrs, "group") {
					bias *= 2
				}
			}
			name := strings.ToLower(dtype.String())
			text := fmt.Sprintf("g (%s[%s] x, %s[%s] w, %s[%d] b) => (y, z) { y = %s %s (x, w, b) z = %s %s (x, w) }", name,
				shapeText(c.x), name, shapeText(c.w), name, bias, c.op, c.attrs, c.op, c.attrs)
			t.Run(text, func(t *testing.T) {
				check(t, text, map[string]tensor.Datum{"x": random(dtype, c.x...), "w": random(dtype, c.w...), "b": random(dtype, bias)})
			})
		}
		if c.op == "Conv" {
			text := fmt.Sprintf("g (float[%s] x) => (y) <float[%s] w = %s> { y = Conv %s (x, w) }", shapeText(c.x), shapeText(c.w),
				constantText(c.w...), c.attrs)
			check(t, text, map[string]tensor.Datum{"x": random(tensor.Float32, c.x...)})
		}
	}
}

func TestAttention(t *testing.T) {
	for _, c := range []struct {
		q, k, v []int
		mask    string
		of      []int
		attrs   string
	}{
		{q: []int{2, 3, 9, 8}, k: []int{2, 3, 11, 8}, v: []int{2, 3, 11, 12}},
		{q: []int{2, 4, 9, 8}, k: []int{2, 2, 9, 8}, v: []int{2, 2, 9, 8}, attrs: "is_causal: int = 1"},
		{q: []int{2, 9, 24}, k: []int{2, 11, 24}, v: []int{2, 11, 36}, attrs: "q_num_heads: int = 3, kv_num_heads: int = 3, scale: float = 0.2"},
		{q: []int{2, 3, 9, 8}, k: []int{2, 3, 11, 8}, v: []int{2, 3, 11, 8}, mask: "float", of: []int{9, 11}},
		{q: []int{2, 3, 9, 8}, k: []int{2, 3, 11, 8}, v: []int{2, 3, 11, 8}, mask: "float", of: []int{2, 1, 9, 7}},
		{q: []int{2, 3, 9, 8}, k: []int{2, 3, 11, 8}, v: []int{2, 3, 11, 8}, mask: "bool", of: []int{1, 3, 1, 11}},
		{q: []int{2, 3, 9, 8}, k: []int{2, 3, 11, 8}, v: []int{2, 3, 11, 8}, mask: "float", of: []int{9, 0}},
	} {
		params := fmt.Sprintf("float[%s] q, float[%s] k, float[%s] v", shapeText(c.q), shapeText(c.k), shapeText(c.v))
		args, attrs := "q, k, v", ""
		in := map[string]tensor.Datum{"q": random(tensor.Float32, c.q...), "k": random(tensor.Float32, c.k...),
			"v": random(tensor.Float32, c.v...)}
		if c.mask != "" {
			params += fmt.Sprintf(", %s[%s] mask", c.mask, shapeText(c.of))
			args += ", mask"
			m := random(tensor.Float32, c.of...)
			if in["mask"] = m; c.mask == "bool" {
				seen := make([]bool, m.Len())
				for i, x := range tensor.Data[float32](m) {
					seen[i] = x > 0
				}
				in["mask"] = tensor.FromSlice(seen, c.of...)
			}
		}
		if c.attrs != "" {
			attrs = "<" + c.attrs + ">"
		}
		text := fmt.Sprintf("g (%s) => (y) { y = Attention %s (%s) }", params, attrs, args)
		t.Run(text, func(t *testing.T) { check(t, text, in) })
	}
}

// Products take the steps that follow them, as long as only one value leaves, and read other operands of each kind.
func TestFusion(t *testing.T) {
	dense := "<float[17,10] w = " + constantText(17, 10) + ", float[17] c = " + constantText(17) + ", double[17] d = " + constantText(17) +
		", float two = {2}>"
	for _, c := range []struct{ name, graph, fused string }{
		{"gelu", "g (float[3,21,10] x) => (y) " + dense + " { h = essm.Linear (x, w) y = Gelu (h) }", "2"},
		{"gate, residual, affine", "g (float[3,21,10] x, float[3,21,17] r) => (y) " + dense + ` {
			h = essm.Linear (x, w, c) s = Sigmoid (h) m = Mul (r, s) a = Add (m, r) y = essm.Affine (a, d, d) }`, "5"},
		{"silu and scalars", "g (float[3,21,10] x, float q) => (y) " + dense + ` {
			h = essm.Linear (x, w) s = Sigmoid (h) m = Mul (h, s) n = Mul (two, m) y = Sub (q, n) }`, "5"},
		{"a row's number", "g (float[3,21,10] x, float[3,21,1] r) => (y) " + dense + " { h = essm.Linear (x, w) y = Mul (h, r) }", "2"},
		{"a value that leaves", "g (float[20,10] x) => (y, h) " + dense + " { h = essm.Linear (x, w) y = Gelu (h) }", ""},
		{"a value that leaves later", "g (float[20,10] x) => (y, z) " + dense + ` {
			h = essm.Linear (x, w) y = Relu (h) z = Exp (y) }`, "2"},
		{"few rows", "g (float[1,10] x, float[1,17] r) => (y) " + dense + " { h = essm.Linear (x, w) s = Relu (h) y = Add (s, r) }", "3"},
		{"gated halves", "g (float[2,21,10] x, float[2,21,9] r) => (y) <float[18,10] w = " + constantText(18, 10) + ", float[18] c = " +
			constantText(18) + "> { h = essm.Linear (x, w, c) u, v = Split <axis: int = -1, num_outputs: int = 2> (h) " +
			"s = Sigmoid (v) m = Mul (u, s) y = Add (r, m) }", "5"},
		{"one head", "g (float[20,10] x, float[20,17] r) => (y) <float[1,1,17,10] w = " + constantText(1, 1, 17, 10) +
			"> { h = essm.HeadLinear (x, w) y = Sub (r, h) }", "2"},
		{"Gemm", "g (float[20,10] x) => (y) " + dense + " { h = Gemm <transB: int = 1> (x, w, c) y = Relu (h) }", "2"},
		{"Conv", "g (float[2,6,30] x, float[2,18,28] r) => (y) <float[18,3,3] w = " + constantText(18, 3, 3) + ", float[18,1] c = " +
			constantText(18, 1) + "> { h = Conv <group: int = 2> (x, w) a = Add (h, c) b = Relu (a) y = Add (b, r) }", "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := map[string]tensor.Datum{}
			g := parse(t, c.graph)
			for _, v := range g.Inputs {
				shape, _ := v.Type.(*ir.TensorType).Shape.Known()
				in[v.Name] = random(tensor.Float32, shape...)
			}
			if fused := strings.Join(checkGraph(t, g, runtime.Config{}, in, ir.Summing), " "); fused != c.fused {
				t.Errorf("fused %q, expected %q", fused, c.fused)
			}
		})
	}
}
