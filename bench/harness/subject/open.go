//go:build !before_door

package main

import (
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
)

// openDirectory returns the graph of a model directory after the passes of the command.
func openDirectory(dir string) (*ir.Graph, error) { return openFile(dir) }

// openONNX returns the graph of an ONNX file after the passes of the command.
func openONNX(file string) (*ir.Graph, error) { return openFile(file) }

func openFile(path string) (*ir.Graph, error) {
	m, err := open.File(path, open.Options{})
	if err != nil {
		return nil, err
	}
	return m.Graph()
}
