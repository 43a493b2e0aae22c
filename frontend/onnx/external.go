package onnx

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// externalFile is a file beside the model that holds tensors.
type externalFile struct {
	size int64
	sum  string    // SHA-1 in hexadecimal; empty until it is computed
	open *openFile // that stays open for lazy tensors, or nil
}

// mostOpen bounds the files with external tensors that stay open. Tensors of others are read at once.
const mostOpen = 64

// external reads a tensor's data from a file in the model's folder.
func (r *reader) external(t *tensorProto, d tensor.DType, shape []int, n int) (*tensor.Tensor, error) {
	keys := map[string]string{}
	for _, e := range t.external {
		if _, twice := keys[e.key]; twice {
			return nil, fmt.Errorf("external data: %s occurs twice", quote(e.key))
		}
		keys[e.key] = e.value
	}
	location := keys["location"]
	want := int64(tensor.ByteSize(d, n))
	offset, err := extent(keys, "offset", 0)
	if err != nil {
		return nil, err
	}
	length, err := extent(keys, "length", want)
	if err != nil {
		return nil, err
	}
	if length != want {
		return nil, fmt.Errorf("external data in %s: length is %d, %v%s needs %d bytes", quote(location), length, d,
			tensor.ShapeString(shape), want)
	}
	file, f, err := r.open(location)
	if err != nil {
		return nil, fmt.Errorf("external data in %s: %w", quote(location), err)
	}
	keep := false
	defer func() {
		if !keep {
			file.Close()
		}
	}()
	if err := lfs.CheckFile(file, f.size); err != nil {
		return nil, fmt.Errorf("external data in %s: %w", quote(location), err)
	}
	if offset > f.size || length > f.size-offset {
		return nil, fmt.Errorf("external data in %s: expected %d bytes at offset %d, the file has %d", quote(location),
			length, offset, f.size)
	}
	if sum := keys["checksum"]; sum != "" {
		if err := f.check(r.source.watch, file, sum); err != nil {
			return nil, fmt.Errorf("external data in %s: %w", quote(location), err)
		}
	}
	if err := r.charge(length); err != nil {
		return nil, err
	}
	if r.lazy != nil && f.open == nil && r.kept < mostOpen {
		begin, err := file.Stat()
		if err != nil {
			return nil, fmt.Errorf("external data in %s: %w", quote(location), err)
		}
		f.open = &openFile{name: r.file + ": external data in " + quote(location), File: file, begin: begin}
	}
	if x := f.open.tensor(d, shape, length, offset); x != nil {
		if keep = f.open.File == file; keep {
			r.kept++
		}
		return x, nil
	}
	if f.open != nil && f.open.File == file {
		f.open = nil
	}
	b := tensor.AlignedUncleared(int(length))
	if k, err := r.source.watch.ReadAt(file, b, offset); k < len(b) {
		return nil, fmt.Errorf("external data in %s: %w", quote(location), err)
	}
	return tensor.FromBytesParts(r.source.watch.Check, d, shape, b)
}

func extent(keys map[string]string, key string, def int64) (int64, error) {
	s, ok := keys[key]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("external data: %s is %s, expected a number of bytes", key, quote(s))
	}
	return n, nil
}

// open opens a file in the model's folder. It refuses names and links that lead out of the folder, and files with a
// second name (hard links), which may belong to someone else.
func (r *reader) open(location string) (*files.File, *externalFile, error) {
	if r.dir == nil {
		return nil, nil, errors.New("the model was not read from a folder, so its external files cannot be found")
	}
	if location == "" || strings.ContainsAny(location, "\\\x00") || path.IsAbs(location) ||
		!filepath.IsLocal(filepath.FromSlash(location)) {
		return nil, nil, errors.New("is outside the model's folder")
	}
	name := filepath.FromSlash(path.Clean(location))
	// Check every part of the path before opening: links are refused, and opening a pipe would wait for its writer.
	var before fs.FileInfo
	for i := 0; i <= len(name); i++ {
		if i < len(name) && !os.IsPathSeparator(name[i]) {
			continue
		}
		info, err := r.dir.Lstat(name[:i])
		if err != nil {
			return nil, nil, err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, nil, fmt.Errorf("%s is a symbolic link", quote(name[:i]))
		case i < len(name) && !info.IsDir():
			return nil, nil, fmt.Errorf("%s is not a folder", quote(name[:i]))
		case i == len(name) && !info.Mode().IsRegular():
			return nil, nil, errors.New("is not a regular file")
		}
		before = info
	}
	if links(before) > 1 {
		return nil, nil, errors.New("is a hard link")
	}
	f, err := r.dir.Open(name)
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(before, now) {
		err = errors.New("was replaced while it was opened")
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	x := r.files[name]
	if x == nil {
		x = &externalFile{}
		r.files[name] = x
	}
	r.externalBytes += now.Size() - x.size
	x.size = now.Size()
	return f, x, nil
}

// check compares the file with a SHA-1 digest.
func (f *externalFile) check(w *ends.Watch, file *files.File, sum string) error {
	if f.sum == "" {
		h := sha1.New()
		if _, err := io.Copy(h, w.Reader(io.NewSectionReader(file, 0, f.size))); err != nil {
			return err
		}
		f.sum = hex.EncodeToString(h.Sum(nil))
	}
	if !strings.EqualFold(sum, f.sum) {
		return fmt.Errorf("checksum is %s, the model states %s", f.sum, quote(sum))
	}
	return nil
}
