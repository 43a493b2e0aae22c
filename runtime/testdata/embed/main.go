// Command embed is a minimal program that embeds the runtime: it runs the plan given as its argument on zeros, and
// describes the output. A test checks the size of the program.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

func main() {
	model, err := runtime.Load(os.Args[1], runtime.Options{Backend: cpu.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	out, err := model.NewSession().Run(context.Background(),
		map[string]tensor.Datum{"input": tensor.New(tensor.Float32, 1, 100, 2)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out["output"])
}
