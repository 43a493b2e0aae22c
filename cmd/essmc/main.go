// Command essmc compiles ONNX models and state-space sequence models to plans, and runs them.
package main

import (
	"os"

	"github.com/essmc/essmc/cmd/essmc/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
