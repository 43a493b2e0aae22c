package nodetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"testing/fstest"

	"github.com/essmc/essmc/internal/files"
)

// Limits of an unpacked archive.
const (
	maxArchiveBytes = 1 << 30
	maxArchiveFiles = 1 << 17
)

// Open returns the files of a folder of tests, or of a .tar.gz of one, which it unpacks into memory.
func Open(name string) (fs.FS, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case s.IsDir():
		return os.DirFS(name), nil
	case !s.Mode().IsRegular():
		return nil, fmt.Errorf("%s: expected a folder of node tests, or a .tar.gz of one", name)
	}
	files, err := unpack(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return files, nil
}

func unpack(f io.Reader) (fs.FS, error) {
	z, err := gzip.NewReader(f)
	if err != nil {
		if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("expected a folder of node tests, or a .tar.gz of one")
		}
		return nil, err
	}
	left := int64(maxArchiveBytes)
	files := fstest.MapFS{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue // targets of links are in the archive themselves
		}
		p := path.Clean(h.Name)
		if !fs.ValidPath(p) {
			return nil, fmt.Errorf("file %q is outside the archive", h.Name)
		}
		if h.Size > left || len(files) >= maxArchiveFiles {
			return nil, fmt.Errorf("file %q: the archive holds more than %d bytes, or %d files", h.Name,
				int64(maxArchiveBytes), maxArchiveFiles)
		}
		left -= h.Size
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", h.Name, err)
		}
		files[p] = &fstest.MapFile{Data: b, Mode: 0o444}
	}
}
