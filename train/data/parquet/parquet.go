// Package parquet reads data for training from files in the Parquet format, by the library
// github.com/parquet-go/parquet-go.
//
// Files are untrusted. What they claim about themselves is checked before the library reads it: the footer, and the
// header of each page of the columns that are read. If the content of a compressed page is larger than its header says,
// the library may still take as much memory as that content has. Encrypted files are refused.
package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/train/data"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Options say what the columns of a file are, by their names.
type Options struct {
	Label   string   // the column of the class: of numbers, texts or bools; empty: none
	Targets []string // columns of numbers to be estimated, instead of a class
	Text    string   // the column of text; empty: features are numbers

	// Features are the columns of numbers: either all lists, each a feature whose lists have a number for each step; or
	// all plain numbers, which are (Steps, features) for each row, as in data.TableOptions. A Steps of 0 makes each
	// plain number a step.
	Features []string
	Steps    int

	Classes []string     // the names of the classes in their order; nil: those in the column, sorted, numbers by their values
	Encode  data.Encoder // turns text into tokens; nil: data.Bytes
	Length  int          // tokens beyond this number are cut off; 0: none are
}

// Read reads a file whose rows are samples.
func Read(ctx context.Context, path string, o Options) (_ data.Dataset, err error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	budget := &files.Budget{Limit: MaxFile, Context: ctx}
	r, size, err := budget.Regular(f, path)
	if err != nil {
		return nil, err
	}
	set, err := read(ctx, r, size, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

// read reads a file of size bytes.
func read(ctx context.Context, r io.ReaderAt, size int64, o Options) (_ data.Dataset, err error) {
	defer func() { // the library may panic on files that are damaged
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged Parquet file: %v", p)
		}
	}()
	if (o.Label != "") == (len(o.Targets) > 0) || (o.Text != "") == (len(o.Features) > 0) {
		return nil, fmt.Errorf("columns: expected either a label or targets, and either text or features, found label %q, targets %q, text %q and features %q",
			o.Label, o.Targets, o.Text, o.Features)
	}
	if o.Encode == nil {
		o.Encode = data.Bytes{}
	}
	if err := checkFooter(r, size); err != nil {
		return nil, err
	}
	file, err := pq.OpenFile(r, size, pq.SkipPageIndex(true), pq.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", err)
	}
	t := &table{Options: o, ctx: ctx, r: r, size: size, file: file}
	if t.rows = int(min(file.NumRows(), data.MaxSamples+1)); t.rows < 1 || t.rows > data.MaxSamples {
		return nil, fmt.Errorf("expected 1 to %d rows, found %d", data.MaxSamples, file.NumRows())
	}
	return t.read()
}

// table is a file that is being read.
type table struct {
	Options
	ctx  context.Context
	r    io.ReaderAt
	size int64
	file *pq.File
	rows int
}

func (t *table) read() (data.Dataset, error) {
	spec := data.Spec{Inputs: 1}
	targets, err := t.targets(&spec)
	if err != nil {
		return nil, err
	}
	var inputs []*tensor.Tensor
	if t.Text != "" {
		inputs, err = t.texts(&spec)
	} else {
		inputs, err = t.features(&spec)
	}
	if err != nil {
		return nil, err
	}
	samples := make([]data.Sample, t.rows)
	for i := range samples {
		samples[i] = data.Sample{Inputs: inputs[i : i+1 : i+1], Target: targets[i]}
	}
	return data.Collect(spec, samples)
}

// targets returns the target of each row.
func (t *table) targets(spec *data.Spec) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, 0, t.rows)
	if t.Label != "" {
		names := data.NewLabels(t.Classes)
		var all []int64
		err := t.column(t.Label, false, func(row int, v pq.Value) error {
			k, err := names.Number(v.String())
			all = append(all, k)
			return err
		})
		if err != nil {
			return nil, err
		}
		spec.Classes, all = names.Finish(all)
		for _, k := range all {
			out = append(out, tensor.Scalar(k))
		}
		return out, nil
	}
	spec.Targets = len(t.Targets)
	values, err := t.numbers(t.Targets)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(values, len(t.Targets)) {
		out = append(out, tensor.FromSlice(part, len(part)))
	}
	return out, nil
}

