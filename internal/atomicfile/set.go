package atomicfile

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/essmc/essmc/internal/files"
)

// Part is one of several files.
type Part struct {
	Path string
	Fill func(io.Writer) error
}

// WriteSet writes files that belong together. Readers look for the last one first: without it, there are none. After
// an error, the old files exist. A reader sees all old files, all new ones, or, during a few renames, none; the same
// is true after the process is killed at that time. The files are written and synced before the renames.
func WriteSet(parts ...Part) (err error) {
	var targets []*target
	for _, p := range parts {
		s, err := newTarget(p.Path)
		if err != nil {
			return err
		}
		if s.direct {
			return fmt.Errorf("%s: expected a regular file to replace", p.Path)
		}
		targets = append(targets, s)
	}
	var undo []func()
	rename := func(about *target, from, to string) error {
		if err := files.Rename(from, to); err != nil {
			return About(err, about.path)
		}
		undo = append(undo, func() { _ = files.Rename(to, from) }) // the error to return is the first one
		return nil
	}
	defer func() {
		if err == nil {
			return
		}
		for _, back := range slices.Backward(undo) {
			back()
		}
		for _, s := range targets {
			s.discard()
		}
	}()
	for i, s := range targets {
		if err := s.write(parts[i].Fill); err != nil {
			s.temp = ""
			return err
		}
	}
	var old []string
	for _, s := range slices.Backward(targets) {
		if s.exists {
			old = append(old, TempName(s.path))
			if err := rename(s, s.path, old[len(old)-1]); err != nil {
				return err
			}
		}
	}
	for _, s := range targets {
		if err := rename(s, s.temp, s.path); err != nil {
			return err
		}
	}
	syncDir(filepath.Dir(targets[len(targets)-1].path))
	for _, path := range old {
		_ = files.Remove(path) // the set is written; a file too many does no harm
	}
	return nil
}

// Interrupted reports whether a process ended while it wrote path, which is not there: a temporary file for it is.
func Interrupted(path string) bool {
	entries, err := files.ReadDir(filepath.Dir(path))
	if err != nil {
		return false
	}
	name := filepath.Base(path)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return Temporary(e.Name()) && len(e.Name()) == len("."+name+".00000000.tmp") && e.Name()[1:1+len(name)] == name
	}) && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
}
