// Package files opens, reads and writes files. Its functions are the functions of package os, with a place at which
// tests let each call fail (internal/fault). All files of the project go through it; a test of internal/house checks
// this.
//
// It imports internal/fault and the standard library. Opening a file for reading never waits: pipes, sockets and
// devices are refused at once, since reading them may wait for another program, or never end.
package files

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/essmc/essmc/internal/fault"
)

// File is an open file.
type File struct {
	f       *os.File
	written bool
}

// Open opens a file or a folder for reading. It refuses pipes, sockets and devices.
func Open(path string) (*File, error) {
	if err := at(fault.Open, path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	return stored(f, path, err)
}

// stored returns an open file whose content is stored in a file system, and closes others with an error.
func stored(f *os.File, path string, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		err = fmt.Errorf("%s: expected a regular file, found %s", path, kind(st.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, false}, nil
}

// kind describes the type of a file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a file of type " + m.Type().String()
}

// Create opens a file for writing, with the flags of os.OpenFile.
func Create(path string, flag int, perm fs.FileMode) (*File, error) {
	if err := at(fault.Create, path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return &File{f, true}, nil
}

// at asks for a fault of an operation as a whole.
func at(op fault.Op, path string) error {
	if _, err := fault.At(op, path, 0); err != nil {
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return nil
}

// part asks for a fault of an operation on b. It returns the part of b to do before the error.
func part(op fault.Op, path string, b []byte) ([]byte, error) {
	n, err := fault.At(op, path, int64(len(b)))
	if err != nil && err != io.EOF {
		err = &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return b[:n], err
}

// Name returns the name under which the file was opened.
func (f *File) Name() string { return f.f.Name() }

// Fd returns the file's descriptor, for mappings; an error if mappings fail.
func (f *File) Fd() (uintptr, error) {
	if err := at(fault.Map, f.Name()); err != nil {
		return 0, err
	}
	return f.f.Fd(), nil
}

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := at(fault.Stat, f.Name()); err != nil {
		return nil, err
	}
	return f.f.Stat()
}

// Regular returns the size of a regular file; for others, an error that begins with name.
func (f *File) Regular(name string) (size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: expected a regular file, found %s", name, kind(st.Mode()))
	}
	return st.Size(), nil
}

// Read is io.Reader's.
func (f *File) Read(b []byte) (int, error) {
	some, fail := part(fault.Read, f.Name(), b)
	if fail != nil && len(some) == 0 {
		return 0, fail
	}
	n, err := f.f.Read(some)
	if err == nil {
		err = fail
	}
	return n, err
}

// ReadAt is io.ReaderAt's. As os.File's it reads on after a part.
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	for {
		some, fail := part(fault.Read, f.Name(), b[n:])
		k, err := f.f.ReadAt(some, off+int64(n))
		if n += k; err != nil || fail != nil || n == len(b) {
			return n, cmp.Or(err, fail)
		}
	}
}

// Write is io.Writer's.
func (f *File) Write(b []byte) (int, error) {
	some, fail := part(fault.Write, f.Name(), b)
	n, err := f.f.Write(some)
	if err == nil {
		err = fail
	}
	return n, err
}

// Sync writes the file's content to the disk.
func (f *File) Sync() error {
	if err := at(fault.Sync, f.Name()); err != nil {
		return err
	}
	return f.f.Sync()
}

// Close closes the file, also where the fault is an error.
func (f *File) Close() error {
	op := fault.Close
	if f.written {
		op = fault.Written
	}
	fail := at(op, f.Name())
	if err := f.f.Close(); err != nil {
		return err
	}
	return fail
}

// Root is a folder, with files in and below it, which no link leads out of.
type Root struct{ r *os.Root }

// OpenRoot opens a folder.
func OpenRoot(dir string) (*Root, error) {
	if err := at(fault.Open, dir); err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Root{r}, nil
}

// In returns an open folder as a Root; nil for nil.
func In(r *os.Root) *Root {
	if r == nil {
		return nil
	}
	return &Root{r}
}

// Open opens a file of the folder for reading. It refuses pipes, sockets and devices.
func (r *Root) Open(name string) (*File, error) {
	if err := at(fault.Open, name); err != nil {
		return nil, err
	}
	f, err := r.r.OpenFile(name, os.O_RDONLY|nonblock, 0)
	return stored(f, name, err)
}

// Lstat describes a file of the folder, or a link.
func (r *Root) Lstat(name string) (fs.FileInfo, error) {
	if err := at(fault.Stat, name); err != nil {
		return nil, err
	}
	return r.r.Lstat(name)
}

// Close closes the folder.
func (r *Root) Close() error { return r.r.Close() }

// Stat describes a file; of a link, its target.
func Stat(path string) (fs.FileInfo, error) {
	if err := at(fault.Stat, path); err != nil {
		return nil, err
	}
	return os.Stat(path)
}

// ReadDir lists a folder.
func ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := at(fault.List, dir); err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

// ReadFile returns the content of a file.
func ReadFile(path string) (_ []byte, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Rename renames a file or folder, and replaces the target if it exists.
func Rename(from, to string) error {
	if _, err := fault.At(fault.Rename, to, 0); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return os.Rename(from, to)
}

// Remove removes a file or an empty folder.
func Remove(path string) error {
	if err := at(fault.Remove, path); err != nil {
		return err
	}
	return os.Remove(path)
}

// RemoveAll removes a file or folder with all in it; nothing, if there is none.
func RemoveAll(path string) error {
	if err := at(fault.Remove, path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// Mkdir makes a folder.
func Mkdir(dir string, perm fs.FileMode) error {
	if err := at(fault.Mkdir, dir); err != nil {
		return err
	}
	return os.Mkdir(dir, perm)
}

// MkdirAll makes a folder and those above it, as far as there are none.
func MkdirAll(dir string, perm fs.FileMode) error {
	if err := at(fault.Mkdir, dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, perm)
}