// numbers returns plain numbers: those of the first row, and so on.
func (t *table) numbers(columns []string) ([]float32, error) {
	if int64(t.rows)*int64(len(columns)) > maxRatio*t.size+slack {
		return nil, fmt.Errorf("%d rows of %d numbers in a file of %d bytes", t.rows, len(columns), t.size)
	}
	out := make([]float32, t.rows*len(columns))
	for k, name := range columns {
		err := t.column(name, false, func(row int, v pq.Value) (err error) {
			out[row*len(columns)+k], err = number(v)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// texts returns the tokens of each row.
func (t *table) texts(spec *data.Spec) ([]*tensor.Tensor, error) {
	spec.Tokens = t.Encode.Tokens()
	var out []*tensor.Tensor
	return out, t.column(t.Text, false, func(_ int, v pq.Value) error {
		if k := v.Kind(); k != pq.ByteArray && k != pq.FixedLenByteArray {
			return fmt.Errorf("expected text, found %s", k)
		}
		tokens, err := data.EncodeText(t.ctx, t.Encode, string(v.ByteArray()), t.Length)
		out = append(out, tensor.FromSlice(tokens, len(tokens)))
		return err
	})
}

// features returns the features of each row.
func (t *table) features(spec *data.Spec) ([]*tensor.Tensor, error) {
	n := len(t.Features)
	c, err := t.leaf(t.Features[0])
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, 0, t.rows)
	if c.MaxRepetitionLevel() == 0 {
		spec.Features = 1
		if t.Steps < 0 || t.Steps > 0 && n%t.Steps != 0 {
			return nil, fmt.Errorf("expected a multiple of %d steps as the number of features, found %d", t.Steps, n)
		} else if t.Steps > 0 {
			spec.Features = n / t.Steps
		}
		values, err := t.numbers(t.Features)
		if err != nil {
			return nil, err
		}
		for part := range slices.Chunk(values, n) {
			out = append(out, tensor.FromSlice(part, n/spec.Features, spec.Features))
		}
		return out, nil
	}
	if t.Steps != 0 {
		return nil, fmt.Errorf("expected 0 for the number of steps of lists, found %d", t.Steps)
	}
	spec.Features = n
	lists := make([][][]float32, n) // of each column, for each row
	for k, name := range t.Features {
		lists[k] = make([][]float32, t.rows)
		err := t.column(name, true, func(row int, v pq.Value) error {
			x, err := number(v)
			lists[k][row] = append(lists[k][row], x)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for row := range t.rows {
		steps := len(lists[0][row])
		x := make([]float32, steps*n)
		for k := range lists {
			if len(lists[k][row]) != steps {
				return nil, fmt.Errorf("column %q, row %d: expected a list of %d, as in column %q, found %d",
					t.Features[k], row, steps, t.Features[0],
					len(lists[k][row]))
			}
			for s, v := range lists[k][row] {
				x[s*n+k] = v
			}
		}
		out = append(out, tensor.FromSlice(x, steps, n))
	}
	return out, nil
}

// leaf returns the column of values with a name: of a list, that of its elements.
func (t *table) leaf(name string) (*pq.Column, error) {
	c := t.file.Root().Column(name)
	if c == nil {
		var have []string
		for _, c := range t.file.Root().Columns() {
			have = append(have, c.Name())
		}
		return nil, fmt.Errorf("column %q: expected one of %.300q", name, have)
	}
	for !c.Leaf() {
		inner := c.Columns()
		if len(inner) != 1 {
			return nil, fmt.Errorf("column %q: expected a value or a list, found a structure of %d", name, len(inner))
		}
		c = inner[0]
	}
	if c.MaxRepetitionLevel() > 1 {
		return nil, fmt.Errorf("column %q: expected a value or a list, found lists of lists", name)
	}
	l := c.Type().LogicalType()
	if l == nil {
		return c, nil
	}
	if _, ok := l.Value.(*format.DecimalType); ok {
		return nil, fmt.Errorf("column %q: expected numbers or text, found decimals; store them as floats", name)
	}
	return c, nil
}

// column calls f for each value of a column; each row has at least one, and exactly one unless it has lists.
func (t *table) column(name string, lists bool, f func(row int, v pq.Value) error) error {
	c, err := t.leaf(name)
	if err != nil {
		return err
	}
	if list := c.MaxRepetitionLevel() > 0; list != lists {
		return fmt.Errorf("column %q: expected lists: %t, found %t", name, lists, list)
	}
	if err := checkPages(t.r, t.size, t.file, c.Index()); err != nil {
		return fmt.Errorf("column %q: %w", name, err)
	}
	row := -1
	for g, group := range t.file.RowGroups() {
		end := row + int(min(group.NumRows(), int64(t.rows)))
		row, err = t.chunk(group.ColumnChunks()[c.Index()], row, min(end, t.rows-1), f)
		if err == nil && row != end {
			err = fmt.Errorf("expected %d rows, found %d", end+1, row+1)
		}
		if err != nil {
			return fmt.Errorf("column %q, group %d of rows, row %d: %w", name, g, row, err)
		}
	}
	if row != t.rows-1 {
		return fmt.Errorf("column %q: expected %d rows, found %d", name, t.rows, row+1)
	}
	return nil
}

// chunk reads the values of a group of rows, and returns the last row.
func (t *table) chunk(chunk pq.ColumnChunk, row, last int, f func(row int, v pq.Value) error) (int, error) {
	pages := chunk.Pages()
	defer pages.Close()
	var some [256]pq.Value
	for {
		if t.ctx.Err() != nil {
			return row, context.Cause(t.ctx)
		}
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return row, nil
		}
		if err != nil {
			return row, err
		}
		for values, done := page.Values(), false; !done; {
			n, err := values.ReadValues(some[:])
			if err != nil && err != io.EOF {
				return row, err
			}
			done = err == io.EOF || n == 0
			for _, v := range some[:n] {
				if v.RepetitionLevel() == 0 {
					row++
				}
				switch {
				case row < 0 || row > last:
					return row, fmt.Errorf("expected rows up to %d", last)
				case v.IsNull():
					return row, errors.New("expected a value, found null or an empty list")
				}
				if err := f(row, v); err != nil {
					return row, err
				}
			}
		}
		pq.Release(page)
	}
}

// number returns a value as a finite float32.
func number(v pq.Value) (float32, error) {
	var x float64
	switch v.Kind() {
	case pq.Boolean:
		if v.Boolean() {
			x = 1
		}
	case pq.Int32:
		x = float64(v.Int32())
	case pq.Int64:
		x = float64(v.Int64())
	case pq.Float:
		x = float64(v.Float())
	case pq.Double:
		x = v.Double()
	default:
		return 0, fmt.Errorf("expected a number, found %s", v.Kind())
	}
	if y := float32(x); !math.IsNaN(x) && !math.IsInf(float64(y), 0) {
		return y, nil
	}
	return 0, fmt.Errorf("expected a finite number, found %s", strconv.FormatFloat(x, 'g', -1, 64))
}
