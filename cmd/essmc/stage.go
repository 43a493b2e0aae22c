package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/atomicfile"
)

// stage is a directory that is filled beside the place where it is wanted, and takes its name when it is complete: no half
// of it is ever seen there.
type stage struct{ dir, temp string }

// newStage makes sure that there is nothing at dir, or an empty directory.
func newStage(dir string) (*stage, error) {
	if err := checkEmpty(dir); err != nil {
		return nil, err
	}
	s := &stage{dir: filepath.Clean(dir)}
	s.temp = atomicfile.TempName(s.dir)
	return s, s.rename(os.Mkdir(s.temp, 0o777))
}

// checkEmpty reports an error if dir is there and is anything but an empty directory.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
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

// commit puts the directory where it was wanted.
func (s *stage) commit() error {
	if err := os.Remove(s.dir); err != nil && !os.IsNotExist(err) {
		return err
	}
	return s.rename(os.Rename(s.temp, s.dir))
}

// discard removes what was not committed.
func (s *stage) discard() { os.RemoveAll(s.temp) }

// rename lets an error speak of the directory that is wanted.
func (s *stage) rename(err error) error {
	if err == nil {
		return nil
	}
	if err = atomicfile.About(err, s.dir); !strings.Contains(err.Error(), s.temp) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), s.temp, s.dir))
}
