package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
)

// stage is a directory that is filled under another name, and renamed when it is complete.
type stage struct{ dir, temp string }

// newStage returns a stage for dir, which must not exist or be empty.
func newStage(dir string) (*stage, error) {
	if err := checkEmpty(dir); err != nil {
		return nil, err
	}
	s := &stage{dir: filepath.Clean(dir)}
	s.temp = atomicfile.TempName(s.dir)
	return s, s.rename(files.Mkdir(s.temp, 0o777))
}

// checkEmpty returns an error if dir exists and is not an empty directory.
func checkEmpty(dir string) error {
	entries, err := files.ReadDir(dir)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s: is not empty", dir)
	}
	return nil
}

// commit renames the stage to the final directory.
func (s *stage) commit() error {
	if err := files.Remove(s.dir); err != nil && !os.IsNotExist(err) {
		return err
	}
	return s.rename(files.Rename(s.temp, s.dir))
}

// discard removes the stage if it was not committed.
func (s *stage) discard() { files.RemoveAll(s.temp) }

// rename replaces the stage's name in an error by the final one.
func (s *stage) rename(err error) error {
	if err == nil {
		return nil
	}
	if err = atomicfile.About(err, s.dir); !strings.Contains(err.Error(), s.temp) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), s.temp, s.dir))
}
