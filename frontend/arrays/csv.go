package arrays

import (
	"bufio"
	"bytes"
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
// skips. It takes the memory of the file and eight bytes for each number, however many columns there are.
func ReadCSV(r io.Reader, size int64) (*tensor.Tensor, error) {
	if size > maxCSV {
		return nil, fmt.Errorf("file has %d bytes, at most %d are read; write it as .npy", size, maxCSV)
	}
	b := make([]byte, size)
	if n, err := io.ReadFull(r, b); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("ends after %d of %d bytes", n, size)
	} else if err != nil {
		return nil, err
	}
	c := &csvReader{text: bytes.TrimPrefix(b, []byte("\ufeff")), line: 1}
	v, columns, err := c.numbers()
	if err != nil {
		return nil, err
	}
	if len(v) == 0 {
		return nil, errors.New("has no numbers")
	}
	return tensor.FromSlice(v, len(v)/columns, columns), nil
}

// csvReader splits text into fields, as encoding/csv does, but keeps none of them: a row may be all of the file.
type csvReader struct {
	text []byte
	at   int
	line int // of at, from 1
}

// numbers returns the numbers of all rows, and how many a row has.
func (c *csvReader) numbers() (v []float64, columns int, err error) {
	v = make([]float64, 0, c.fields())
	for c.skipEmpty(); c.at < len(c.text); c.skipEmpty() {
		line, count, last, before := c.line, 0, false, len(v)
		var bad error // about the first field that is not a number
		for ; !last; count++ {
			at := c.line
			var cell []byte
			if cell, last, err = c.field(); err != nil {
				return nil, 0, err
			}
			x, ok := parseNumber(cell)
			switch {
			case ok:
				v = append(v, x)
			case bad == nil:
				bad = fmt.Errorf("line %d, column %d: expected a number, found %.40q", at, count+1, cell)
			}
		}
		if bad != nil && (columns > 0 || len(v) > before) { // otherwise it is a header
			return nil, 0, bad
		}
		if columns > 0 && count != columns {
			return nil, 0, fmt.Errorf("line %d: wrong number of fields: expected %d, as before, found %d",
				line, columns, count)
		}
		columns = count
	}
	return v, columns, nil
}

// parseNumber returns the number that a field is. Most words are told from numbers by their first letter, since errors
// of strconv take memory.
func parseNumber(cell []byte) (x float64, ok bool) {
	if len(cell) == 0 || cell[0] > '9' && !strings.ContainsRune("iInN", rune(cell[0])) {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(cell), 64)
	return x, err == nil || errors.Is(err, strconv.ErrRange)
}

// fields returns the number of fields, or a few more.
func (c *csvReader) fields() int {
	n := 1
	for i, b := range c.text {
		if b == ',' || b == '\n' && i > 0 && c.text[i-1] != '\n' {
			n++
		}
	}
	return n
}

// skipEmpty skips empty lines.
func (c *csvReader) skipEmpty() {
	for rest := c.text[c.at:]; len(rest) > 0; rest = c.text[c.at:] {
		switch {
		case rest[0] == '\n':
			c.at++
		case bytes.HasPrefix(rest, []byte("\r\n")):
			c.at += 2
		default:
			return
		}
		c.line++
	}
}

// field returns the next field without space or quotes around it, and whether it is the last one of its row.
func (c *csvReader) field() (cell []byte, last bool, err error) {
	for c.at < len(c.text) && (c.text[c.at] == ' ' || c.text[c.at] == '\t') {
		c.at++
	}
	rest := c.text[c.at:]
	if len(rest) > 0 && rest[0] == '"' {
		return c.quoted(rest[1:])
	}
	end := bytes.IndexAny(rest, ",\n")
	if end < 0 {
		c.at = len(c.text)
		return bytes.TrimSpace(rest), true, nil
	}
	c.at += end + 1
	if last = rest[end] == '\n'; last {
		c.line++
	}
	return bytes.TrimSpace(rest[:end]), last, nil
}

// quoted returns a field, starting after its first quote. Two quotes in it mean one, and then it is not a number.
func (c *csvReader) quoted(rest []byte) (cell []byte, last bool, err error) {
	start := c.line
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\n':
			c.line++
		case rest[i] != '"':
		case i+1 < len(rest) && rest[i+1] == '"':
			i++
		default:
			after := bytes.TrimPrefix(rest[i+1:], []byte("\r"))
			c.at = len(c.text) - len(after)
			if len(after) == 0 {
				return bytes.TrimSpace(rest[:i]), true, nil
			}
			if after[0] != ',' && after[0] != '\n' {
				return nil, false, fmt.Errorf("line %d: expected a comma after a quoted field, found %q",
					c.line, after[0])
			}
			c.at++
			if last = after[0] == '\n'; last {
				c.line++
			}
			return bytes.TrimSpace(rest[:i]), last, nil
		}
	}
	return nil, false, fmt.Errorf("line %d: a quote is not closed", start)
}

// WriteCSV writes t with its last dimension as columns and all others as rows. A vector is one column. Numbers have the
// fewest digits that read back exactly.
func WriteCSV(w io.Writer, t *tensor.Tensor) error {
	if t.DType() == tensor.String {
		return writeTextCSV(w, t)
	}
	s, err := t.Convert(tensor.String, false)
	if err != nil {
		return fmt.Errorf(".csv cannot store %v: %w", t.DType(), err)
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
