package arrays

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// maxText bounds the bytes of files of text, whose strings take up to 17 times as much memory.
const maxText = 1 << 28

// readText reads count texts of fixed length.
func (h *npyHeader) readText(r io.Reader, count int) (*tensor.Tensor, error) {
	if int64(count)*int64(h.width) > maxText {
		return nil, fmt.Errorf("%d texts of %d bytes, more than %d bytes", count, h.width, maxText)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if h.bigEndian {
		order = binary.BigEndian
	}
	out, cell := make([]string, count), make([]byte, h.width)
	for i := range out {
		if _, err := io.ReadFull(r, cell); err != nil {
			return nil, fmt.Errorf("reading text %d: %w", i, err)
		}
		if !h.wide {
			if out[i] = strings.TrimRight(string(cell), "\x00"); !utf8.ValidString(out[i]) {
				return nil, fmt.Errorf("text %d is not in UTF-8", i)
			}
			continue
		}
		n := len(cell)
		for n > 0 && order.Uint32(cell[n-4:]) == 0 {
			n -= 4
		}
		var b strings.Builder
		for k := 0; k < n; k += 4 {
			c := order.Uint32(cell[k:])
			if c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
				return nil, fmt.Errorf("text %d: character %d is %#x, which Unicode does not have", i, k/4, c)
			}
			b.WriteRune(rune(c))
		}
		out[i] = b.String()
	}
	if h.fortran && len(h.shape) > 1 {
		at := make([]int64, count)
		for i := range at {
			at[i] = int64(i)
		}
		turned := make([]string, count)
		for i, from := range tensor.Data[int64](fromFortran(tensor.FromSlice(at, h.shape...))) {
			turned[i] = out[from]
		}
		out = turned
	}
	return tensor.FromStrings(out, h.shape...), nil
}

// writeNpyText writes strings as texts of the length of the longest.
func writeNpyText(w io.Writer, t *tensor.Tensor) error {
	longest := 1
	for i, s := range t.Strings() {
		if !utf8.ValidString(s) || strings.HasSuffix(s, "\x00") {
			return fmt.Errorf("string %d is not in UTF-8, or ends with a zero, which .npy cannot store", i)
		}
		longest = max(longest, utf8.RuneCountInString(s))
	}
	if err := writeNpyHeader(w, fmt.Sprintf("<U%d", longest), t); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	for _, s := range t.Strings() {
		var c [4]byte
		n := 0
		for _, r := range s {
			binary.LittleEndian.PutUint32(c[:], uint32(r))
			b.Write(c[:])
			n++
		}
		for ; n < longest; n++ {
			b.Write([]byte{0, 0, 0, 0})
		}
	}
	return b.Flush()
}

// ReadTextCSV reads the fields of a .csv file as strings (rows, columns). All rows count, and have as many fields.
func ReadTextCSV(path string) (*tensor.Tensor, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(path)
	if err != nil {
		return nil, err
	}
	if size > maxText {
		return nil, fmt.Errorf("%s: file has %d bytes, at most %d are read", path, size, maxText)
	}
	rows, err := csv.NewReader(io.LimitReader(f, size)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: has no rows", path)
	}
	rows[0][0] = strings.TrimPrefix(rows[0][0], "\ufeff")
	for i, row := range rows {
		if k := slices.IndexFunc(row, func(s string) bool { return !utf8.ValidString(s) }); k >= 0 {
			return nil, fmt.Errorf("%s: row %d, column %d: is not in UTF-8", path, i+1, k+1)
		}
	}
	return tensor.FromStrings(slices.Concat(rows...), len(rows), len(rows[0])), nil
}

// writeTextCSV writes strings with the last dimension as columns and all others as rows. A vector is one column.
func writeTextCSV(w io.Writer, t *tensor.Tensor) error {
	columns := 1
	if t.Rank() > 1 {
		columns = t.Dim(-1)
	}
	c := csv.NewWriter(w)
	for v := t.Strings(); len(v) > 0 && columns > 0; v = v[columns:] {
		err := error(nil)
		if columns == 1 && v[0] == "" { // an empty line would be none
			c.Flush()
			_, err = io.WriteString(w, "\"\"\n")
		} else {
			err = c.Write(v[:columns])
		}
		if err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
