package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint"
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

// checkFree is checkEmpty with the advice for a directory that a model is to be written to.
func checkFree(dir string) error {
	err := checkEmpty(dir)
	if _, other := files.Stat(filepath.Join(dir, checkpoint.ConfigName)); err != nil && other == nil {
		return fmt.Errorf("%s: is not empty: it holds a model; --force replaces it", dir)
	}
	if err != nil {
		return fmt.Errorf("%w, and has no model to replace; choose another name", err)
	}
	return nil
}

// outputName proposes the name of a file that is made of another one.
func outputName(path, suffix string) string {
	name := filepath.Base(filepath.Clean(path))
	if st, err := files.Stat(path); err != nil || !st.IsDir() {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	if name+suffix == filepath.Clean(path) || strings.Trim(name, `./\`) == "" {
		return "model2" + suffix
	}
	return name + suffix
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
