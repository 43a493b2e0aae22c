package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// target is the flag --force of a command that writes a file, and the check that it turns off.
type target struct{ force bool }

func (t *target) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&t.force, "force", "f", false, "replace an existing file whatever it is")
}

// source is a file that a command reads.
type source struct{ path, what string }

// check refuses to replace an existing file of another kind than the command writes, or a file that it reads, under any
// of its names: the model ("" for none) and the others. Empty files, pipes and devices may be replaced.
func (t *target) check(file string, kind fileKind, model string, others ...source) error {
	if t.force {
		return nil
	}
	st, err := files.Stat(file)
	if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return nil // the error when writing is clearer
	}
	for _, s := range append([]source{{model, "the model"}}, others...) {
		if read, err := files.Stat(s.path); s.path != "" && err == nil && os.SameFile(st, read) {
			return fmt.Errorf("%s: refusing to replace %s; choose another name, or --force", file, s.what)
		}
	}
	e, err := readExisting(file, st.Size())
	if err != nil || kind.is(e) {
		return err
	}
	return fmt.Errorf("%s: expected %s to replace, or no file, found %s; %s", file, kind.name, e.kind(), instead)
}

const instead = "choose another name, or --force"

// existing is a file to be replaced.
type existing struct {
	head  []byte // up to headBytes
	size  int64
	model bool // it is an ONNX model
}

const headBytes = 64 << 10

func readExisting(file string, size int64) (*existing, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := &existing{head: make([]byte, min(size, headBytes)), size: size, model: onnx.IsModel(f, size)}
	if n, err := f.ReadAt(e.head, 0); n < len(e.head) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return e, nil
}

// kind returns the name of the file's kind.
func (e *existing) kind() string {
	if i := slices.IndexFunc(fileKinds, func(k fileKind) bool { return k.is(e) }); i >= 0 {
		return fileKinds[i].name
	}
	return "another kind of file"
}

// fileKind is a kind of file that commands write.
type fileKind struct {
	name string
	is   func(*existing) bool
}

var (
	planFile     = fileKind{"a plan", func(e *existing) bool { return plan.IsPlan(e.head) }}
	onnxFile     = fileKind{"an ONNX model", func(e *existing) bool { return e.model || onnx.Begins(e.head) }}
	snapshotFile = fileKind{"a state of essmc stream", func(e *existing) bool { return runtime.IsSnapshot(e.head) }}
	npyFile      = beginsWith("a .npy file", "\x93NUMPY")
	npzFile      = beginsWith("a .npz file", "PK\x03\x04")
	pngFile      = beginsWith("a PNG file", "\x89PNG\r\n\x1a\n")
	svgFile      = beginsWith("an SVG file", "<?xml", "<svg")
	pageFile     = beginsWith("an HTML page", "<!DOCTYPE html>", "<!doctype html>", "<html")
	tuneFile     = fileKind{"a file of essmc tune", func(e *existing) bool { return tune.Begins(e.head) }}
	reportFile   = fileKind{"a report of node tests", func(e *existing) bool {
		return e.head[0] == '{' && bytes.Contains(e.head, []byte(`"OnnxBackendNodeModelTest::`))
	}}
	textFile = fileKind{"IR text", func(e *existing) bool {
		return irtext.Begins(e.head) && bytes.Contains(e.head, []byte("=>"))
	}}
	csvFile = fileKind{"a .csv file", (*existing).isCSV}
)

// fileKinds are all kinds, the most certain first.
var fileKinds = []fileKind{
	planFile, onnxFile, snapshotFile, npyFile, npzFile, pngFile, svgFile, pageFile, tuneFile, reportFile, textFile,
	csvFile,
}

func beginsWith(name string, magics ...string) fileKind {
	return fileKind{name, func(e *existing) bool {
		return slices.ContainsFunc(magics, func(m string) bool { return bytes.HasPrefix(e.head, []byte(m)) })
	}}
}

// arrayFile returns the kind of file for a name's extension.
func arrayFile(file string) fileKind {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".npy":
		return npyFile
	case ".npz":
		return npzFile
	}
	return csvFile
}

// isCSV reports whether the lines of the head, except for the first one, are numbers between commas.
func (e *existing) isCSV() bool {
	if !utf8.Valid(e.head) {
		return false
	}
	text := string(e.head)
	if int64(len(text)) < e.size { // without the last number, which may be truncated
		text = text[:max(strings.LastIndexAny(text, ",\n"), 0)]
	}
	numbers := false
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if isNumbers(line) {
			numbers = true
		} else if i > 0 {
			return false
		}
	}
	return numbers
}

// isNumbers reports whether a line of a .csv file consists of numbers, including complex ones, and truth values.
func isNumbers(line string) bool {
	for field := range strings.SplitSeq(strings.TrimRight(line, ",\r"), ",") {
		field = strings.TrimSpace(field)
		_, number := strconv.ParseFloat(field, 64)
		_, pair := strconv.ParseComplex(field, 128)
		_, truth := strconv.ParseBool(field)
		if number != nil && !errors.Is(number, strconv.ErrRange) && pair != nil && truth != nil {
			return false
		}
	}
	return true
}
