package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/internal/fault"
	"github.com/essmc/essmc/internal/faults"
)

// temporary matches the names of temporary files.
var temporary = regexp.MustCompile(`^\..+\.[0-9a-f]{8}\.tmp$`)

// left returns the temporary files of a folder, and removes them from it.
func (all folder) left() (temps []string) {
	for path := range all {
		if temporary.MatchString(filepath.Base(path)) {
			temps = append(temps, path)
			delete(all, path)
		}
	}
	return temps
}

// from returns the content for another folder.
func (all folder) from(old, dir string) folder {
	moved := folder{}
	for path, content := range all {
		moved[dir+strings.TrimPrefix(path, old)] = content
	}
	return moved
}

// Any operation may fail while a file is written. With an error, the folder is unchanged, without temporary files,
// unless they cannot be removed; without one, the content is the new one. The error is the operation's, and names
// the requested file. After that, the file can be written.
func TestWrite(t *testing.T) {
	for _, f := range forms {
		if f.write == nil {
			continue
		}
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, exists %v", f.name, exists), func(t *testing.T) {
				dir := room(t)
				path := filepath.Join(dir, f.file)
				f.put(t, path, 1)
				old := load(t, dir)
				wantOld, err := f.read(path)
				if err != nil {
					t.Fatal(err)
				}
				if !exists {
					old = folder{}
				}
				old.store(t, dir)
				f.put(t, path, 2)
				wantNew, err := f.read(path)
				if err != nil {
					t.Fatal(err)
				}
				total := 0
				for _, m := range faults.Writing {
					old.store(t, dir)
					n := m.Count(func() { f.put(t, path, 2) })
					for k := range n {
						old.store(t, dir)
						var err error
						op, at := m.At(k, func() { err = f.write(t, path, 2) })
						about := fmt.Sprintf("%s, operation %d (%s %s)", m.Name, k, op, strings.TrimPrefix(at, dir))
						now := load(t, dir)
						temps := now.left()
						if len(temps) > 0 && !m.On && op != fault.Remove {
							t.Errorf("%s: leaves %v", about, temps)
						}
						got, readErr := f.read(path)
						switch {
						case err == nil:
							if got != wantNew {
								t.Errorf("%s: no error, and not the new content: %v", about, readErr)
							}
						case !errors.Is(err, faults.Error):
							t.Errorf("%s: the error is another one: %v", about, err)
						default:
							check(t, f, err)
							absent := errors.Is(readErr, os.ErrNotExist)
							if exists && got != wantOld && !(absent && f.set && m.On) || !exists && readErr == nil {
								t.Errorf("%s: the old content is not kept: %v", about, readErr)
							}
							if !m.On && !maps.Equal(now, old) {
								t.Errorf("%s: the folder is not as it was: %v, before %v", about, sorted(now), sorted(old))
							}
						}
						if err := f.write(t, path, 2); err != nil {
							t.Errorf("%s: then: %v", about, err)
						}
						if got, err := f.read(path); err != nil || got != wantNew {
							t.Errorf("%s: then: %v", about, err)
						}
					}
					total += n
				}
				t.Logf("%d faults", total)
			})
		}
	}
}

// killed tells the child process of TestKill what to write, and when to end: form, operation, torn, path.
const killed = "ESSMC_FAULTS_KILL"

// Wherever a process is killed while it writes: the file holds its old content or the new one, never a mixture. Temporary
// files that stay behind do no harm: the file can be written.
func TestKill(t *testing.T) {
	if s := os.Getenv(killed); s != "" {
		part := strings.SplitN(s, ",", 4)
		i, k := atoi(t, part[0]), atoi(t, part[1])
		faults.EndAt(k, part[2] == "true")
		f := forms[i]
		if err := f.write(t, part[3], 2); err != nil {
			t.Fatal(err)
		}
		return
	}
	type end struct {
		form, k          int
		torn, write      bool
		home             string
		old              folder
		wantOld, wantNew string
	}
	var ends []end
	for i, f := range forms {
		if f.write == nil || i > 0 && strings.HasPrefix(f.name, "plan") {
			continue
		}
		home := room(t)
		path := filepath.Join(home, f.file)
		f.put(t, path, 1)
		old := load(t, home)
		wantOld, err := f.read(path)
		if err != nil {
			t.Fatal(err)
		}
		n := len(ends)
		restore := fault.Set(func(op fault.Op, _ string, size int64) (int64, error) {
			if slices.Contains(faults.Changing, op) {
				ends = append(ends, end{i, len(ends) - n, false, op == fault.Write, home, old, wantOld, ""})
			}
			return size, nil
		})
		f.put(t, path, 2)
		restore()
		wantNew, err := f.read(path)
		if err != nil {
			t.Fatal(err)
		}
		for k := range ends[n:] {
			ends[n+k].wantNew = wantNew
		}
	}
	for _, e := range ends {
		if e.torn = true; e.write {
			ends = append(ends, e)
		}
	}
	var wg sync.WaitGroup
	slots := make(chan bool, 4)
	for _, e := range ends {
		wg.Go(func() {
			slots <- true
			defer func() { <-slots }()
			f, dir := forms[e.form], room(t)
			path := filepath.Join(dir, f.file)
			e.old.from(e.home, dir).store(t, dir)
			about := fmt.Sprintf("%s, operation %d, torn %v", f.name, e.k, e.torn)
			cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%d,%v,%s", killed, e.form, e.k, e.torn, path))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Errorf("%s: the process was not killed: %v\n%s", about, err, out)
				return
			}
			got, err := f.read(path)
			if got != e.wantOld && got != e.wantNew && !(f.set && errors.Is(err, os.ErrNotExist)) {
				t.Errorf("%s: neither the old content nor the new one: %v", about, err)
			}
			if err := f.write(t, path, 2); err != nil {
				t.Errorf("%s: then: %v", about, err)
			}
			if got, err := f.read(path); err != nil || got != e.wantNew {
				t.Errorf("%s: then: %v", about, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d kills", len(ends))
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
