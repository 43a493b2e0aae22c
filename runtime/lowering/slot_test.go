package lowering

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// bindText lowers a graph with an evaluated step for each node, and binds it to the types of the inputs.
func bindText(t *testing.T, text string, in ...*tensor.Tensor) *Binding {
	t.Helper()
	p, err := Lower(parse(t, text), runtime.Config{}, evaluated{})
	if err != nil {
		t.Fatal(err)
	}
	var types []ir.Type
	for _, x := range in {
		types = append(types, ir.Of(x))
	}
	d := p.Bind(runtime.Binding{Inputs: types}, nil)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return d
}

// slotOf holds the slot of an element type: during a run it has the elements of an input, of a value with a place and
// of a result; after it, none of the caller's.
func slotOf[T tensor.Elem](t *testing.T, v T) {
	t.Helper()
	dtype := tensor.DTypeOf[T]()
	x := tensor.FromSlice([]T{v, *new(T), v}, 3)
	d := bindText(t, fmt.Sprintf("g (%v[3] x) => (y) { a = Identity (x)\n y = Identity (a) }", dtype), x)
	f := d.NewFrame(false)
	steps := d.Program.Steps
	f.Place(steps[0].Out[0], tensor.New(dtype, 3))
	in, a, y := Input[T](d, steps[0], 0), Output[T](d, steps[0], 0), Output[T](d, steps[1], 0)
	asBytes := BytesOf(d, steps[0].In[0])
	if in.Absent() || !f.Direct(0) {
		t.Fatalf("%v: absent, or not computed where the caller wants it", dtype)
	}
	out := []tensor.Datum{nil}
	if err := f.Begin(context.Background(), []tensor.Datum{x}, out); err != nil {
		t.Fatal(err)
	}
	if got := in.In(&f); !slices.Equal(got, tensor.Data[T](x)) || &got[0] != &tensor.Data[T](x)[0] {
		t.Errorf("%v: input is %v", dtype, got)
	}
	if got := asBytes.In(&f); !bytes.Equal(got, x.Bytes()) || &got[0] != &x.Bytes()[0] {
		t.Errorf("%v: the input's bytes are %v", dtype, got)
	}
	for _, s := range steps {
		if err := f.Evaluate(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(a.In(&f), tensor.Data[T](x)) || !slices.Equal(y.In(&f), tensor.Data[T](x)) {
		t.Errorf("%v: results are %v and %v", dtype, a.In(&f), y.In(&f))
	}
	if &y.In(&f)[0] != &tensor.Data[T](out[0].(*tensor.Tensor))[0] {
		t.Errorf("%v: the result does not lie where the caller has it", dtype)
	}
	f.End()
	if len(a.In(&f)) != 3 || in.In(&f) != nil || y.In(&f) != nil || len(asBytes.In(&f)) != 0 {
		t.Errorf("%v: after the run slots have %v, %v and %v", dtype, in.In(&f), a.In(&f), y.In(&f))
	}
	w := Input[T](d, steps[0], 1)
	if !w.Absent() || w.In(&f) != nil {
		t.Errorf("%v: an absent input has %v", dtype, w.In(&f))
	}
}

func TestSlots(t *testing.T) {
	slotOf(t, float32(1.5))
	slotOf(t, 1.5)
	slotOf(t, int8(-3))
	slotOf(t, int16(-3))
	slotOf(t, int32(-3))
	slotOf(t, int64(-3))
	slotOf(t, uint8(3))
	slotOf(t, uint16(3))
	slotOf(t, uint32(3))
	slotOf(t, uint64(3))
	slotOf(t, true)
	slotOf(t, tensor.F16(3))
	slotOf(t, tensor.BF16(3))
	slotOf(t, complex64(3i))
	slotOf(t, 3i)
}

// Bytes of packed types are whole: the last may be filled in part.
func TestPackedBytes(t *testing.T) {
	x, err := tensor.FromBytes(tensor.Int4, []int{3}, []byte{0x21, 0x03})
	if err != nil {
		t.Fatal(err)
	}
	d := bindText(t, "g (int4[3] x) => (y) { y = Identity (x) }", x)
	f, b := d.NewFrame(false), BytesOf(d, d.Program.Inputs[0])
	if err := f.Begin(context.Background(), []tensor.Datum{x}, []tensor.Datum{nil}); err != nil {
		t.Fatal(err)
	}
	if got := b.In(&f); !bytes.Equal(got, x.Bytes()) {
		t.Errorf("found %v", got)
	}
}

// A slot of another type than the one that is bound is a mistake of the kernel, and shows when it is made.
func TestWrongSlotPanics(t *testing.T) {
	d := bindText(t, `g (int64[3] x, string[3] s, bool[3] c) => (y, z, w) {
		y = Neg (x)
		z = Identity (s)
		w = Compress (x, c)
	}`, tensor.New(tensor.Int64, 3), tensor.New(tensor.String, 3), tensor.New(tensor.Bool, 3))
	outs := d.Program.Outputs
	for _, c := range []struct {
		ask  func()
		want string
	}{
		{func() { SlotOf[int32](d, outs[0]) }, "value y is bound as int64[3], a kernel asks for int32"},
		{func() { SlotOf[int64](d, outs[2]) }, "value w is bound as"},
		{func() { BytesOf(d, outs[1]) }, "value z is bound as string[3], a kernel asks for its bytes"},
		{func() { BytesOf(d, outs[2]) }, "value w is bound as"},
	} {
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), c.want) {
					t.Errorf("found %v, expected %s", v, c.want)
				}
			}()
			c.ask()
		}()
	}
}

