// Package atomicfile writes files completely or not at all. A reader sees the old content or the new one, also after a full
// disk or an interrupt.
//
// It imports nothing but the standard library. After an error the target is unchanged, and no temporary file remains.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write calls fill with a buffered writer and puts what it wrote at path, by way of a temporary file beside it that is
// synced and renamed. A symbolic link is followed; an existing file's permissions are kept. Where path is no regular file
// (a pipe, a device) there is nothing to replace, and the bytes go straight to it.
func Write(path string, fill func(io.Writer) error) (err error) {
	perm := fs.FileMode(0o666)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if st, err := os.Stat(path); err == nil {
		switch {
		case st.IsDir():
			return fmt.Errorf("%s: is a directory, expected a file name", path)
		case !st.Mode().IsRegular():
			return direct(path, fill)
		}
		perm = st.Mode().Perm()
	}
	f, err := temp(path, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := buffered(f, fill); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(filepath.Dir(path))
	return nil
}

func direct(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, fill), f.Close())
}

func buffered(f *os.File, fill func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := fill(w); err != nil {
		return err
	}
	return w.Flush()
}

// temp makes a hidden file beside path. It is os.CreateTemp except for the permissions, which are the target's (with a new
// target: those that the process's umask leaves).
func temp(path string, perm fs.FileMode) (*os.File, error) {
	dir, base := filepath.Split(path)
	for range 100 {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", base, rand.Uint32()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: no free name for a temporary file beside it", path)
}

// syncDir makes the rename itself durable. Not every file system can do that, and the content is safe already, so an error
// is of no consequence.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}
