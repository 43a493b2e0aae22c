package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/spell"
)

// repository has the models of a server.
type repository struct {
	loading sync.Mutex // one reload at a time
	mu      sync.RWMutex
	models  map[string]map[string]*slot // by name and version
	off     map[string]bool             // unloaded by a client
}

// slot is a version in the repository: it is served, or the reason is there for which it is not.
type slot struct {
	v      *version // nil: unavailable
	path   string
	print  string // of the files, when they were loaded
	config string // of the files besides the weights
	reason string
}

// source is where a version is stored.
type source struct{ version, path string }

// sources lists the models and their versions, as the folders have them now.
func (s *Server) sources() (map[string][]source, error) {
	out := map[string][]source{}
	add := func(name, path string) error {
		list, err := versionsAt(path)
		if err != nil {
			return err
		}
		keep := s.o.of(name).Versions
		or(&keep, 1)
		if keep > 0 && len(list) > keep {
			list = list[len(list)-keep:]
		}
		out[name] = list
		return nil
	}
	for name, path := range s.o.Models {
		if err := add(name, path); err != nil {
			return nil, err
		}
	}
	if s.o.Dir == "" {
		return out, nil
	}
	entries, err := files.ReadDir(s.o.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := NameOf(e.Name())
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s: two models have the name %q", s.o.Dir, name)
		}
		path := filepath.Join(s.o.Dir, e.Name())
		if add(name, path) != nil {
			out[name] = []source{{"1", path}} // loading it gives the error
		}
	}
	return out, nil
}

// NameOf returns the name under which the model at a path is served, unless another is given: that of the file, without
// its extension.
func NameOf(path string) string {
	base := filepath.Base(path)
	if ext := filepath.Ext(base); ext != base && slices.Contains(extensions, ext) {
		return strings.TrimSuffix(base, ext)
	}
	return base
}

// extensions are those of files that are models.
var extensions = []string{".onnx", ".essm", ".txt"}

// versionsAt lists the versions at a path: folders with numbers as names, by increasing numbers, or version 1.
func versionsAt(path string) ([]source, error) {
	info, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []source{{"1", path}}, nil
	}
	entries, err := files.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []source
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 63); err == nil && strconv.FormatUint(n, 10) == e.Name() {
			out = append(out, source{e.Name(), filepath.Join(path, e.Name())})
		}
	}
	if len(out) == 0 {
		return []source{{"1", path}}, nil
	}
	slices.SortFunc(out, func(a, b source) int {
		return cmp.Or(cmp.Compare(len(a.version), len(b.version)), cmp.Compare(a.version, b.version))
	})
	return out, nil
}

// modelAt returns the model in a folder: the folder itself if it is a model directory, or its only model.
func modelAt(path string) (string, error) {
	info, err := files.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	if _, err := files.Stat(filepath.Join(path, checkpoint.ConfigName)); err == nil {
		return path, nil
	}
	entries, err := files.ReadDir(path)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
		case name != "model" && NameOf(name) == "model":
			return filepath.Join(path, name), nil
		case slices.Contains(extensions, filepath.Ext(name)):
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: expected a model directory, or one file model.onnx or model.essm, found %d models", path,
			len(found))
	}
	return filepath.Join(path, found[0]), nil
}

// printOf returns what changes when the files of a model change: names, sizes and times, of all files and of those
// that are not weights.
func printOf(path string) (all, config string, err error) {
	info, err := files.Stat(path)
	if err != nil {
		return "", "", err
	}
	list := []fs.FileInfo{info}
	if info.IsDir() {
		list = nil
		entries, err := files.ReadDir(path)
		if err != nil {
			return "", "", err
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && !info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				list = append(list, info)
			}
		}
	}
	for _, info := range list {
		one := fmt.Sprintf("%s %d %d\n", info.Name(), info.Size(), info.ModTime().UnixNano())
		all += one
		if ext := filepath.Ext(info.Name()); ext != ".safetensors" && ext != ".bin" {
			config += one
		}
	}
	return all, config, nil
}

// Reload loads models whose files are new or have changed, and retires those whose files are gone. Requests that run,
// and sequences, go on with the version that they have. If a model cannot be loaded, the version before stays. The
// error joins those of all models.
func (s *Server) Reload(ctx context.Context) error {
	s.repo.loading.Lock()
	defer s.repo.loading.Unlock()
	if err := s.keys.Reload(); err != nil {
		return err
	}
	all, err := s.sources()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !s.repo.isOff(name) {
			errs = append(errs, s.sync(ctx, name, all[name]))
		}
	}
	for _, name := range s.repo.names() {
		if _, ok := all[name]; !ok {
			errs = append(errs, s.sync(ctx, name, nil))
		}
	}
	return errors.Join(errs...)
}