// A result without a place is read in its slot until the last step that reads it.
func TestSlotOfEvaluated(t *testing.T) {
	x := tensor.FromSlice([]int64{1, -2}, 2)
	d := bindText(t, `g (int64[2] x) => (y) { a = Neg (x)
		b = Abs (a)
		y = Neg (b) }`, x)
	f, steps := d.NewFrame(false), d.Program.Steps
	a := Output[int64](d, steps[0], 0)
	if err := f.Begin(context.Background(), []tensor.Datum{x}, []tensor.Datum{nil}); err != nil {
		t.Fatal(err)
	}
	want := [][]int64{{-1, 2}, nil, nil}
	for i, s := range steps {
		if err := f.Evaluate(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if got := a.In(&f); !slices.Equal(got, want[i]) {
			t.Errorf("after step %d: found %v, expected %v", i, got, want[i])
		}
	}
}

// The bound types also apply to tensors to write to, and to results of operators.
func TestWrongTensors(t *testing.T) {
	x := tensor.FromSlice([]int64{1, -2}, 2)
	d := bindText(t, "g (int64[2] x) => (y) { a = Neg (x)\n y = Neg (a) }", x)
	f := d.NewFrame(false)
	for _, out := range []tensor.Datum{tensor.New(tensor.Int32, 2), tensor.New(tensor.Int64, 3), &tensor.Sequence{}} {
		err := f.Begin(context.Background(), []tensor.Datum{x}, []tensor.Datum{out})
		if err == nil || !strings.Contains(err.Error(), `output "y"`) {
			t.Errorf("%s: found %v", out, err)
		}
		f.End()
	}
	a := d.Program.Steps[0].Out[0]
	wrong := []tensor.Datum{nil, tensor.New(tensor.Int32, 2), tensor.New(tensor.Int64, 3), &tensor.Sequence{}}
	for _, given := range wrong {
		if err := f.Store(a, given); err == nil || !strings.Contains(err.Error(), "expected int64[2]") {
			t.Errorf("%s: found %v", given, err)
		}
	}
}

// Reading a slot takes no memory.
func TestSlotsAllocateNothing(t *testing.T) {
	x, y := tensor.FromSlice([]bool{true, false}, 2), tensor.New(tensor.Bool, 2)
	d := bindText(t, "g (bool[2] x) => (y) { y = Not (x) }", x)
	f := d.NewFrame(false)
	from, to := Input[bool](d, d.Program.Steps[0], 0), Output[bool](d, d.Program.Steps[0], 0)
	raw := BytesOf(d, d.Program.Inputs[0])
	in, out := []tensor.Datum{x}, []tensor.Datum{y}
	if n := testing.AllocsPerRun(10, func() {
		if err := f.Begin(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		for i, v := range from.In(&f) {
			to.In(&f)[i] = !v && raw.In(&f)[i] == 0
		}
		f.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !slices.Equal(tensor.Data[bool](y), []bool{false, true}) {
		t.Errorf("found %v", tensor.Data[bool](y))
	}
}
