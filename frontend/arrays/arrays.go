// Package arrays reads and writes files of inputs and answers: .npy and .npz (numpy), .csv, .wav.
//
// It imports ir/tensor, internal/atomicfile and internal/lfs only. A file with missing or extra bytes is refused.
// Memory is bounded by the file's size, and for compressed files by a multiple of it. Files are written completely or
// not at all.
//
// The package has its own parser of WAV files. github.com/go-audio/wav v1.1.0 returns the bits of float samples as
// integers, accepts truncated files, and takes seconds on some damaged ones.
package arrays

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// Array is the content of a file.
type Array struct {
	Tensor *tensor.Tensor
	// Rate is the sampling rate of a WAV file in Hz; 0 for all others.
	Rate int
}

// Read reads an array by its file's extension:
//
//   - .npy: any shape and numeric element type;
//   - .npz: the array KEY of FILE.npz:KEY, or the only one of FILE.npz;
//   - .csv: float64 (rows, columns), without a first row that is a header;
//   - .wav: float32 (samples, channels) in [-1, 1].
func Read(path string) (*Array, error) {
	file, key := splitKey(path)
	read := map[string]func(f *files.File, size int64) (*Array, error){
		".npy": func(f *files.File, size int64) (*Array, error) { return plain(ReadNpy(bufio.NewReader(f), size)) },
		".npz": func(f *files.File, size int64) (*Array, error) { return plain(ReadNpz(f, size, key)) },
		".csv": func(f *files.File, size int64) (*Array, error) { return plain(ReadCSV(f, size)) },
		".wav": func(f *files.File, size int64) (*Array, error) { return ReadWav(bufio.NewReader(f), size) },
	}[strings.ToLower(filepath.Ext(file))]
	if read == nil {
		return nil, fmt.Errorf("%s: unknown kind of file, expected .npy, .npz, .csv or .wav", path)
	}
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(path)
	if err != nil {
		return nil, err
	}
	if err := lfs.CheckFile(f, size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a, err := read(f, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func plain(t *tensor.Tensor, err error) (*Array, error) {
	if err != nil {
		return nil, err
	}
	return &Array{Tensor: t}, nil
}

// splitKey splits FILE.npz:KEY, unless there is a file with that name.
func splitKey(path string) (file, key string) {
	i := strings.LastIndex(strings.ToLower(path), ".npz:")
	if i < 0 {
		return path, ""
	}
	if _, err := files.Stat(path); err == nil {
		return path, ""
	}
	return path[:i+4], path[i+5:]
}

// Write writes t by the extension of path: .npy, .npz (one array, under the name "array") or .csv.
func Write(path string, t *tensor.Tensor) error {
	write := map[string]func(w io.Writer) error{
		".npy": func(w io.Writer) error { return WriteNpy(w, t) },
		".npz": func(w io.Writer) error { return WriteNpz(w, map[string]*tensor.Tensor{"array": t}) },
		".csv": func(w io.Writer) error { return WriteCSV(w, t) },
	}[strings.ToLower(filepath.Ext(path))]
	if write == nil {
		return fmt.Errorf("%s: unknown kind of file to write, expected .npy, .npz or .csv", path)
	}
	return atomicfile.Write(path, write)
}
