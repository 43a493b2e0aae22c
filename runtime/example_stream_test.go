package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// decay makes the model x[t] = ½ x[t-1] + v[t], for every sample of the batch.
func decay(direction string) *ir.Graph {
	number := func(v float64) *tensor.Tensor { return tensor.FromSlice([]float64{v}, 1, 1, 1) }
	b := ir.NewBuilder("decay", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	b.Scope("layers.0")
	x := b.Op("essm", "Scan", []*ir.Value{b.Input("v", ir.Tensor(tensor.Float32, "B", "L", 1)),
		b.Const("a_re", number(math.Log(0.5))), b.Const("a_im", number(0)),
		b.Const("b_re", number(1)), b.Const("b_im", number(0))}, ir.A("direction", direction))
	b.Output("x", x)
	g, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return g
}

// planned is the same as a plan file's bytes.
func planned() []byte {
	var b bytes.Buffer
	if err := plan.Write(&b, decay("forward")); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

func open() *runtime.Model {
	content := planned()
	m, err := runtime.LoadReader(bytes.NewReader(content), int64(len(content)), "decay.essm",
		runtime.Options{Backend: cpu.New()})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// numbers is one sequence of one feature.
func numbers(v ...float32) map[string]tensor.Datum {
	return map[string]tensor.Datum{"v": tensor.FromSlice(v, 1, len(v), 1)}
}

func printed(out map[string]tensor.Datum) {
	fmt.Println(tensor.Data[float32](out["x"].(*tensor.Tensor)))
}

// A plan is loaded from a file, which stays mapped, and says what it takes and gives.
func ExampleLoad() {
	path := filepath.Join(os.TempDir(), "decay.essm")
	if err := os.WriteFile(path, planned(), 0o600); err != nil {
		log.Fatal(err)
	}
	defer os.Remove(path)

	model, err := runtime.Load(path, runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	for _, p := range model.Inputs() {
		fmt.Println("takes", p.Name, p.Type)
	}
	for _, p := range model.Outputs() {
		fmt.Println("gives", p.Name, p.Type)
	}
	// Output:
	// takes v float[B,L,1]
	// gives x float[B,L,1]
}

// With an embed.FS in place of this one, the program is one file.
func ExampleLoadFS() {
	files := fstest.MapFS{"models/decay.essm": {Data: planned()}}
	model, err := runtime.LoadFS(files, "models/decay.essm", runtime.Options{Backend: cpu.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Backend(), model.Meta()[ir.MetaTime])
	// Output: cpu L
}

// RunInto writes into memory of the caller's; the second run of a shape allocates nothing.
func ExampleSession_RunInto() {
	model := open()
	defer model.Close()
	session := model.NewSession()
	if err := session.Warmup(context.Background(), map[string]int64{"B": 1, "L": 4}); err != nil {
		log.Fatal(err)
	}
	out := map[string]tensor.Datum{"x": tensor.New(tensor.Float32, 1, 4, 1)}
	for _, in := range []map[string]tensor.Datum{numbers(1, 0, 0, 8), numbers(0, 2, 0, 0)} {
		if err := session.RunInto(context.Background(), in, out); err != nil {
			log.Fatal(err)
		}
		printed(out)
	}
	// Output:
	// [1 0.5 0.25 8.125]
	// [0 2 1 0.5]
}

// A stream answers chunk by chunk what the whole sequence gives.
func ExampleModel_NewStream() {
	model := open()
	defer model.Close()
	stream, err := model.NewStream(1)
	if err != nil {
		log.Fatal(err)
	}
	for _, chunk := range []map[string]tensor.Datum{numbers(1), numbers(0, 0, 8)} {
		out := map[string]tensor.Datum{}
		if err := stream.Step(context.Background(), chunk, out); err != nil {
			log.Fatal(err)
		}
		printed(out)
	}
	fmt.Println(stream.Steps(), "steps")
	// Output:
	// [1]
	// [0.5 0.25 8.125]
	// 4 steps
}

// A model that looks ahead says which layer does.
func ExampleStreamError() {
	model, err := runtime.New(decay("bidirectional"), runtime.Options{Backend: cpu.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	_, err = model.NewStream(1)
	fmt.Println(errors.Is(err, runtime.ErrStream))
	fmt.Println(err)
	// Output:
	// true
	// cannot run step by step: graph decay has no step graph: layers.0 (essm.Scan): bidirectional, looks ahead without bound
}

// A snapshot goes on where the stream was: in another process, or later.
func ExampleStream_Snapshot() {
	model := open()
	defer model.Close()
	stream, err := model.NewStream(1)
	if err != nil {
		log.Fatal(err)
	}
	out := map[string]tensor.Datum{}
	if err := stream.Step(context.Background(), numbers(1), out); err != nil {
		log.Fatal(err)
	}
	snapshot, err := stream.Snapshot()
	if err != nil {
		log.Fatal(err)
	}

	again := open() // the same model elsewhere
	defer again.Close()
	stream, err = again.NewStream(1)
	if err != nil {
		log.Fatal(err)
	}
	if err := stream.Restore(snapshot); err != nil {
		log.Fatal(err)
	}
	out = map[string]tensor.Datum{}
	if err := stream.Step(context.Background(), numbers(0, 0), out); err != nil {
		log.Fatal(err)
	}
	printed(out)

	snapshot[100] ^= 1
	err = stream.Restore(snapshot)
	fmt.Println(errors.Is(err, runtime.ErrSnapshot), err)
	// Output:
	// [0.5 0.25]
	// true snapshot: is damaged: its checksum does not match
}

// States are read and set by name.
func ExampleStream_State() {
	model := open()
	defer model.Close()
	stream, err := model.NewStream(1)
	if err != nil {
		log.Fatal(err)
	}
	state, err := stream.State()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range stream.States() {
		fmt.Println(p.Name, p.Type, state[p.Name])
		tensor.Data[float64](state[p.Name])[0] = 64 // the real part
	}
	if err := stream.SetState(state); err != nil {
		log.Fatal(err)
	}
	out := map[string]tensor.Datum{}
	if err := stream.Step(context.Background(), numbers(0, 0), out); err != nil {
		log.Fatal(err)
	}
	printed(out)
	// Output:
	// layers.0.state double[B,2] float64[1,2] [[0 0]]
	// [32 16]
}

// Many streams step as one batch; what is wrong with one is its error alone.
func ExampleModel_StepMany() {
	model := open()
	defer model.Close()
	steps := make([]runtime.StreamStep, 3)
	for i := range steps {
		stream, err := model.NewStream(1)
		if err != nil {
			log.Fatal(err)
		}
		steps[i] = runtime.StreamStep{Stream: stream, In: numbers(float32(i), 0), Out: map[string]tensor.Datum{}}
	}
	steps[1].In = nil
	fmt.Println(model.StepMany(context.Background(), steps))
	for _, s := range steps {
		if s.Err != nil {
			fmt.Println(s.Err)
			continue
		}
		printed(s.Out)
	}
	// Output:
	// stream 1: input "v": is missing; expected float[B,L,1]
	// [0 0]
	// input "v": is missing; expected float[B,L,1]
	// [2 1]
}
