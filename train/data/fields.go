package data

import (
	"bytes"
	"fmt"
)

// MaxColumns is the number of fields that a row of a table may have.
const MaxColumns = 1 << 18

// fields reads the rows of a table of text. A field that begins with a quote ends with one, and may have separators,
// ends of lines and, written twice, quotes in it (RFC 4180). Rows are lines; empty lines are skipped.
type fields struct {
	text      []byte
	separator byte
	line      int // of the next row, from 1
	row       [][]byte
}

func newFields(text []byte, separator byte) *fields {
	return &fields{text: bytes.TrimPrefix(text, []byte("\ufeff")), separator: separator, line: 1}
}

// next returns the fields of the next row and its first line; no fields at the end. The slice is used again.
func (f *fields) next() (row [][]byte, line int, err error) {
	for len(f.text) > 0 && (f.text[0] == '\n' || bytes.HasPrefix(f.text, []byte("\r\n"))) {
		f.text = f.text[1+bytes.IndexByte(f.text, '\n'):]
		f.line++
	}
	line, f.row = f.line, f.row[:0]
	for more := len(f.text) > 0; more; {
		if len(f.row) == MaxColumns {
			return nil, line, fmt.Errorf("line %d: expected at most %d fields, found more", line, MaxColumns)
		}
		var cell []byte
		if len(f.text) > 0 && f.text[0] == '"' {
			if cell, err = f.quoted(); err != nil {
				return nil, line, err
			}
		} else {
			end := bytes.IndexAny(f.text, string([]byte{f.separator, '\n'}))
			if end < 0 {
				end = len(f.text)
			}
			cell, f.text = f.text[:end], f.text[end:]
			if len(f.text) == 0 || f.text[0] == '\n' {
				cell = bytes.TrimSuffix(cell, []byte("\r"))
			}
		}
		f.row = append(f.row, cell)
		more = len(f.text) > 0 && f.text[0] == f.separator
		if len(f.text) > 0 {
			if f.text[0] == '\n' {
				f.line++
			}
			f.text = f.text[1:]
		}
	}
	return f.row, line, nil
}

// quoted returns the field whose quote comes next, without its quotes.
func (f *fields) quoted() ([]byte, error) {
	start := f.line
	rest := f.text[1:]
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\n':
			f.line++
		case rest[i] != '"':
		case i+1 < len(rest) && rest[i+1] == '"':
			i++
		default:
			cell := bytes.ReplaceAll(rest[:i], []byte(`""`), []byte(`"`))
			f.text = bytes.TrimPrefix(rest[i+1:], []byte("\r"))
			if len(f.text) > 0 && f.text[0] != f.separator && f.text[0] != '\n' {
				return nil, fmt.Errorf("line %d: expected a separator after a quoted field, found %q", f.line, f.text[0])
			}
			return cell, nil
		}
	}
	return nil, fmt.Errorf("line %d: expected a quote at the end of a field, found the end of the file", start)
}
