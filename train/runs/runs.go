// Package runs stores what a training run needs to go on after its process has ended, at any point.
//
// A run is a folder. Its checkpoints are folders below it, named step-0000001000 after the steps done. Each is a model
// directory (config.json, model.safetensors), which every command reads, with the state of training beside it:
// training.safetensors holds the optimizer's moments, averages of the weights and the like; training.json the counters,
// the position in the data, the schedule and the metric. A checkpoint is written beside its place and renamed, so that
// a folder of this name is whole: after a full disk or a kill, the checkpoint before is the last one.
//
// It imports internal/files, internal/atomicfile, ir/tensor, frontend/checkpoint, its safetensors, and models.
package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// Names of the files that a checkpoint has besides those of a model directory.
const (
	TensorsName = "training.safetensors"
	StateName   = "training.json"
)

// maxState bounds training.json, in bytes.
const maxState = 16 << 20

// Version is the version of training.json.
const Version = 1

// State is training.json.
type State struct {
	Version int   `json:"version"`
	Step    int64 `json:"step"` // steps done
	// Metric is the value on the validation data by which checkpoints are compared; nil: it was not evaluated. It is
	// text where it is no number.
	Metric *Number `json:"metric,omitempty"`
	// Recipe is the recipe of the run, as its command has it. A run goes on only with the same one.
	Recipe json.RawMessage `json:"recipe,omitempty"`
	// Training is what else training needs: position in the data, schedule, counters.
	Training json.RawMessage `json:"training,omitempty"`
}

// Number is a float64 that JSON may hold: NaN and infinities are text.
type Number float64

// MarshalJSON writes the shortest text that gives the number back.
func (n Number) MarshalJSON() ([]byte, error) {
	s := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if strings.ContainsAny(s, "NI") {
		return json.Marshal(s)
	}
	return []byte(s), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = Number(f)
	return err
}

// Checkpoint is a model in training.
type Checkpoint struct {
	Config models.Config
	Model  models.Weights
	// Tensors are those of training, by name.
	Tensors map[string]*tensor.Tensor
	State   State
}

// Entry is a stored checkpoint.
type Entry struct {
	Step int64
	Dir  string
}

// prefix of a checkpoint's folder, before the steps done.
const prefix = "step-"

// DirOf returns the folder of the checkpoint after so many steps.
func DirOf(run string, step int64) string {
	return filepath.Join(run, fmt.Sprintf("%s%010d", prefix, step))
}

