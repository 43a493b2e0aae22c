//go:build before_door

package main

import (
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
)

// For commits without the package frontend/open.

// openDirectory returns the graph of a model directory after the passes of the command.
func openDirectory(dir string) (*ir.Graph, error) {
	c, w, err := checkpoint.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		return nil, err
	}
	return g, passes.Optimize(g)
}

// openONNX returns the graph of an ONNX file after the passes of the command.
func openONNX(file string) (*ir.Graph, error) {
	g, _, err := onnx.ReadFile(file, onnx.Options{})
	if err != nil {
		return nil, err
	}
	return g, passes.Run(g, append(raise.Pipeline(), passes.Pipeline()...), passes.Options{})
}
