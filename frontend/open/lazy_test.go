package open_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// lazyGraphs use weights in all forms that the backend keeps them in. Inputs whose names begin with w become weights, of
// at least tensor.LazyLeast bytes. N and L are bound to several sizes.
var lazyGraphs = []struct{ name, text string }{
	{"linear", `g (float[N,L,130] x, float[130,301] w, float[301] b) => (y) { a = MatMul (x, w) y = Add (a, b) }`},
	{"two of a kind", `g (float[N,130] x, float[130,301] w1, float[130,301] w2) => (y) {
		a = MatMul (x, w1) b = MatMul (x, w2) y = Add (a, b) }`},
	{"gemm by rows", `g (float[N,130] x, float[301,130] w) => (y) { y = Gemm <transB: int = 1> (x, w) }`},
	{"gemm by columns", `g (float[N,130] x, float[130,301] w) => (y) { y = Gemm (x, w) }`},
	{"gemm with a factor", `g (float[N,130] x, float[301,130] w) => (y) {
		y = Gemm <transB: int = 1, alpha: float = 0.75> (x, w) }`},
	{"scaled linear", `g (float[N,L,130] x, float[130,301] w, float[301] b, float[301] k) => (y) {
		a = MatMul (x, w) c = Add (a, b) y = Mul (c, k) }`},
	{"scaled gemm", `g (float[N,130] x, float[301,130] w, float[301] b, float[301] k) => (y) {
		a = Gemm <transB: int = 1> (x, w, b) y = Mul (a, k) }`},
	{"table and its product", `g (int64[N,L] x, float[301,130] w) => (y) {
		a = Gather (w, x) t = Transpose <perm: ints = [1, 0]> (w) y = MatMul (a, t) }`},
	{"float16", `g (float16[N,L,130] x, float16[130,301] w) => (y) { y = MatMul (x, w) }`},
	{"bfloat16", `g (bfloat16[N,130] x, bfloat16[130,301] w) => (y) { y = MatMul (x, w) }`},
	{"float64", `g (double[N,130] x, double[130,301] w) => (y) { y = MatMul (x, w) }`},
	{"convolution", `g (float[N,33,L,L] x, float[65,33,3,3] w, float[65] b) => (y) {
		y = Conv <pads: ints = [1, 1, 1, 1]> (x, w, b) }`},
	{"convolution that is scaled", `g (float[N,33,L,L] x, float[65,33,3,3] w, float[65,1,1] k) => (y) {
		a = Conv <pads: ints = [1, 1, 1, 1]> (x, w) y = Mul (a, k) }`},
	{"strides", `g (float[N,33,L,L] x, float[65,33,3,3] w) => (y) {
		y = Conv <pads: ints = [1, 1, 1, 1], strides: ints = [2, 2]> (x, w) }`},
	{"one tap", `g (float[N,130,L,L] x, float[301,130,1,1] w) => (y) { y = Conv (x, w) }`},
	{"one axis", `g (float[N,65,L] x, float[130,65,3] w, float[130] b) => (y) {
		y = Conv <pads: ints = [1, 1]> (x, w, b) }`},
	{"three axes", `g (float[N,17,L,5,5] x, float[65,17,3,3,3] w) => (y) {
		y = Conv <pads: ints = [1, 1, 1, 1, 1, 1]> (x, w) }`},
	{"depthwise", `g (float[N,2001,L,L] x, float[2001,1,3,3] w) => (y) {
		y = Conv <pads: ints = [1, 1, 1, 1], group: int = 2001> (x, w) }`},
	{"groups", `g (float[N,130,L,L] x, float[130,65,3,3] w) => (y) {
		y = Conv <pads: ints = [1, 1, 1, 1], group: int = 2> (x, w) }`},
	{"transposed convolution", `g (float[N,65,L,L] x, float[65,33,3,3] w) => (y) { y = ConvTranspose (x, w) }`},
	{"LSTM", `g (float[L,N,65] x, float[2,260,65] w1, float[2,260,65] w2) => (y) {
		y = LSTM <hidden_size: int = 65, direction: string = "bidirectional"> (x, w1, w2) }`},
	{"GRU", `g (float[L,N,129] x, float[1,387,129] w1, float[1,387,129] w2) => (y) {
		y = GRU <hidden_size: int = 129> (x, w1, w2) }`},
	{"bytes", `g (uint8[N,L,260] x, int8[260,301] w, uint8 z) => (y) { y = MatMulInteger (x, w, z) }`},
	{"signed bytes", `g (int8[N,260] x, int8[260,301] w) => (y) { y = MatMulInteger (x, w) }`},
	{"unsigned weights", `g (uint8[N,260] x, uint8[260,301] w) => (y) { y = MatMulInteger (x, w) }`},
	{"convolution of bytes", `g (uint8[N,65,L,L] x, int8[130,65,3,3] w, uint8 z) => (y) {
		y = ConvInteger <pads: ints = [1, 1, 1, 1]> (x, w, z) }`},
	{"arithmetic", `g (float[N,301,130] x, float[301,130] w) => (y) { y = Add (x, w) }`},
}

