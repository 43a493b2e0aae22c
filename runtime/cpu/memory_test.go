package cpu

import (
	"context"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

// filled is the backend with memory that is not zero at the start of a run: 0xff reads as NaN, as -1, and as an
// invalid bool.
type filled struct{ runtime.Backend }

type filledProgram struct{ *program }

type filledExecutable struct{ *executable }

func (b filled) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	p, err := b.Backend.Compile(g, c)
	if err != nil {
		return nil, err
	}
	return filledProgram{p.(*program)}, nil
}

func (p filledProgram) Bind(b runtime.Binding) (runtime.Executable, error) {
	x, err := p.program.Bind(b)
	if err != nil {
		return nil, err
	}
	return filledExecutable{x.(*executable)}, nil
}

func (x filledExecutable) Run(ctx context.Context, in, out []tensor.Datum) error {
	x.fill()
	return x.executable.Run(ctx, in, out)
}

// fill writes over the arena, and those of subgraphs.
func (e *executable) fill() {
	for i := range e.Memory {
		e.Memory[i] = 0xff
	}
	for _, u := range e.units {
		for _, sub := range u.subs {
			if sub != nil {
				sub.fill()
			}
		}
	}
}

// Runs read nothing of the arena that they have not written.
func TestDeadMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite once more")
	}
	backendtest.Run(t, func() runtime.Backend { return filled{New()} }, backendtest.Options{Must: []string{"*"},
		Refuses: []string{"precision-float64", "tf32", "observe"},
		Skip:    map[string]string{"memory_bounds": "TestBackend has them; what memory holds does not change its size"}})
}

// Values of any type that are not alive together lie in the same memory.
func TestArenaOfAllTypes(t *testing.T) {
	const n = 1 << 14
	for _, c := range []struct {
		op    string
		dtype tensor.DType
	}{{"Xor", tensor.Bool}, {"Mul", tensor.Int64}} {
		bytes := func(steps int) int64 {
			b := ir.NewBuilder("chain", ops.Default, ops.Opsets())
			x := b.Input("x", ir.Tensor(c.dtype, n))
			y := x
			for range steps {
				y = b.Op("", c.op, []*ir.Value{y, x})
			}
			b.Output("y", y)
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			p, err := compile(g, runtime.Config{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Tensor(c.dtype, n)}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			return int64(len(e.(*executable).Memory))
		}
		one := int64(tensor.ByteSize(c.dtype, n))
		if got := bytes(1); got != 0 {
			t.Errorf("%s: a result that the caller wants takes %d bytes", c.op, got)
		}
		if few, many := bytes(3), bytes(20); few != 2*one || many != few {
			t.Errorf("%s: 3 steps take %d bytes, 20 %d; expected %d", c.op, few, many, 2*one)
		}
	}
}
