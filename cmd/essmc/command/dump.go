package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// dumper writes the values of a run to a directory, one file each.
type dumper struct {
	*stage
	taken map[string]bool // file names in lower case, for file systems that ignore case
	index strings.Builder
	count int
	err   error // the first error; later values are not written
}

// newDumper returns a dumper to dir, which must not exist or be empty.
func newDumper(dir string) (*dumper, error) {
	stage, err := newStage(dir)
	if err != nil {
		return nil, err
	}
	d := &dumper{stage: stage, taken: map[string]bool{"values.tsv": true}}
	d.index.WriteString("file\tvalue\ttype\tnode\n")
	return d, nil
}

// value is a runtime.Options.Observe. The interpreter runs on one goroutine.
func (d *dumper) value(v *ir.Value, datum tensor.Datum) {
	node := ""
	if v.Def != nil {
		node = v.Def.String()
	}
	d.write(v.Name, node, datum)
}

func (d *dumper) inputs(in map[string]tensor.Datum) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		d.write(name, "", in[name])
	}
}

func (d *dumper) write(name, node string, datum tensor.Datum) {
	if d.err != nil {
		return
	}
	switch x := datum.(type) {
	case *tensor.Tensor:
		if x == nil {
			return
		}
		file := d.file(name)
		if err := writeStaged(filepath.Join(d.temp, file),
			func(w io.Writer) error { return arrays.WriteNpy(w, x) }); err != nil {
			d.err = fmt.Errorf("value %s: %w", name, d.rename(err))
			return
		}
		fmt.Fprintf(&d.index, "%s\t%s\t%s\t%s\n", file, strconv.Quote(name), x, node)
		d.count++
	case *tensor.Sequence:
		for i, item := range x.Items {
			d.write(fmt.Sprintf("%s.%d", name, i), node, item)
		}
	case *tensor.Optional:
		if x != nil && x.Value != nil {
			d.write(name, node, x.Value)
		}
	}
}

// file returns a unique file name for a value: letters, digits and a few other characters stay. Names are unique
// without regard to case. A value that is computed several times (in a loop) gets a number.
func (d *dumper) file(name string) string {
	s := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	if s == "" || s[0] == '.' {
		s = "_" + s
	}
	s = s[:min(len(s), 150)]
	file := s + ".npy"
	for i := 2; d.taken[strings.ToLower(file)]; i++ {
		file = fmt.Sprintf("%s~%d.npy", s, i)
	}
	d.taken[strings.ToLower(file)] = true
	return file
}

// writeStaged writes a file that need not be complete before the directory is.
func writeStaged(path string, fill func(io.Writer) error) error {
	f, err := files.Create(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
	return errors.Join(err, f.Close())
}

// keep renames the directory to its final name, and returns the number of values in it.
func (d *dumper) keep() (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if err := writeStaged(filepath.Join(d.temp, "values.tsv"), func(w io.Writer) error {
		_, err := io.WriteString(w, d.index.String())
		return err
	}); err != nil {
		return 0, d.rename(err)
	}
	return d.count, d.commit()
}
