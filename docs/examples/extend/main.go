// Command acme is essmc with an operator, a kernel, a family of models and a pass of package acme.
package main

import (
	"os"

	"example.com/extend/acme"

	"github.com/essmc/essmc/cmd/essmc/command"
	"github.com/essmc/essmc/passes"
)

func main() {
	options := command.Options{Passes: []*passes.Pass{acme.Centers}}
	os.Exit(options.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