// random returns a tensor of some type and shape.
func random(t *testing.T, r *rand.Rand, d tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	n, err := tensor.Size(shape)
	must(t, err)
	v := make([]float64, n)
	for i := range v {
		if v[i] = float64(r.IntN(15)-7) / 8; !d.IsFloat() {
			v[i] = float64(r.IntN(100))
		}
	}
	x, err := tensor.FromFloat64s(d, v, shape...)
	must(t, err)
	return x
}

// lazyFile writes the graph of a text to an ONNX file. It returns its inputs.
func lazyFile(t *testing.T, r *rand.Rand, text string) (path string, inputs []*ir.Value) {
	t.Helper()
	return lazyFileWith(t, r, text, onnx.WriteOptions{})
}

func lazyFileWith(t *testing.T, r *rand.Rand, text string, o onnx.WriteOptions) (path string, inputs []*ir.Value) {
	t.Helper()
	g := parse(t, text)
	with, equal := map[*ir.Value]*ir.Value{}, (*tensor.Tensor)(nil)
	for i, v := range g.Inputs {
		typ := v.Type.(*ir.TensorType)
		shape, known := typ.Shape.Known()
		if i == 0 || !known {
			inputs = append(inputs, v)
			continue
		}
		k := random(t, r, typ.Elem, shape...)
		if equal != nil && slices.Equal(equal.Shape(), shape) {
			k = equal
		}
		if strings.HasPrefix(v.Name, "w") {
			if len(k.Bytes()) < tensor.LazyLeast {
				t.Fatalf("%s: only %d bytes", v.Name, len(k.Bytes()))
			}
			equal = k
		}
		with[v] = ir.NewConst(v.Name, k)
	}
	g.Inputs = slices.Clone(inputs)
	g.ReplaceAll(with)
	path = filepath.Join(t.TempDir(), "m.onnx")
	must(t, onnx.WriteFile(path, g, o))
	return path, inputs
}

// lazyInputs returns inputs for some sizes of N and L.
func lazyInputs(t *testing.T, r *rand.Rand, inputs []*ir.Value, n, l int) data {
	t.Helper()
	in := data{}
	for _, v := range inputs {
		typ := v.Type.(*ir.TensorType)
		var shape []int
		for _, d := range typ.Shape {
			k, err := d.Eval(map[string]int64{"N": int64(n), "L": int64(l)})
			must(t, err)
			shape = append(shape, int(k))
		}
		in[v.Name] = random(t, r, typ.Elem, shape...)
	}
	return in
}

func sameData(t *testing.T, what string, got, want data) {
	t.Helper()
	for name, w := range want {
		if !tensor.Equal(got[name].(*tensor.Tensor), w.(*tensor.Tensor)) {
			t.Errorf("%s: output %s differs", what, name)
		}
	}
}

// TestLazyWeights checks Load, which leaves weights in the file until they are packed, against a model that reads them
// at once: the same answers at several sizes in turn, whose forms want weights that were released, and the same graph.
func TestLazyWeights(t *testing.T) {
	for _, c := range lazyGraphs {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			path, inputs := lazyFile(t, r, c.text)
			o := runtime.Options{Threads: 2}
			lazy, err := open.Load(path, open.Options{Run: o})
			must(t, err)
			defer lazy.Close()
			whole, err := file(t, path, open.Options{}).Compile(o)
			must(t, err)
			defer whole.Close()
			found := false
			for _, v := range lazy.Graph().Constants() {
				found = found || v.Const.Lazy()
			}
			if !found && goruntime.GOOS != "windows" {
				t.Error("no weight is lazy")
			}
			a, b := lazy.NewSession(), whole.NewSession()
			for _, size := range [][2]int{{1, 24}, {2, 5}, {1, 1}, {1, 24}} {
				in := lazyInputs(t, r, inputs, size[0], size[1])
				got, err := a.Run(context.Background(), in)
				must(t, err)
				want, err := b.Run(context.Background(), in)
				must(t, err)
				sameData(t, c.name, got, want)
			}
			h1, err := lazy.Hash()
			must(t, err)
			h2, err := whole.Hash()
			must(t, err)
			if h1 != h2 {
				t.Error("the models have other hashes")
			}
		})
	}
}

