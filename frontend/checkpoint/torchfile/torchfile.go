// Package torchfile reads the files that torch.save writes (a Lightning .ckpt, a .pt state dict): a zip archive with a
// pickle and the storages of its tensors.
//
// It imports ir/tensor and internal/lfs only. The unpickler executes no code: it builds plain values and tensors, and
// all other objects become inert Placeholders. The result is a finite tree without cycles, no deeper than MaxDepth.
// Tensors are within their storages. Memory is bounded by a small multiple of the file's size.
//
// Python's values become nil, bool, int64 (*big.Int beyond its range), float64, string, []byte, []any (list), Tuple,
// Set,
// *Dict, *tensor.Tensor, tensor.DType and *Placeholder. Configuration objects of OmegaConf and Lightning become their
// plain content.
package torchfile

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// Limits on a file.
const (
	MaxFile    = 1 << 40
	MaxEntries = 1 << 20
	MaxPickle  = 256 << 20
	MaxDepth   = 500
	MaxRank    = 64

	slack    = 64 << 20 // bytes that a file of any size may take
	maxRatio = 1032     // the most bytes that deflate makes of one
)

// ReadFile reads the file at path.
func ReadFile(path string) (any, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(path)
	if err != nil {
		return nil, err
	}
	return Read(f, size, path)
}

// Read reads a file of the given size. name is its name in errors.
func Read(r io.ReaderAt, size int64, name string) (any, error) {
	return readNamed(nil, r, size, name)
}

// ReadContext is Read, which ends with the cause when ctx is done. ctx may be nil.
func ReadContext(ctx context.Context, r io.ReaderAt, size int64, name string) (_ any, err error) {
	defer ends.Catch(name, &err)
	return readNamed(ends.Of(ctx), r, size, name)
}

func readNamed(w *ends.Watch, r io.ReaderAt, size int64, name string) (any, error) {
	v, err := read(w, r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func read(w *ends.Watch, r io.ReaderAt, size int64) (any, error) {
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, err
	}
	a, err := openArchive(w, w.ReaderAt(r), size)
	if err != nil {
		return nil, err
	}
	pickle, err := a.bytes("data.pkl", MaxPickle)
	if err != nil {
		return nil, err
	}
	m := &machine{watch: w, storages: a, budget: 4*size + slack}
	v, err := m.run(pickle)
	if err != nil {
		return nil, fmt.Errorf("data.pkl: %w", err)
	}
	return v, nil
}

// archive is the zip container: files in a folder named after the archive.
type archive struct {
	watch  *ends.Watch
	size   int64                // of the file
	files  map[string]*zip.File // by name within that folder
	loaded map[string][]byte
}

var (
	zipMagic = []byte("PK\x03\x04")
	// pickled magic number of torch < 1.6
	legacyMagic = []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
)

func openArchive(w *ends.Watch, r io.ReaderAt, size int64) (*archive, error) {
	if size > MaxFile {
		return nil, fmt.Errorf("file has %d bytes, at most %d are read", size, int64(MaxFile))
	}
	head := make([]byte, min(size, int64(len(legacyMagic))))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	if bytes.HasPrefix(head, legacyMagic) {
		return nil, errors.New("is in torch's format from before 1.6; re-save it in Python: " +
			"torch.save(torch.load(FILE, map_location=\"cpu\"), FILE)")
	}
	if err := lfs.CheckFile(r, size); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(head, zipMagic) {
		return nil, errors.New("is not a file of torch.save: expected a zip archive, such as a .ckpt of Lightning or " +
			"a .pt")
	}
	z, err := zip.NewReader(r, size)
	if errors.Is(err, zip.ErrFormat) {
		return nil, errors.New("the zip archive has no directory at its end; the file is probably truncated; fetch " +
			"it again")
	}
	if err != nil {
		return nil, err
	}
	if len(z.File) > MaxEntries {
		return nil, fmt.Errorf("archive has %d entries, at most %d are read", len(z.File), MaxEntries)
	}
	folder, err := folderOf(z)
	if err != nil {
		return nil, err
	}
	a := &archive{watch: w, size: size, files: make(map[string]*zip.File, len(z.File)), loaded: map[string][]byte{}}
	// Entries may be compressed, or share bytes of the file. Their total expanded size is bounded.
	limit, total := uint64(4*size+slack), uint64(0)
	for _, f := range z.File {
		w.Step(2)
		name, ok := strings.CutPrefix(f.Name, folder)
		if !ok {
			continue
		}
		if a.files[name] != nil {
			return nil, fmt.Errorf("archive has two entries %q", f.Name)
		}
		a.files[name] = f
		if f.UncompressedSize64 > limit || total+f.UncompressedSize64 > limit {
			return nil, fmt.Errorf("archive of %d bytes expands to more than %d: refused as a zip bomb", size, limit)
		}
		total += f.UncompressedSize64
	}
	if a.files["constants.pkl"] != nil {
		return nil, errors.New("is a TorchScript archive; save the module's state_dict() with torch.save instead")
	}
	if a.files["byteorder"] != nil {
		order, err := a.bytes("byteorder", 16)
		if err != nil {
			return nil, err
		}
		if string(order) != "little" {
			return nil, fmt.Errorf("byte order is %q, only little-endian files are read; re-save it on a "+
				"little-endian machine", order)
		}
	}
	return a, nil
}

// folderOf finds the folder that holds data.pkl, with its slash.
func folderOf(z *zip.Reader) (string, error) {
	folder := ""
	for _, f := range z.File {
		if dir, ok := strings.CutSuffix(f.Name, "data.pkl"); ok && strings.Count(dir, "/") == 1 &&
			strings.HasSuffix(dir, "/") {
			if folder != "" && folder != dir {
				return "", fmt.Errorf("archive holds both %sdata.pkl and %sdata.pkl", folder, dir)
			}
			folder = dir
		}
	}
	if folder == "" {
		return "", errors.New("is not a file of torch.save: the zip archive holds no data.pkl")
	}
	return folder, nil
}

// bytes reads an entry to an address that is aligned for tensors.
func (a *archive) bytes(name string, limit uint64) ([]byte, error) {
	f := a.files[name]
	if f == nil {
		return nil, fmt.Errorf("archive holds no %s", name)
	}
	if f.UncompressedSize64 > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, f.UncompressedSize64, limit)
	}
	if n := f.CompressedSize64; n > uint64(a.size) || f.UncompressedSize64 > maxRatio*(n+1) {
		return nil, fmt.Errorf("%s: %d bytes announced, which %d bytes of the file cannot hold",
			name, f.UncompressedSize64, n)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	b := tensor.AlignedParts(int(f.UncompressedSize64), a.watch.Check)
	if _, err := io.ReadFull(a.watch.Reader(r), b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF { // reading to the end checks the checksum
		if err == nil || n != 0 {
			err = errors.New("longer than the archive says")
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// storage reads the bytes of a storage, once for all tensors that share it.
func (a *archive) storage(key string) ([]byte, error) {
	if b, ok := a.loaded[key]; ok {
		return b, nil
	}
	b, err := a.bytes("data/"+key, MaxFile)
	if err != nil {
		return nil, err
	}
	a.loaded[key] = b
	return b, nil
}
