package open_test

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// From a file to an answer. The file may also be an ONNX model, a plan, or a model directory.
func ExampleLoad() {
	model, err := open.Load("testdata/classify.txt", open.Options{Run: runtime.Options{Threads: 1}})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	features := tensor.FromSlice([]float32{0.5, 1, 1}, 1, 3)
	out, err := model.NewSession().Run(context.Background(), map[string]tensor.Datum{"features": features})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f\n", tensor.Data[float32](out["scores"].(*tensor.Tensor)))
	// Output: [0.182 0.818]
}

// A service opens an uploaded file, within limits and within a time.
func ExampleReader() {
	upload := bytes.NewReader(classify)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := open.Reader(upload, "upload", open.Options{
		Shapes:  []string{"features=1,_"}, // one sequence at a time: the passes may use that
		Limits:  open.Limits{Bytes: 100 << 20, Nodes: 10_000, Memory: 100 << 20},
		Context: ctx,
	})
	if err != nil {
		log.Fatal(err)
	}
	g, err := m.Graph() // the passes run here
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range m.Warnings() {
		log.Print(w)
	}
	var compiled bytes.Buffer // to store: a plan needs no passes
	if err := plan.Write(&compiled, g); err != nil {
		log.Fatal(err)
	}
	model, err := m.Compile(runtime.Options{Threads: 1, MaxMemory: 256 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(m.Kind, model.Inputs()[0].Type)
	// Output: IR text float[1,3]
}

// A program in one file, which contains the model.
func ExampleBytes() {
	m, err := open.Bytes(classify, "classify.txt", open.Options{})
	if err != nil {
		log.Fatal(err)
	}
	model, err := m.Compile(runtime.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	fmt.Println(model.Inputs()[0].Name, model.Outputs()[0].Name)
	// Output: features scores
}

//go:embed testdata/classify.txt
var classify []byte
