package onnx

import (
	"fmt"
	"io/fs"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
)

// openFile is a file that stays open for lazy tensors: until none of them is reachable.
type openFile struct {
	name string // in messages
	*files.File
	begin fs.FileInfo
	used  bool // there are lazy tensors
}

// numbers are the bytes of a tensor in a file.
type numbers struct {
	file *openFile
	at   int64
}

// tensor returns the tensor whose bytes are at an offset of the file, unless it is small, or not all bytes are valid.
func (f *openFile) tensor(d tensor.DType, shape []int, size, at int64) *tensor.Tensor {
	switch d {
	case tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Uint8:
	default:
		return nil
	}
	if f == nil || size < tensor.LazyLeast {
		return nil
	}
	f.used = true
	return tensor.Lazy(d, shape, &numbers{f, at})
}

func (n *numbers) Fill(dst []byte) error { return n.Part(dst, 0) }

func (n *numbers) Part(dst []byte, at int) error {
	now, err := n.file.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", n.file.name, err)
	}
	if now.Size() != n.file.begin.Size() || !now.ModTime().Equal(n.file.begin.ModTime()) {
		return fmt.Errorf("%s: has changed since it was opened, so its weights cannot be read again", n.file.name)
	}
	if k, err := n.file.ReadAt(dst, n.at+int64(at)); k < len(dst) {
		return fmt.Errorf("%s: at byte %d: %w", n.file.name, n.at+int64(at+k), err)
	}
	return nil
}

func (n *numbers) Release() {}
