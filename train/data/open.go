package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
)

// Limits of files. A compressed file may expand to Ratio times its size and Slack.
const (
	MaxFile = 8 << 30
	Ratio   = 100
	Slack   = 64 << 20
)

// ReadFile returns the content of a regular file of at most limit bytes. Errors begin with path.
func ReadFile(ctx context.Context, path string, limit int64) (b []byte, err error) {
	defer ends.Catch(path, &err)
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(path)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s: %w", path, &files.LimitError{Size: size, Limit: limit})
	}
	if err := lfs.CheckFile(f, size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b = make([]byte, size)
	if n, err := ends.Of(ctx).ReadAt(f, b, 0); int64(n) < size {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%s: expected %d bytes, found %d: %w", path, size, n, err)
	}
	return b, nil
}

// readPlain is ReadFile for a file that may be compressed: its name, or path, ends with .gz.
func readPlain(ctx context.Context, path string) (b []byte, err error) {
	b, err = ReadFile(ctx, path, MaxFile)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return b, err
	}
	defer ends.Catch(path, &err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: expected a gzip file: %w", path, err)
	}
	limit := int64(len(b))*Ratio + Slack
	out, err := ends.Of(ctx).ReadAll(io.LimitReader(z, limit+1), 4*len(b))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case int64(len(out)) > limit:
		return nil, fmt.Errorf("%s: %d bytes expand to more than %d", path, len(b), limit)
	}
	return out, nil
}

// Source says where the files of a data set come from.
type Source struct {
	Name string // of the set
	URL  string
	Hint string // what to do with the download, such as "unpack it there"; may be empty
}

// Missing returns an error that says which file to put where, if err is about a file that does not exist; otherwise
// err.
func (s Source) Missing(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hint := ""
	if s.Hint != "" {
		hint = "; " + s.Hint
	}
	return fmt.Errorf("%s: file not found: put %s of %s there, from %s%s: %w",
		path, filepath.Base(path), s.Name, s.URL, hint,
		fs.ErrNotExist)
}

// first reads the first of some files that exists. If there is none, the error is about the last one.
func (s Source) first(ctx context.Context, dir string, names ...string) (path string, b []byte, err error) {
	for _, name := range names {
		path = filepath.Join(dir, name)
		if b, err = readPlain(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return path, b, s.Missing(path, err)
}

// splitError is the error for the name of a part that a set does not have.
func splitError(split string, have ...string) error {
	return fmt.Errorf("part of the data: expected %s, found %q", strings.Join(have, " or "), split)
}
