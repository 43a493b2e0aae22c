// Command embed is what a program is that embeds the runtime and nothing else: it runs the plan that its argument names on
// zeros, and prints what its output is. A test holds its size.
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
