package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
	"github.com/essmc/essmc/runtime/lowering"
)

// within reports whether b is in the size bytes from p on.
func within(p *byte, size int, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	from, at := uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&b[0]))
	return at >= from && at+uintptr(len(b)) <= from+uintptr(size)
}

// The operators of the domain test have records whose kernels are Go functions of the null driver: Double, y = 2x;
// Sum, the sum of two tensors of one shape; Shift, x plus a constant of the step, through scratch memory; Same, a
// view; Odd, which only supports even numbers of elements.
func init() {
	op := func(name, in string, f func(x [][]float32, y []float32)) {
		testOps[name] = testOp(name, strings.Split(in, ", "), f)
	}
	op("Double", "x:T[N]", func(x [][]float32, y []float32) { each(y, func(i int) float32 { return 2 * x[0][i] }) })
	op("Sum", "a:T[N], b:T[N]", func(x [][]float32, y []float32) { each(y, func(i int) float32 { return x[0][i] + x[1][i] }) })
	op("Shift", "x:T[N]", func(x [][]float32, y []float32) { each(y, func(i int) float32 { return x[0][i] + 3 }) })
	op("Same", "x:T[N]", func(x [][]float32, y []float32) { copy(y, x[0]) })
	op("Odd", "x:T[N]", func(x [][]float32, y []float32) { each(y, func(i int) float32 { return -x[0][i] }) })
	op("None", "x:T[N]", func(x [][]float32, y []float32) { each(y, func(i int) float32 { return x[0][i] + 1 }) })
	op("Positive", "x:T[N]", func(x [][]float32, y []float32) { copy(y, x[0]) })
	op("Crash", "x:T[N]", func(x [][]float32, y []float32) { copy(y, x[0]) })

	plain := func(name string) record.Record {
		return record.Record{Op: "test." + name, Build: func(b *record.Builder, s *lowering.Step) bool {
			n := b.Bytes(s.Out[0]) / 4
			args := []kernel.Arg{kernel.Ptr(b.Buffer(s.Out[0])), kernel.Ptr(b.Buffer(s.In[0])), kernel.U64(n)}
			if len(s.In) > 1 {
				args = append(args, kernel.Ptr(b.Buffer(s.In[1])))
			}
			b.Launch(kernel.NewCall(code(name, len(args)), driver.Dim{X: uint32((n + 255) / 256), Y: 1, Z: 1}, args...))
			return true
		}}
	}
	record.Register(plain("Double"), plain("Sum"), plain("Crash"),
		record.Record{Op: "test.Odd", Build: func(b *record.Builder, s *lowering.Step) bool {
			b.Scratch(1000)
			b.Buffer(s.Out[0])
			return b.Bytes(s.In[0])/4%2 == 0 && plain("Odd").Build(b, s)
		}},
		record.Record{Op: "test.Positive", Build: func(b *record.Builder, s *lowering.Step) bool {
			b.Launch(kernel.NewCall(code("Positive", 4), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(b.Buffer(s.Out[0])),
				kernel.Ptr(b.Buffer(s.In[0])), kernel.U64(b.Bytes(s.In[0])/4), kernel.Ptr(b.Fault("a number is negative"))))
			return true
		}},
		record.Record{Op: "test.Same", Build: func(b *record.Builder, s *lowering.Step) bool {
			if !b.View(s.Out[0], s.In[0]) {
				b.Copy(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Bytes(s.In[0]))
			}
			return true
		}},
		record.Record{Op: "test.Shift", Build: func(b *record.Builder, s *lowering.Step) bool {
			bytes := b.Bytes(s.In[0])
			if bytes == 0 {
				return true
			}
			three := b.Constant(fmt.Sprintf("three for %d bytes", bytes), func() []byte {
				return binary.LittleEndian.AppendUint32(nil, math.Float32bits(3))
			})
			w := b.Scratch(bytes)
			b.Fill(w, 0, bytes)
			b.Copy(w, b.Buffer(s.In[0]), bytes)
			b.Launch(kernel.NewCall(code("Shift", 4), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(b.Buffer(s.Out[0])), kernel.Ptr(w),
				kernel.U64(bytes/4), kernel.Ptr(three)))
			return true
		}})
}

func each(y []float32, f func(i int) float32) {
	for i := range y {
		y[i] = f(i)
	}
}

// code is a kernel of so many parameters of 8 bytes.
func code(name string, params int) *kernel.Code {
	return kernel.New("test_"+name, 32, func(k *ptx.Kernel) {
		for i := range params {
			if i == 2 {
				k.U64Param("n")
			} else {
				k.PtrParam(fmt.Sprintf("p%d", i))
			}
		}
	})
}