// TestLazyReplaced checks that a model does not mind that its file is replaced or removed, and tells that it was written
// to, where it needs weights again.
func TestLazyReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	load := func() (path string, m *runtime.Model, in data) {
		path, inputs := lazyFile(t, r, lazyGraphs[0].text)
		m, err := open.Load(path, open.Options{})
		must(t, err)
		return path, m, lazyInputs(t, r, inputs, 1, 3)
	}
	path, m, in := load()
	defer m.Close()
	want, err := m.NewSession().Run(context.Background(), in)
	must(t, err)
	other := path + ".new"
	must(t, os.WriteFile(other, []byte("nothing"), 0o666))
	if err := os.Rename(other, path); err != nil {
		t.Skip("this system does not replace open files: ", err)
	}
	if _, err := m.Hash(); err != nil {
		t.Error(err)
	}
	got, err := m.NewSession().Run(context.Background(), in)
	must(t, err)
	sameData(t, "after a replacement", got, want)

	path, m, in = load()
	defer m.Close()
	must(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	if _, err := m.NewSession().Run(context.Background(), in); err != nil { // packed
		t.Error(err)
	}
	if _, err := m.Hash(); err == nil || !strings.Contains(err.Error(), "m.onnx: has changed") {
		t.Errorf("after a change: %v", err)
	}
	// A copy needs its file no more.
	path, inputs := lazyFile(t, r, lazyGraphs[0].text)
	m, err = open.Load(path, open.Options{Run: runtime.Options{Copy: true}})
	must(t, err)
	defer m.Close()
	must(t, os.Remove(path))
	if _, err := m.Hash(); err != nil {
		t.Error(err)
	}
	if _, err := m.NewSession().Run(context.Background(), lazyInputs(t, r, inputs, 1, 3)); err != nil {
		t.Error(err)
	}
}

// TestLazyShared checks that weights that several nodes use, through nodes that move their elements, stay one tensor that
// nobody reads before it is packed.
func TestLazyShared(t *testing.T) {
	path, inputs := lazyFile(t, rand.New(rand.NewPCG(1, 2)), `g (float[N,130] x, float[130,130] w) => (y) {
		a = Identity (w) b = Transpose <perm: ints = [1, 0]> (w) s = Constant <value_ints: ints = [130, 1, 130]> ()
		c = Reshape (b, s) d = Squeeze (c) e = Transpose <perm: ints = [1, 0]> (d)
		p = MatMul (x, w) q = Relu (p) r = MatMul (q, a) u = Relu (r) v = MatMul (u, e) h = Relu (v) y = MatMul (h, b) }`)
	m, err := open.Load(path, open.Options{})
	must(t, err)
	defer m.Close()
	lazy := map[*tensor.Tensor]bool{}
	for _, v := range m.Graph().Constants() {
		if v.Const.Len() == 130*130 {
			lazy[v.Const] = v.Const.Lazy()
		}
	}
	if len(lazy) != 2 && goruntime.GOOS != "windows" { // the matrix, and its transpose
		t.Errorf("%d matrices", len(lazy))
	}
	for k, is := range lazy {
		if !is && goruntime.GOOS != "windows" {
			t.Errorf("%s is not lazy", k)
		}
	}
	whole, err := file(t, path, open.Options{}).Compile(runtime.Options{})
	must(t, err)
	defer whole.Close()
	in := lazyInputs(t, rand.New(rand.NewPCG(3, 4)), inputs, 5, 1)
	got, err := m.NewSession().Run(context.Background(), in)
	must(t, err)
	want, err := whole.NewSession().Run(context.Background(), in)
	must(t, err)
	sameData(t, "shared weights", got, want)
	h1, err := m.Hash()
	must(t, err)
	if h2, err := whole.Hash(); err != nil || h1 != h2 {
		t.Error("the models have other hashes", err)
	}
}

// TestLazyExternal is TestLazyWeights for weights in a file of their own.
func TestLazyExternal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	path, inputs := lazyFileWith(t, r, lazyGraphs[1].text, onnx.WriteOptions{External: "w.bin", ExternalFrom: 1000})
	lazy, err := open.Load(path, open.Options{})
	must(t, err)
	whole, err := file(t, path, open.Options{}).Compile(runtime.Options{})
	must(t, err)
	defer whole.Close()
	count := 0
	for _, v := range lazy.Graph().Constants() {
		if v.Const.Lazy() {
			count++
		}
	}
	if goruntime.GOOS == "windows" {
		t.Skip("open files cannot be removed here, so weights are not left in them")
	}
	if count == 0 {
		t.Error("no weight is lazy")
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.bin"))
	must(t, err)
	for _, name := range append(others, path) {
		must(t, os.Remove(name))
	}
	in := lazyInputs(t, r, inputs, 3, 1)
	got, err := lazy.NewSession().Run(context.Background(), in)
	must(t, err)
	want, err := whole.NewSession().Run(context.Background(), in)
	must(t, err)
	sameData(t, "external weights", got, want)
	h1, err := lazy.Hash()
	must(t, err)
	if h2, err := whole.Hash(); err != nil || h1 != h2 {
		t.Error("the models have other hashes", err)
	}
	must(t, lazy.Close())
}