// List lists the checkpoints of a run, the last one last. A run that does not exist has none.
func List(run string) ([]Entry, error) {
	all, err := files.ReadDir(run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, e := range all {
		text, ok := strings.CutPrefix(e.Name(), prefix)
		step, err := strconv.ParseInt(text, 10, 64)
		if ok && err == nil && step >= 0 && e.IsDir() && DirOf(run, step) == filepath.Join(run, e.Name()) {
			found = append(found, Entry{step, filepath.Join(run, e.Name())})
		}
	}
	slices.SortFunc(found, func(a, b Entry) int { return cmp.Compare(a.Step, b.Step) })
	return found, nil
}

// Last returns the last checkpoint of a run; ok is false if it has none.
func Last(run string) (e Entry, ok bool, err error) {
	all, err := List(run)
	if err != nil || len(all) == 0 {
		return Entry{}, false, err
	}
	return all[len(all)-1], true, nil
}

// Write stores a checkpoint of a run, and returns its folder. After an error there is no new checkpoint, and all others
// are as they were. One of the same step is an error.
func Write(run string, c *Checkpoint) (string, error) {
	dir := DirOf(run, c.State.Step)
	if _, err := files.Stat(dir); err == nil {
		return "", fmt.Errorf("%s: is there already; each checkpoint of a run has another step", dir)
	}
	if err := files.MkdirAll(run, 0o777); err != nil {
		return "", err
	}
	temp := atomicfile.TempName(dir)
	err := write(temp, c)
	if err == nil {
		err = atomicfile.Rename(temp, dir)
	}
	if err != nil {
		_ = files.RemoveAll(temp) // err is the first error
		return "", atomicfile.About(err, dir)
	}
	return dir, nil
}

func write(dir string, c *Checkpoint) error {
	if err := checkpoint.WriteDir(dir, c.Config, c.Model); err != nil {
		return err
	}
	if err := safetensors.WriteFile(filepath.Join(dir, TensorsName), c.Tensors, nil); err != nil {
		return err
	}
	s := c.State
	s.Version = Version
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, StateName), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// Read reads a checkpoint.
func Read(dir string) (*Checkpoint, error) {
	c := &Checkpoint{}
	var err error
	if c.Config, c.Model, err = checkpoint.ReadDir(dir); err != nil {
		return nil, err
	}
	if c.State, err = ReadState(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, TensorsName)
	f, err := safetensors.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c.Tensors = f.Tensors
	return c, nil
}

// ReadState reads training.json of a checkpoint.
func ReadState(dir string) (State, error) {
	path := filepath.Join(dir, StateName)
	var s State
	f, err := files.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return s, err
	}
	if len(text) > maxState {
		return s, fmt.Errorf("%s: expected at most %d bytes", path, maxState)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Version != Version {
		return s, fmt.Errorf("%s: version %d; this program reads version %d", path, s.Version, Version)
	}
	if s.Step < 0 {
		return s, fmt.Errorf("%s: expected 0 steps or more, found %d", path, s.Step)
	}
	return s, nil
}

// Best returns the checkpoint with the best metric, the earliest of equal ones; ok is false if none has a metric that
// is a number. larger says that larger metrics are better.
func Best(run string, larger bool) (e Entry, metric float64, ok bool, err error) {
	ranked, err := ranking(run, larger)
	if err != nil || len(ranked) == 0 {
		return Entry{}, 0, false, err
	}
	return ranked[0].Entry, ranked[0].metric, true, nil
}

type ranked struct {
	Entry
	metric float64
}

// ranking lists the checkpoints that have a metric, the best one first.
func ranking(run string, larger bool) ([]ranked, error) {
	all, err := List(run)
	if err != nil {
		return nil, err
	}
	var found []ranked
	for _, e := range all {
		s, err := ReadState(e.Dir)
		if err != nil {
			return nil, err
		}
		if s.Metric != nil && float64(*s.Metric) == float64(*s.Metric) {
			found = append(found, ranked{e, float64(*s.Metric)})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { // the list is in the order of steps
		if larger {
			return cmp.Compare(b.metric, a.metric)
		}
		return cmp.Compare(a.metric, b.metric)
	})
	return found, nil
}

// Prune removes all checkpoints of a run but the best ones and the last ones, and what killed processes have left.
func Prune(run string, best, last int, larger bool) error {
	all, err := List(run)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, e := range all[max(0, len(all)-last):] {
		keep[e.Dir] = true
	}
	if best > 0 {
		found, err := ranking(run, larger)
		if err != nil {
			return err
		}
		for _, e := range found[:min(best, len(found))] {
			keep[e.Dir] = true
		}
	}
	for _, e := range all {
		if !keep[e.Dir] {
			if err := remove(e.Dir); err != nil {
				return err
			}
		}
	}
	return sweep(run)
}

// remove removes a checkpoint. It gets another name first, so that a kill leaves none that is not whole.
func remove(dir string) error {
	temp := atomicfile.TempName(dir)
	if err := files.Rename(dir, temp); err != nil {
		return err
	}
	return files.RemoveAll(temp)
}

// sweep removes temporary folders of checkpoints. One process writes to a run.
func sweep(run string) error {
	all, err := files.ReadDir(run)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.IsDir() && atomicfile.Temporary(e.Name()) && strings.HasPrefix(e.Name(), "."+prefix) {
			if err := files.RemoveAll(filepath.Join(run, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
