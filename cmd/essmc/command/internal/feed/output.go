package feed

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Output is an output with its file.
type Output struct{ Name, File string }

// Expected parses NAME=FILE for outputs, or FILE if there is one output.
func Expected(specs []string, ports []runtime.Port) ([]Output, error) {
	var out []Output
	for _, s := range specs {
		name, file, err := split(s, ports, "output")
		if err != nil {
			return nil, err
		}
		if name == "" {
			if name, err = only(ports, file, "output"); err != nil {
				return nil, err
			}
		}
		out = append(out, Output{name, file})
	}
	return out, nil
}

// Outputs is Expected for files to be written. To prevent errors after long runs, it refuses file types that cannot be
// written, and one file for two outputs.
func Outputs(specs []string, ports []runtime.Port) ([]Output, error) {
	out, err := Expected(specs, ports)
	if err != nil {
		return nil, err
	}
	for i, o := range out {
		if !slices.Contains([]string{".npy", ".npz", ".csv"}, strings.ToLower(filepath.Ext(o.File))) {
			return nil, fmt.Errorf("%s: unknown file extension, expected .npy, .npz or .csv", o.File)
		}
		for _, other := range out[:i] {
			if other.File == o.File {
				return nil, fmt.Errorf("%s: outputs %q and %q have the same file", o.File, other.Name, o.Name)
			}
		}
	}
	return out, nil
}

// Write writes one output.
func (o Output) Write(d tensor.Datum) error {
	t, ok := d.(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("%s: output %q is not a tensor, and cannot be written as an array", o.File, o.Name)
	}
	return arrays.Write(o.File, t)
}
