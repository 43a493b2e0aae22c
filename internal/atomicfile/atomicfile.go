// Package atomicfile writes files completely or not at all. A reader sees the old content or the new one, also after a
// full disk or an interrupt.
//
// It imports internal/files and the standard library. After an error the target is unchanged, and no temporary file
// remains. Errors name the target, and never a temporary file.
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
	"strings"

	"github.com/essmc/essmc/internal/files"
)

// Write calls fill with a buffered writer and replaces the file at path with the result, by a temporary file beside
// it that is synced and renamed. A symbolic link is followed; an existing file's permissions are kept. If path is
// not a regular file (a pipe, a device), the bytes are written directly to it.
//
// A process that is killed meanwhile may leave the temporary file behind: .NAME.HHHHHHHH.tmp, with 8 hexadecimal
// digits. Nothing reads it, and it can be removed when nothing writes NAME.
func Write(path string, fill func(io.Writer) error) error {
	s, err := newTarget(path)
	if err != nil {
		return err
	}
	if s.direct {
		return direct(s.path, fill)
	}
	if err := s.write(fill); err != nil {
		return err
	}
	if err := Rename(s.temp, s.path); err != nil {
		s.discard()
		return err
	}
	return nil
}

// Rename gives a complete file or folder, which has a temporary name, the name path.
func Rename(temp, path string) error {
	if err := files.Rename(temp, path); err != nil {
		return About(err, path)
	}
	syncDir(filepath.Dir(path))
	return nil
}

// target is a file to be replaced, and the temporary file beside it that will have its place.
type target struct {
	path, temp string
	perm       fs.FileMode
	exists     bool
	direct     bool // nothing to replace
}

// newTarget returns the target that path names or links to.
func newTarget(path string) (*target, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s := &target{path: path, perm: 0o666}
	if st, err := files.Stat(path); err == nil {
		if st.IsDir() {
			return nil, fmt.Errorf("%s: is a directory: expected the name of a file, such as %s", path,
				strings.TrimRight(path, string(filepath.Separator))+string(filepath.Separator)+"NAME")
		}
		s.direct, s.perm, s.exists = !st.Mode().IsRegular(), st.Mode().Perm(), true
	}
	return s, nil
}

// write writes the temporary file and syncs it. After an error there is none.
func (s *target) write(fill func(io.Writer) error) error {
	f, err := temp(s.path, s.perm)
	if err != nil {
		return About(err, s.path)
	}
	s.temp = f.Name()
	if err := buffered(f, fill); err != nil {
		f.Close()
		s.discard()
		if own, ok := about(err, s.path); ok {
			return own
		}
		return fmt.Errorf("%s: %w", s.path, err)
	}
	err = f.Sync()
	if fail := f.Close(); err == nil {
		err = fail
	}
	if err != nil {
		s.discard()
		return About(err, s.path)
	}
	return nil
}

// discard removes the temporary file.
func (s *target) discard() {
	if s.temp != "" {
		_ = files.Remove(s.temp) // the error to return is the first one
	}
}

// About returns an error of the system about a temporary file, or about the renaming of one, as an error about path.
// Other errors are returned as they are.
func About(err error, path string) error {
	err, _ = about(err, path)
	return err
}

func about(err error, path string) (_ error, changed bool) {
	var link *os.LinkError
	if errors.As(err, &link) && (Temporary(link.Old) || Temporary(link.New)) {
		return &fs.PathError{Op: link.Op, Path: path, Err: link.Err}, true
	}
	var file *fs.PathError
	if !errors.As(err, &file) {
		return err, false
	}
	// In a temporary folder, the file that is meant will have the same place in the folder at path.
	parent, below := file.Path, ""
	for !Temporary(parent) {
		if next := filepath.Dir(parent); next != parent {
			below = filepath.Join(filepath.Base(parent), below)
			parent = next
			continue
		}
		return err, false
	}
	return &fs.PathError{Op: file.Op, Path: filepath.Join(path, below), Err: file.Err}, true
}

// TempName returns a name for a temporary file or folder beside path, which need not be free.
func TempName(path string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", base, rand.Uint32()))
}

// Temporary reports whether a name is of TempName's form.
func Temporary(name string) bool {
	base := filepath.Base(name)
	stem, ok := strings.CutSuffix(base, ".tmp")
	if !ok || base[0] != '.' || len(stem) < len(".x.00000000") || stem[len(stem)-9] != '.' {
		return false
	}
	return strings.Trim(stem[len(stem)-8:], "0123456789abcdef") == ""
}

func direct(path string, fill func(io.Writer) error) error {
	f, err := files.Create(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, fill), f.Close())
}

func buffered(f *files.File, fill func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	if err := fill(w); err != nil {
		return err
	}
	return w.Flush()
}

// temp makes a hidden file beside path. It is os.CreateTemp except for the permissions, which are the target's (with a
// new target: those that the process's umask leaves).
func temp(path string, perm fs.FileMode) (*files.File, error) {
	for range 100 {
		f, err := files.Create(TempName(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: no free name for a temporary file beside it", path)
}

// syncDir makes the rename itself durable. Not every file system can do that, and the content is safe already, so an
// error is of no consequence.
func syncDir(dir string) {
	if d, err := files.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}
