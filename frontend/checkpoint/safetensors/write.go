package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/ir/tensor"
)

// WriteFile writes the tensors to path, completely or not at all.
func WriteFile(path string, tensors map[string]*tensor.Tensor, meta map[string]string) error {
	return atomicfile.Write(path, func(w io.Writer) error { return Write(w, tensors, meta) })
}

// Write writes the tensors in the reference implementation's order: by descending alignment of the dtype, then by name.
// The header is padded with spaces to a multiple of 8 bytes, so each tensor is aligned in the file.
func Write(w io.Writer, tensors map[string]*tensor.Tensor, meta map[string]string) error {
	if err := tensor.CheckByteOrder(); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(tensors))
	for _, name := range names {
		switch t := tensors[name]; {
		case name == metadataKey:
			return fmt.Errorf("tensor %q: the name is reserved", name)
		case !utf8.ValidString(name):
			return fmt.Errorf("tensor %q: the name is not UTF-8", name)
		case t == nil:
			return fmt.Errorf("tensor %q is missing", name)
		case rankOf(t.DType()) < 0:
			return fmt.Errorf("tensor %q: safetensors has no dtype for %v", name, t.DType())
		case t.DType().Packed() && t.Len()*t.DType().Bits()%8 != 0:
			return fmt.Errorf("tensor %q: %s does not fill whole bytes", name, t)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(rankOf(tensors[b].DType()), rankOf(tensors[a].DType()))
	})
	header, err := header(names, tensors, meta)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := w.Write(tensors[name].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// header returns the length and the padded JSON text. It is not made by package json, since the order of its keys is
// that of the data.
func header(names []string, tensors map[string]*tensor.Tensor, meta map[string]string) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	put := func(sep string, v any) error {
		b.WriteString(sep)
		if err := e.Encode(v); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the encoder appends a newline
		return nil
	}
	sep := "{"
	if len(meta) > 0 {
		if err := put(`{"`+metadataKey+`":`, meta); err != nil {
			return nil, err
		}
		sep = ","
	}
	begin := 0
	for _, name := range names {
		t := tensors[name]
		entry := struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{types[rankOf(t.DType())].name, append([]int{}, t.Shape()...), [2]int{begin, begin + len(t.Bytes())}}
		begin = entry.Offsets[1]
		if err := put(sep, name); err != nil {
			return nil, err
		}
		if err := put(":", entry); err != nil {
			return nil, err
		}
		sep = ","
	}
	if sep == "{" {
		b.WriteString("{")
	}
	b.WriteString("}")
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - 8
	if n > MaxHeader {
		return nil, fmt.Errorf("header takes %d bytes, at most %d are allowed", n, MaxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(n))
	return b.Bytes(), nil
}
