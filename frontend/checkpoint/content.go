package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

// ReadContent reads the tensors of a model by name, as its parameters are named: of a model directory, which must be
// complete; of a model.safetensors; or of a state dict that torch.save wrote. What torch's wrappers add to names,
// counters of training steps, and weight norm of linear layers are resolved as for a directory. Types are as in the
// file, but those of a directory float32.
func ReadContent(path string, o Options) (_ map[string]*tensor.Tensor, err error) {
	defer ends.Catch(path, &err)
	if err := o.check(); err != nil {
		return nil, err
	}
	st, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		c, w, _, err := ReadDirWith(path, o)
		if extras, ok := c.(models.Extras); ok {
			maps.DeleteFunc(w, func(name string, _ *tensor.Tensor) bool { return extras.Extra(name) })
		}
		return w, err
	}
	all, err := readContentFile(path, o)
	if err != nil {
		return nil, err
	}
	if all, _, err = renamed(o, all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if all, err = foldWeightNorm(ends.Of(o.Context), all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := make(map[string]*tensor.Tensor, len(all))
	for name, t := range all {
		if !strings.HasSuffix(name, ".num_batches_tracked") {
			out[name] = t
		}
	}
	return out, nil
}

// Convert returns t in another type of numbers, rounded to the nearest. It ends with the context of o.
func (o Options) Convert(t *tensor.Tensor, d tensor.DType) (_ *tensor.Tensor, err error) {
	defer ends.Catch("", &err)
	return converted(ends.Of(o.Context), t, d)
}

// readContentFile reads a file of tensors, which its first bytes tell apart.
func readContentFile(path string, o Options) (map[string]*tensor.Tensor, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 16)
	n, err := ends.Of(o.Context).ReaderAt(f).ReadAt(head, 0)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) { // a short file is the format's business
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if head = head[:n]; bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte{0x80, 2}) {
		root, err := files.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		budget := &files.Budget{Limit: cmp.Or(o.Bytes, torchfile.MaxFile), Context: o.Context}
		return readTorchFile(root, filepath.Dir(path), filepath.Base(path), budget)
	}
	file, err := safetensors.ReadFileWith(path, safetensors.Options{Bytes: o.Bytes, Context: o.Context})
	if err != nil {
		return nil, err
	}
	return file.Tensors, nil
}
