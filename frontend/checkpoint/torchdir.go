package checkpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// File names of weights in torch's format in a model directory, as model hubs use them.
const (
	torchName  = "pytorch_model.bin"
	torchIndex = "pytorch_model.bin.index.json"
)

// maxTorchIndex bounds the bytes of an index file.
const maxTorchIndex = 64 << 20

// readTensors reads the tensors of a model directory: in safetensors if there are some, and otherwise in torch's
// format.
func readTensors(dir string, o Options) (map[string]*tensor.Tensor, error) {
	has := func(name string) bool {
		_, err := files.Stat(filepath.Join(dir, name))
		return err == nil
	}
	if !has(safetensors.SingleName) && !has(safetensors.IndexName) && (has(torchName) || has(torchIndex)) {
		return readTorchDir(dir, !has(torchName), o)
	}
	return safetensors.ReadDirWith(dir, safetensors.Options{Bytes: o.Bytes, Context: o.Context})
}

// readTorchDir reads pytorch_model.bin, or the shards that its index names: files in the same directory, which hold
// exactly the tensors that the index lists for them.
func readTorchDir(dir string, sharded bool, o Options) (map[string]*tensor.Tensor, error) {
	root, err := files.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	budget := &files.Budget{Limit: cmp.Or(o.Bytes, torchfile.MaxFile), Context: o.Context}
	if !sharded {
		return readTorchFile(root, dir, torchName, budget)
	}
	index := filepath.Join(dir, torchIndex)
	text, err := readSmall(index, maxTorchIndex)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Metadata  json.RawMessage   `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", index, err)
	}
	if len(doc.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: no weight_map", index)
	}
	all := map[string]*tensor.Tensor{}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(doc.WeightMap))) {
		if shard != filepath.Base(shard) || !filepath.IsLocal(shard) {
			return nil, fmt.Errorf("%s: shard %q: expected the name of a file in this folder", index, shard)
		}
		tensors, err := readTorchFile(root, dir, shard, budget)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(tensors)) {
			if doc.WeightMap[name] != shard {
				return nil, fmt.Errorf("%s: tensor %q is not placed here by %s", filepath.Join(dir, shard), name,
					torchIndex)
			}
			all[name] = tensors[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.WeightMap)) {
		if all[name] == nil {
			return nil, fmt.Errorf("%s: tensor %q is missing from %s", index, name, doc.WeightMap[name])
		}
	}
	return all, nil
}

// readTorchFile reads the state dict in a file of the directory, within a budget.
func readTorchFile(root *files.Root, dir, name string, b *files.Budget) (map[string]*tensor.Tensor, error) {
	path := filepath.Join(dir, name)
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, size, err := b.Regular(f, path)
	if err != nil {
		return nil, err
	}
	v, err := torchfile.ReadContext(b.Context, r, size, path)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*torchfile.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, notDict(v))
	}
	all, where, err := stateDict(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %s%w", path, where, err)
	}
	tensors, err := tensorsOf(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %s%w", path, where, err)
	}
	return tensors, nil
}
