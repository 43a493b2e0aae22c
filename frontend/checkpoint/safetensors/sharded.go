package safetensors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// File names in a model directory, as model hubs use them.
const (
	SingleName = "model.safetensors"
	IndexName  = "model.safetensors.index.json"
)

// maxIndex bounds the bytes of an index file.
const maxIndex = 64 << 20

// ReadDir reads the tensors of a model directory: model.safetensors, or the shards that its index names.
func ReadDir(dir string) (map[string]*tensor.Tensor, error) { return readDir(dir, nil) }

// Options are the bounds of ReadDirWith.
type Options struct {
	// Bytes bounds the size of the files in total; 0: only by MaxFile for each.
	Bytes int64
	// Context, if not nil, ends reading with an error when it is done.
	Context context.Context
}

// ReadDirWith is like ReadDir, within bounds.
func ReadDirWith(dir string, o Options) (map[string]*tensor.Tensor, error) {
	return readDir(dir, &files.Budget{Limit: o.Bytes, Context: o.Context})
}

func readDir(dir string, left *files.Budget) (map[string]*tensor.Tensor, error) {
	path := filepath.Join(dir, SingleName)
	f, err := files.Open(path)
	if err == nil {
		defer f.Close()
		file, err := readOpen(f, path, left)
		if err != nil {
			return nil, err
		}
		return file.Tensors, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := files.Stat(filepath.Join(dir, IndexName)); err != nil {
		return nil, fmt.Errorf("%s: holds neither %s nor %s", dir, SingleName, IndexName)
	}
	return readSharded(dir, left)
}

// ReadSharded reads the shards that dir's model.safetensors.index.json names. Shards are files in the same directory,
// and hold exactly the tensors that the index lists for them.
func ReadSharded(dir string) (map[string]*tensor.Tensor, error) { return readSharded(dir, nil) }

func readSharded(dir string, left *files.Budget) (_ map[string]*tensor.Tensor, err error) {
	defer ends.Catch(dir, &err)
	var w *ends.Watch
	if left != nil {
		w = ends.Of(left.Context)
	}
	root, err := files.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	index := filepath.Join(dir, IndexName)
	weights, err := readIndex(w, root, index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	all := map[string]*tensor.Tensor{}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(weights))) {
		path := filepath.Join(dir, shard)
		f, err := openShard(root, shard)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: shard %q: %w; fetch it into the same folder", index, shard, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: shard %q: %w", index, shard, err)
		}
		content, err := readOpen(f, path, left)
		f.Close()
		if err != nil {
			return nil, err
		}
		for _, name := range content.Names() {
			if weights[name] != shard {
				return nil, fmt.Errorf("%s: tensor %q is not placed here by %s", path, name, IndexName)
			}
			all[name] = content.Tensors[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if all[name] == nil {
			return nil, fmt.Errorf("%s: tensor %q is missing from %s", index, name, weights[name])
		}
	}
	return all, nil
}

func openShard(root *files.Root, shard string) (*files.File, error) {
	if shard != filepath.Base(shard) || !filepath.IsLocal(shard) {
		return nil, fmt.Errorf("expected the name of a file in this folder")
	}
	return root.Open(shard)
}

// readIndex returns the shard of each tensor.
func readIndex(w *ends.Watch, root *files.Root, index string) (map[string]string, error) {
	f, err := root.Open(IndexName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(w.Reader(io.LimitReader(f, maxIndex+1)))
	if err != nil {
		return nil, err
	}
	if len(b) > maxIndex {
		return nil, fmt.Errorf("more than %d bytes", maxIndex)
	}
	if err := lfs.Check(b); err != nil {
		return nil, err
	}
	weights, err := parseIndex(w, b)
	if err != nil {
		return nil, err
	}
	if len(weights) == 0 {
		return nil, fmt.Errorf("no weight_map")
	}
	return weights, nil
}

// parseIndex reads the weight_map of an index, entry by entry, so that memory is bounded by the limit of entries. Other
// keys are ignored.
func parseIndex(w *ends.Watch, b []byte) (map[string]string, error) {
	if trimmed := bytes.TrimLeft(b[:min(len(b), 1<<10)], " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '{' {
		return nil, fmt.Errorf("expected a JSON object, found %q", trimmed[0])
	}
	p := newParser(w, b)
	weights, shards := map[string]string{}, map[string]string{}
	err := p.object(func(key string) error {
		if key != "weight_map" {
			return p.skip()
		}
		err := p.object(func(name string) error {
			if len(weights) == MaxTensors {
				return fmt.Errorf("expected at most %d tensors", MaxTensors)
			}
			shard, err := p.string()
			if err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
			if known, ok := shards[shard]; ok { // one copy of each name
				shard = known
			} else {
				shards[shard] = shard
			}
			weights[name] = shard
			return nil
		})
		if err != nil {
			return fmt.Errorf("weight_map: %w", err)
		}
		return nil
	})
	return weights, p.end(err)
}

// skip passes over a value.
func (p *parser) skip() error {
	depth := 0
	for {
		t, err := p.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