// sync makes the served versions of a model those of the list.
func (s *Server) sync(ctx context.Context, name string, list []source) error {
	var errs []error
	next := map[string]*slot{}
	var retired []*version
	now := s.repo.slots(name)
	for _, src := range list {
		old := now[src.version]
		fresh, err := s.refresh(ctx, name, src, old)
		if err != nil {
			errs = append(errs, fmt.Errorf("model %s, version %s: %w", name, src.version, err))
			s.metrics.reloads.WithLabelValues(name, "failed").Inc()
			s.o.Log.Error("model not loaded", "model", name, "version", src.version, "error", err.Error())
			if fresh = old; fresh == nil || fresh.v == nil {
				fresh = &slot{path: src.path, reason: err.Error()}
			}
		} else if fresh != old {
			s.metrics.reloads.WithLabelValues(name, "loaded").Inc()
			s.o.Log.Info("model loaded", "model", name, "version", src.version, "path", fresh.path)
		}
		next[src.version] = fresh
	}
	for number, old := range now {
		if old.v != nil && (next[number] == nil || next[number].v != old.v) {
			retired = append(retired, old.v)
		}
	}
	s.repo.set(name, next)
	for _, v := range retired {
		v.retire()
	}
	return errors.Join(errs...)
}

// refresh returns the slot for a version: the old one if its files are as they were.
func (s *Server) refresh(ctx context.Context, name string, src source, old *slot) (*slot, error) {
	path, err := modelAt(src.path)
	if err != nil {
		return nil, err
	}
	folder := path
	if path != src.path {
		folder = src.path
	}
	all, config, err := printOf(folder)
	if err != nil {
		return nil, err
	}
	fresh := &slot{path: path, print: all, config: config}
	if old != nil && old.v != nil && old.path == path {
		if old.print == all {
			return old, nil
		}
		if old.config == config {
			if ok, err := s.replace(ctx, old.v, path); ok && err == nil { // otherwise all of it is loaded again
				fresh.v = old.v
				return fresh, nil
			}
		}
	}
	fresh.v, err = s.load(ctx, name, src.version, path)
	return fresh, err
}

func (r *repository) isOff(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.off[name]
}

func (r *repository) names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.models))
}

// slots returns the versions of a model. The map must not be changed.
func (r *repository) slots(name string) map[string]*slot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.models[name]
}

func (r *repository) set(name string, slots map[string]*slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(slots) == 0 {
		delete(r.models, name)
		return
	}
	r.models[name] = slots
}

// find returns a version of a model, which the caller uses until done; number may be empty, for the latest one.
func (r *repository) find(name, number string) (*version, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	slots, ok := r.models[name]
	if !ok {
		if r.off[name] {
			return nil, unavailable.errorf("model %q is not loaded", name)
		}
		meant := ""
		if near := spell.Close(name, slices.Sorted(maps.Keys(r.models))); near != "" {
			meant = fmt.Sprintf(", did you mean %q?", near)
		}
		return nil, notFound.errorf("model %.100q is not served%s", name, meant)
	}
	if number != "" {
		s, ok := slots[number]
		switch {
		case !ok:
			return nil, notFound.errorf("model %q: version %.50q is not served; served: %s", name, number,
				strings.Join(numbers(slots), ", "))
		case s.v == nil || !s.v.use():
			return nil, unavailable.errorf("model %q, version %s, is unavailable: %s", name, number, s.reason)
		}
		return s.v, nil
	}
	list := numbers(slots)
	for _, number := range slices.Backward(list) {
		if s := slots[number]; s.v != nil && s.v.use() {
			return s.v, nil
		}
	}
	return nil, unavailable.errorf("model %q is unavailable: %s", name, slots[list[len(list)-1]].reason)
}

// numbers lists versions, the latest one last.
func numbers(slots map[string]*slot) []string {
	return slices.SortedFunc(maps.Keys(slots), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// each calls f for all versions, sorted.
func (r *repository) each(f func(name, number string, s *slot)) {
	for _, name := range r.names() {
		slots := r.slots(name)
		for _, number := range numbers(slots) {
			f(name, number, slots[number])
		}
	}
}

// setLoaded loads or unloads a model for a client.
func (s *Server) setLoaded(ctx context.Context, name string, on bool) error {
	if !s.o.Repository {
		return forbidden.errorf("clients may not load and unload models of this server " +
			"(repository: true in serve.yaml allows it)")
	}
	s.repo.loading.Lock()
	defer s.repo.loading.Unlock()
	all, err := s.sources()
	if err != nil {
		return err
	}
	list, ok := all[name]
	if !ok {
		return notFound.errorf("the repository has no model %.100q", name)
	}
	s.repo.mu.Lock()
	if on {
		delete(s.repo.off, name)
	} else {
		s.repo.off[name] = true
	}
	s.repo.mu.Unlock()
	if !on {
		return s.sync(ctx, name, nil)
	}
	if err := s.sync(ctx, name, list); err != nil {
		return invalid.errorf("%w", err)
	}
	return nil
}
