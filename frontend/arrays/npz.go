package arrays

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// Limits on an archive: the number of entries, and the expanded size of an entry, relative to the archive's size and
// beyond that. Deflate can compress a thousand to one, but real arrays do not.
const (
	maxNpzEntries = 1 << 16
	npzRatio      = 100
	npzSlack      = 256 << 20
)

// ReadNpz reads one array of a .npz archive of size bytes. An empty key selects the only one.
func ReadNpz(r io.ReaderAt, size int64, key string) (*tensor.Tensor, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("is not a .npz file: %w", err)
	}
	if len(z.File) > maxNpzEntries {
		return nil, fmt.Errorf("archive has %d entries, at most %d are read", len(z.File), maxNpzEntries)
	}
	files := map[string]*zip.File{}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if files[name] != nil {
			return nil, fmt.Errorf("archive has two arrays %q", name)
		}
		files[name] = f
	}
	if key == "" && len(files) == 1 {
		for key = range files {
		}
	}
	f := files[key]
	switch {
	case f == nil && key == "":
		return nil, fmt.Errorf("choose one array as FILE.npz:KEY; it has %s", list(files))
	case f == nil:
		return nil, fmt.Errorf("no array %q, it holds %s", key, list(files))
	}
	if limit := npzRatio*size + npzSlack; f.UncompressedSize64 > uint64(limit) {
		return nil, fmt.Errorf("array %q: archive of %d bytes expands to %d: refused as a zip bomb", key, size,
			f.UncompressedSize64)
	}
	t, err := readEntry(f)
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", key, err)
	}
	return t, nil
}

func readEntry(f *zip.File) (*tensor.Tensor, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	t, err := ReadNpy(bufio.NewReader(r), int64(f.UncompressedSize64))
	if err != nil {
		return nil, err
	}
	// reading to the end checks the checksum
	switch n, err := io.Copy(io.Discard, io.LimitReader(r, 1)); {
	case err != nil:
		return nil, fmt.Errorf("the end of the entry: %w", err)
	case n != 0:
		return nil, errors.New("expected the entry to end at the size in the archive")
	}
	return t, nil
}

// list names some of the arrays.
func list(files map[string]*zip.File) string {
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 0 {
		return "no array"
	}
	more := ""
	if len(names) > 10 {
		more = fmt.Sprintf(" and %d more", len(names)-10)
		names = names[:10]
	}
	return fmt.Sprintf("%.300q", names) + more
}

// WriteNpz writes arrays by name, uncompressed, in the order of their names.
func WriteNpz(w io.Writer, arrays map[string]*tensor.Tensor) error {
	z := zip.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy"})
		if err != nil {
			return err
		}
		if err := WriteNpy(f, arrays[name]); err != nil {
			return fmt.Errorf("array %q: %w", name, err)
		}
	}
	return z.Close()
}
