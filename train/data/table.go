package data

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// MaxTable is the number of bytes that a table of text may have. Larger data should be arrays.
const MaxTable = 1 << 30

// TableOptions say what the columns of a table are. A column is given by its name in the first row, or by its number
// from 0; negative numbers count from the end.
type TableOptions struct {
	Separator byte // 0: a tab for .tsv, otherwise a comma
	NoHeader  bool // the first row is a sample

	Label   string   // the column of the class; empty: none
	Targets []string // columns of numbers to be estimated, instead of a class
	Text    string   // the column of text; empty: features are numbers
	Second  string   // the column of a second text, for tasks that compare two; empty: none

	// Features are the columns of numbers; nil: all that are not targets. With Steps at 0 each is a step of one
	// feature, and those without a number at the end of a row ("" or NaN) are left out, as series of different lengths
	// have them. Otherwise a row is (Steps, features), the features of the first step first.
	Features []string
	Steps    int

	Classes []string // the names of the classes in their order; nil: those in the column, sorted, numbers by their values
	Encode  Encoder  // turns text into tokens; nil: Bytes
	Length  int      // tokens beyond this number are cut off; 0: none are
}

// Table reads the rows of a .csv or .tsv file, or .csv.gz or .tsv.gz, each a sample: numbers as features, or text as
// tokens. Fields in quotes may have separators and ends of lines in them. Files of the UCR archive are tables without a
// header whose column 0 is the label.
func Table(ctx context.Context, path string, o TableOptions) (_ Dataset, err error) {
	defer ends.Catch(path, &err)
	b, err := readPlain(ctx, path)
	if err != nil {
		return nil, err
	}
	if n := int64(len(b)); n > MaxTable {
		return nil, fmt.Errorf("%s: %w", path, &files.LimitError{Size: n, Limit: MaxTable})
	}
	if o.Separator == 0 && strings.EqualFold(filepath.Ext(strings.TrimSuffix(path, ".gz")), ".tsv") {
		o.Separator = '\t'
	}
	set, err := readTable(ctx, b, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

// table is a table that is being read.
type table struct {
	TableOptions
	set                 *memory
	columns             int
	label, text, second int                // -1: none
	pairs               [][]*tensor.Tensor // inputs, of samples with two texts
	targets, features   []int
	names               []string // of the columns; nil without a header
	words               *Labels
	skip                []bool // columns that are no features
	watch               *ends.Watch
}

func readTable(ctx context.Context, b []byte, o TableOptions) (Dataset, error) {
	if o.Separator == 0 {
		o.Separator = ','
	}
	if o.Separator == '"' || o.Separator == '\n' || o.Separator == '\r' || o.Separator >= 0x80 {
		return nil, fmt.Errorf("separator: expected an ASCII character that is not a quote or the end of a line, found %q",
			o.Separator)
	}
	if (o.Label != "") == (len(o.Targets) > 0) {
		return nil, fmt.Errorf("columns: expected either a label or targets, found label %q and targets %q",
			o.Label, o.Targets)
	}
	if o.Second != "" && o.Text == "" {
		return nil, fmt.Errorf("columns: expected a text beside the second one, found only %q", o.Second)
	}
	if o.Text != "" && (o.Features != nil || o.Steps != 0) {
		return nil, fmt.Errorf("columns: expected either text or features, found text %q, features %q and %d steps",
			o.Text, o.Features, o.Steps)
	}
	if o.Encode == nil {
		o.Encode = Bytes{}
	}
	t := &table{TableOptions: o, set: &memory{spec: Spec{Inputs: 1}}, label: -1, text: -1, second: -1, words: NewLabels(o.Classes),
		watch: ends.Of(ctx)}
	f := newFields(b, o.Separator)
	for {
		row, line, err := f.next()
		if err != nil {
			return nil, err
		}
		if len(row) == 0 {
			break
		}
		t.watch.Step(1 + len(row)/8)
		if t.columns == 0 {
			if err := t.begin(row); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			if !o.NoHeader {
				continue
			}
		}
		if len(row) != t.columns {
			return nil, fmt.Errorf("line %d: expected %d fields, as before, found %d", line, t.columns, len(row))
		}
		if err := t.add(ctx, row); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if t.set.Len()+len(t.pairs) == 0 {
		return nil, fmt.Errorf("expected rows, found none")
	}
	if t.label >= 0 {
		t.set.spec.Classes, t.set.labels = t.words.Finish(t.set.labels)
	}
	if t.pairs == nil {
		return t.set, nil
	}
	samples := make([]Sample, len(t.pairs))
	for i, in := range t.pairs {
		samples[i] = Sample{in, t.set.target(i)}
	}
	return Collect(t.set.spec, samples)
}

// begin finds the columns, by the first row.
func (t *table) begin(row [][]byte) (err error) {
	t.columns = len(row)
	if !t.NoHeader {
		for _, cell := range row {
			t.names = append(t.names, string(cell))
		}
	}
	t.skip = make([]bool, t.columns)
	if t.Label != "" {
		if t.label, err = t.column(t.Label); err != nil {
			return err
		}
		t.skip[t.label] = true
	}
	if t.targets, err = t.list(t.Targets); err != nil {
		return err
	}
	for _, k := range t.targets {
		t.skip[k] = true
	}
	t.set.spec.Targets = len(t.targets)
	if t.Text != "" {
		t.set.spec.Tokens = t.Encode.Tokens()
		if t.text, err = t.column(t.Text); err == nil && t.Second != "" {
			t.set.spec.Inputs = 2
			t.second, err = t.column(t.Second)
		}
		return err
	}
	if t.Features != nil {
		t.features, err = t.list(t.Features)
	} else {
		for k, skip := range t.skip {
			if !skip {
				t.features = append(t.features, k)
			}
		}
	}
	t.set.spec.Features = 1
	switch n := len(t.features); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("expected columns of features, found none")
	case t.Steps < 0 || t.Steps > 0 && n%t.Steps != 0:
		return fmt.Errorf("expected a multiple of %d steps as the number of features, found %d", t.Steps, n)
	case t.Steps > 0:
		t.set.spec.Features = n / t.Steps
	}
	return nil
}

func (t *table) list(columns []string) (all []int, err error) {
	for _, c := range columns {
		k, err := t.column(c)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// column returns the column with a name or number.
func (t *table) column(name string) (int, error) {
	if k := slices.Index(t.names, name); k >= 0 {
		if slices.Contains(t.names[k+1:], name) {
			return 0, fmt.Errorf("column %q: expected one with this name, found several", name)
		}
		return k, nil
	}
	k, err := strconv.Atoi(name)
	if err == nil && k < 0 {
		k += t.columns
	}
	if err != nil || k < 0 || k >= t.columns {
		have := fmt.Sprintf("%.300q", t.names)
		if t.names == nil {
			have = "no names"
		}
		return 0, fmt.Errorf("column %q: expected a name or a number below %d, found %s", name, t.columns, have)
	}
	return k, nil
}

// add adds a row.
func (t *table) add(ctx context.Context, row [][]byte) error {
	if t.label >= 0 {
		k, err := t.words.Number(string(row[t.label]))
		if err != nil {
			return fmt.Errorf("column %d: %w", t.label+1, err)
		}
		t.set.labels = append(t.set.labels, k)
	}
	for _, k := range t.targets {
		v, err := number(row[k])
		if err != nil || math.IsNaN(float64(v)) {
			return fmt.Errorf("column %d: expected a number, found %.40q", k+1, row[k])
		}
		t.set.values = append(t.set.values, v)
	}
	if t.text >= 0 {
		return t.texts(ctx, row)
	}
	features := t.features
	for n := len(features); t.Steps == 0 && n > 1 && absent(row[features[n-1]]); n-- {
		features = features[:n-1]
	}
	for _, k := range features {
		v, err := number(row[k])
		if err != nil || math.IsNaN(float64(v)) {
			return fmt.Errorf("column %d: expected a number, found %.40q", k+1, row[k])
		}
		t.set.numbers = append(t.set.numbers, v)
	}
	t.set.add()
	return nil
}

// texts adds the texts of a row.
func (t *table) texts(ctx context.Context, row [][]byte) error {
	var pair []*tensor.Tensor
	for _, k := range []int{t.text, t.second} {
		if k < 0 {
			continue
		}
		tokens, err := EncodeText(ctx, t.Encode, string(row[k]), t.Length)
		if err != nil {
			return fmt.Errorf("column %d: %w", k+1, err)
		}
		if t.second < 0 {
			t.set.tokens = append(t.set.tokens, tokens...)
			t.set.add()
			return nil
		}
		pair = append(pair, tensor.FromSlice(tokens, len(tokens)))
	}
	t.pairs = append(t.pairs, pair)
	return nil
}

// absent reports whether a field stands for the end of a shorter series.
func absent(cell []byte) bool { return len(cell) == 0 || strings.EqualFold(string(cell), "nan") }

// number returns the number that a field is, which float32 can hold.
func number(cell []byte) (float32, error) {
	text := strings.TrimSpace(string(cell))
	if len(text) > 64 || strings.ContainsAny(text, "xX_") {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(text, 32)
	if math.IsInf(v, 0) {
		return 0, strconv.ErrRange
	}
	return float32(v), err
}

// Labels turns the names of classes into numbers.
type Labels struct {
	names []string
	by    map[string]int64
	fixed bool
}

// MaxClasses is the number of classes that a set may have.
const MaxClasses = 1 << 20

// NewLabels returns the numbers of the given names, in their order; nil: the names that Number is given.
func NewLabels(names []string) *Labels {
	l := &Labels{names: names, by: map[string]int64{}, fixed: names != nil}
	for i, name := range names {
		l.by[name] = int64(i)
	}
	return l
}

// Number returns the number of a class: final if the names were given, otherwise in the order of their appearance.
func (l *Labels) Number(name string) (int64, error) {
	name = strings.TrimSpace(name)
	k, ok := l.by[name]
	switch {
	case ok:
		return k, nil
	case l.fixed:
		return 0, fmt.Errorf("expected one of the classes %.300q, found %.40q", l.names, name)
	case len(l.names) == MaxClasses:
		return 0, fmt.Errorf("expected at most %d classes, found more", MaxClasses)
	case name == "":
		return 0, fmt.Errorf("expected the name of a class, found an empty field")
	}
	k = int64(len(l.names))
	l.names, l.by[name] = append(l.names, name), k
	return k, nil
}

// Finish sorts the names that were found, unless they were given, and returns them and the labels in the new numbers.
func (l *Labels) Finish(all []int64) ([]string, []int64) {
	if l.fixed {
		return l.names, all
	}
	names := slices.Clone(l.names)
	slices.SortFunc(names, compareNames)
	place := make([]int64, len(names))
	for i, name := range names {
		place[l.by[name]] = int64(i)
	}
	for i, k := range all {
		all[i] = place[k]
	}
	return names, all
}

// compareNames orders names: numbers by their values, before other names.
func compareNames(a, b string) int {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	switch {
	case errA == nil && errB == nil && x != y && !math.IsNaN(x) && !math.IsNaN(y):
		if x < y {
			return -1
		}
		return 1
	case (errA == nil) != (errB == nil):
		if errA == nil {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}
