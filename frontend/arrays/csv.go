package arrays

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// maxCSV bounds the bytes of a .csv file. Larger data should be .npy.
const maxCSV = 1 << 30

// ReadCSV reads comma-separated numbers as float64 (rows, columns). A first row without a number is a header, which it
// skips.
func ReadCSV(r io.Reader, size int64) (*tensor.Tensor, error) {
	if size > maxCSV {
		return nil, fmt.Errorf("file has %d bytes, at most %d are read; write it as .npy", size, maxCSV)
	}
	br := bufio.NewReader(r)
	if bom, err := br.Peek(3); err == nil && string(bom) == "\ufeff" {
		br.Discard(3)
	}
	c := csv.NewReader(br)
	c.ReuseRecord = true
	c.TrimLeadingSpace = true
	var v []float64
	columns := 0
	for first := true; ; first = false {
		row, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		columns = len(row)
		if first && isHeader(row) {
			continue
		}
		for i, cell := range row {
			x, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				line, _ := c.FieldPos(i)
				return nil, fmt.Errorf("line %d, column %d: expected a number, found %.40q", line, i+1, cell)
			}
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return nil, errors.New("holds no numbers")
	}
	return tensor.FromSlice(v, len(v)/columns, columns), nil
}

func isHeader(row []string) bool {
	for _, cell := range row {
		if _, err := strconv.ParseFloat(strings.TrimSpace(cell), 64); err == nil {
			return false
		}
	}
	return true
}

// WriteCSV writes t with its last dimension as columns and all others as rows. A vector is one column. Numbers have the
// fewest digits that read back exactly.
func WriteCSV(w io.Writer, t *tensor.Tensor) error {
	if t.DType() == tensor.String {
		return errors.New(".csv holds numbers, not strings")
	}
	s, err := t.Convert(tensor.String, false)
	if err != nil {
		return fmt.Errorf(".csv has no form for %v: %w", t.DType(), err)
	}
	columns := 1
	if t.Rank() > 1 {
		columns = t.Dim(-1)
	}
	b := bufio.NewWriter(w)
	for i, x := range s.Strings() {
		b.WriteString(x)
		if (i+1)%columns == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(',')
		}
	}
	return b.Flush()
}
