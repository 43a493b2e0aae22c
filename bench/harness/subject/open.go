//go:build !before_door

package main

import (
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
)

// openDirectory builds and optimises a model as the command does.
func openDirectory(dir string) (*ir.Graph, error) { return openFile(dir) }

// openONNX reads and optimises a file as the command does.
func openONNX(file string) (*ir.Graph, error) { return openFile(file) }

func openFile(path string) (*ir.Graph, error) {
	m, err := open.File(path, open.Options{})
	if err != nil {
		return nil, err
	}
	return m.Graph()
}
