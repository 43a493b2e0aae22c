package data

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/ends"
)

// MaxDimensions is the number of dimensions that the series of a .ts file may have.
const MaxDimensions = 1 << 16

// SeriesOptions say how series are read.
type SeriesOptions struct {
	// Classes are the names of the classes in their order; nil: those of the file's line @classLabel. The test part is
	// read with the classes of the training part.
	Classes []string
}

// Series reads a file of the UCR/UEA archives in the .ts format of the Python libraries aeon and sktime: a sample per
// line, its dimensions separated by colons, their values by commas, and the class or, with @targetLabel, a number after
// the last colon. Inputs are (steps, dimensions). A missing value, written ?, is the one before it, and 0 at the
// beginning. Time stamps are refused.
func Series(ctx context.Context, path string, o SeriesOptions) (_ Dataset, err error) {
	defer ends.Catch(path, &err)
	b, err := ReadFile(ctx, path, MaxTable)
	if err != nil {
		return nil, Source{Name: "the UCR/UEA archive", URL: "https://www.timeseriesclassification.com"}.Missing(path, err)
	}
	s := &series{memory: memory{spec: Spec{Inputs: 1}}, classes: o.Classes, watch: ends.Of(ctx)}
	if err := s.read(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &s.memory, nil
}

// series is a .ts file that is being read.
type series struct {
	memory
	classes []string
	words   *Labels // nil: targets are numbers
	data    bool    // @data was read
	length  int     // of each series, if the file states it; 0: it does not
	watch   *ends.Watch
	columns [][]float32 // the dimensions of a sample
}

func (s *series) read(b []byte) error {
	for line := 1; len(b) > 0; line++ {
		text, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		s.watch.Step(1 + len(text)/64)
		text = bytes.TrimSpace(text)
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) == 0 || text[0] == '#' || text[0] == '%' {
			continue
		}
		read := s.sample
		if !s.data {
			read = s.header
		}
		if err := read(string(text)); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	switch {
	case !s.data:
		return fmt.Errorf("expected a line @data, found none")
	case s.Len() == 0:
		return fmt.Errorf("expected samples after @data, found none")
	}
	if s.words != nil {
		s.spec.Classes, s.labels = s.words.Finish(s.labels)
	}
	return nil
}

// header reads a line before the data.
func (s *series) header(line string) error {
	words := strings.Fields(line)
	key, values := strings.ToLower(words[0]), words[1:]
	first := ""
	if len(values) > 0 {
		first = strings.ToLower(values[0])
	}
	switch key {
	case "@problemname", "@missing", "@univariate", "@equallength", "@description":
	case "@timestamps":
		if first != "false" {
			return fmt.Errorf("@timeStamps: expected false, found %.40q: series with time stamps are not read", first)
		}
	case "@dimension", "@dimensions":
		n, err := strconv.Atoi(first)
		if err != nil || n < 1 || n > MaxDimensions {
			return fmt.Errorf("%s: expected 1 to %d, found %.40q", words[0], MaxDimensions, first)
		}
		s.spec.Features = n
	case "@serieslength":
		n, err := strconv.Atoi(first)
		if err != nil || n < 1 {
			return fmt.Errorf("@seriesLength: expected a positive number, found %.40q", first)
		}
		s.length = n
	case "@classlabel":
		if first != "true" || len(values) < 2 {
			return fmt.Errorf("@classLabel: expected true and the classes, found %.40q", line)
		}
		if s.words = NewLabels(values[1:]); s.classes != nil {
			s.words = NewLabels(s.classes)
		}
	case "@targetlabel":
		if first != "true" {
			return fmt.Errorf("@targetLabel: expected true, found %.40q", line)
		}
		s.spec.Targets = 1
	case "@data":
		if (s.words == nil) == (s.spec.Targets == 0) {
			return fmt.Errorf("@data: expected either @classLabel or @targetLabel before it")
		}
		s.data = true
	default:
		return fmt.Errorf("expected a line of the header, such as @dimensions, @classLabel or @data, found %.40q", words[0])
	}
	return nil
}

// sample reads a line of the data.
func (s *series) sample(line string) error {
	end := strings.LastIndexByte(line, ':')
	if end < 0 {
		return fmt.Errorf("expected a colon before the class, found none")
	}
	line, label := line[:end], strings.TrimSpace(line[end+1:])
	if n := strings.Count(line, ":") + 1; n > MaxDimensions {
		return fmt.Errorf("expected at most %d dimensions, found %d", MaxDimensions, n)
	}
	s.columns = s.columns[:0]
	for part := range strings.SplitSeq(line, ":") {
		column, err := values(part)
		if err != nil {
			return fmt.Errorf("dimension %d: %w", len(s.columns)+1, err)
		}
		s.columns = append(s.columns, column)
		if len(column) != len(s.columns[0]) {
			return fmt.Errorf("dimension %d: expected %d values, as in the first one, found %d",
				len(s.columns), len(s.columns[0]), len(column))
		}
	}
	if s.spec.Features == 0 {
		s.spec.Features = len(s.columns)
	}
	if len(s.columns) != s.spec.Features {
		return fmt.Errorf("expected %d dimensions, found %d", s.spec.Features, len(s.columns))
	}
	steps := len(s.columns[0])
	if s.length > 0 && steps > s.length {
		return fmt.Errorf("expected at most %d values, as @seriesLength says, found %d", s.length, steps)
	}
	if s.words != nil {
		k, err := s.words.Number(label)
		if err != nil {
			return fmt.Errorf("class: %w", err)
		}
		s.labels = append(s.labels, k)
	} else {
		v, err := number([]byte(label))
		if err != nil || v != v {
			return fmt.Errorf("target: expected a number, found %.40q", label)
		}
		s.values = append(s.values, v)
	}
	s.numbers = slices.Grow(s.numbers, steps*len(s.columns))
	for t := range steps {
		for _, column := range s.columns {
			s.numbers = append(s.numbers, column[t])
		}
	}
	s.add()
	return nil
}

// values reads the values of one dimension.
func values(text string) ([]float32, error) {
	out, last := make([]float32, 0, strings.Count(text, ",")+1), float32(0)
	for cell := range strings.SplitSeq(text, ",") {
		cell = strings.TrimSpace(cell)
		if cell != "?" && !strings.EqualFold(cell, "nan") {
			v, err := number([]byte(cell))
			if err != nil || v != v {
				return nil, fmt.Errorf("value %d: expected a number or ?, found %.40q", len(out)+1, cell)
			}
			last = v
		}
		out = append(out, last)
	}
	return out, nil
}