// tested returns a null driver with the kernels of the test operators.
func tested() *null {
	n := newNull()
	for _, name := range []string{"states_enter", "states_leave"} {
		n.kernels[name] = func(n *null, params []byte, grid driver.Dim) error {
			return n.moveStates(params, grid, name == "states_leave")
		}
	}
	run := func(name string, f func(y, x, z []float32)) { // of parameters y, x, their length, z; Fused has one more

		n.kernels["test_"+name] = func(n *null, params []byte, _ driver.Dim) error {
			size := binary.LittleEndian.Uint64(params[16:])
			floats := func(at driver.Ptr, size uint64) ([]float32, error) {
				b, err := n.bytes("Launch", at, 4*size)
				if err != nil {
					return nil, err
				}
				return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), size), nil
			}
			y, err := floats(pointer(params, 0), size)
			if err != nil {
				return err
			}
			x, err := floats(pointer(params, 1), size)
			if err != nil {
				return err
			}
			var z []float32
			if len(params) > 24 {
				k := size
				if name == "Shift" || name == "Positive" {
					k = 1
				}
				if z, err = floats(pointer(params, 3), k); err != nil {
					return err
				}
			}
			f(y, x, z)
			if len(params) > 32 && pointer(params, 4) != 0 {
				w, err := floats(pointer(params, 4), size)
				each(w, func(i int) float32 { return 3 * x[i] })
				return err
			}
			return nil
		}
	}
	run("Triple", func(y, x, _ []float32) { each(y, func(i int) float32 { return 3 * x[i] }) })
	run("Plus", func(y, x, z []float32) { each(y, func(i int) float32 { return x[i] + z[i] }) })
	run("Fused", func(y, x, z []float32) { each(y, func(i int) float32 { return 3*x[i] + z[i] }) })
	run("Positive", func(y, x, z []float32) {
		each(y, func(i int) float32 {
			if x[i] < 0 {
				z[0] = 1
			}
			return x[i]
		})
	})
	run("Double", func(y, x, _ []float32) { each(y, func(i int) float32 { return 2 * x[i] }) })
	run("Odd", func(y, x, _ []float32) { each(y, func(i int) float32 { return -x[i] }) })
	run("Sum", func(y, x, z []float32) { each(y, func(i int) float32 { return x[i] + z[i] }) })
	run("Shift", func(y, x, z []float32) { each(y, func(i int) float32 { return x[i] + z[0] }) })
	n.kernels["test_Crash"] = func(*null, []byte, driver.Dim) error {
		return fail("cuLaunchKernel", driver.IllegalAddress, "")
	}
	return n
}

// testOps are not registered: they are of no model, and other tests try all operators.
var testOps = map[string]*ir.Op{}

func testOp(name string, in []string, f func(x [][]float32, y []float32)) *ir.Op {
	return &ir.Op{Domain: "test", Name: name, Since: 1, In: ops.Sig(in...), Out: ops.Sig("y:T[N]"), Along: ops.AlongElementwise,
		Infer: func(n *ir.Node) ([]ir.Type, error) { return []ir.Type{n.In(0).Type}, nil },
		Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			var x [][]float32
			for _, d := range in {
				x = append(x, tensor.Data[float32](d.(*tensor.Tensor)))
			}
			y := tensor.New(tensor.Float32, in[0].(*tensor.Tensor).Shape()...)
			f(x, tensor.Data[float32](y))
			return []tensor.Datum{y}, nil
		}}
}

// chain writes a graph of test operators on inputs x and z of N numbers: "y = Double x; w = Sum y z". The outputs are those
// named.
func chain(t testing.TB, text string, outputs ...string) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("chain", ops.Default, map[string]int{"test": 1, "": ops.Opsets()[""]})
	values := map[string]*ir.Value{}
	for _, name := range []string{"x", "z"} {
		values[name] = b.Input(name, ir.Tensor(tensor.Float32, "N"))
	}
	values["c"] = b.Const("c", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 6))
	for _, line := range strings.Split(text, ";") {
		f := strings.Fields(line)
		var in []*ir.Value
		for _, name := range f[3:] {
			in = append(in, values[name])
		}
		values[f[0]] = b.Apply(testOps[f[2]], 1, in, nil)[0]
		values[f[0]].Name = f[0]
	}
	for _, name := range outputs {
		b.Output(name, values[name])
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// moveStates is kernel.StatesMove: its parameters are the number of streams, the pieces, the addresses of places, the memory.
func (n *null) moveStates(params []byte, grid driver.Dim, leave bool) error {
	number := func(at driver.Ptr) (uint64, error) {
		b, err := n.bytes("Launch", at, 8)
		if err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint64(b), nil
	}
	for stream := range uint64(grid.Y) {
		place, err := number(pointer(params, 2) + driver.Ptr(8*stream))
		if err != nil {
			return err
		}
		for piece := range grid.X {
			var x [4]uint64
			for i := range x {
				if x[i], err = number(pointer(params, 1) + driver.Ptr(kernel.StatePieceBytes*piece) + driver.Ptr(8*i)); err != nil {
					return err
				}
			}
			dst, err := n.bytes("Launch", pointer(params, 3)+driver.Ptr(x[1]+stream*x[3]), x[2])
			if err != nil {
				return err
			}
			src, err := n.bytes("Launch", driver.Ptr(place+x[0]), x[2])
			if err != nil {
				return err
			}
			if leave {
				dst, src = src, dst
			}
			copy(dst, src)
		}
	}
	return nil
}
