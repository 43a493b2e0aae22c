package irtext

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Opener reads length bytes at an offset of the file at location, as the text names it.
type Opener func(location string, offset, length int64) ([]byte, error)

// inFolder returns an Opener of regular files in and below a folder. It follows no name or link out of the folder.
func inFolder(w *ends.Watch, root *files.Root) Opener {
	return func(location string, offset, length int64) ([]byte, error) {
		name := filepath.FromSlash(location)
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%q is outside the folder", location)
		}
		// This comes before Open, which would wait for the writer of a pipe.
		before, err := root.Lstat(name)
		if err != nil {
			return nil, err
		}
		if !before.Mode().IsRegular() {
			return nil, fmt.Errorf("%q is not a regular file", location)
		}
		f, err := root.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		now, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if !os.SameFile(before, now) {
			return nil, fmt.Errorf("%q was replaced while it was opened", location)
		}
		if err := lfs.CheckFile(f, now.Size()); err != nil {
			return nil, fmt.Errorf("%q %w", location, err)
		}
		if offset < 0 || length < 0 || offset > now.Size() || length > now.Size()-offset {
			return nil, fmt.Errorf("%q has %d bytes, expected %d at offset %d", location, now.Size(), length, offset)
		}
		b := tensor.AlignedUncleared(int(length))
		if n, err := w.ReadAt(f, b, offset); n < len(b) {
			return nil, fmt.Errorf("%q: %w", location, err)
		}
		return b, nil
	}
}

// WriteFile writes g to path, and the content of its large constants to a file beside it:
// model-0123456789abcdef.weights for model.txt. The name has a hash of the content, so that no text refers to
// another text's constants even if the process is killed. If a text at path is replaced, its file of constants is
// removed, unless another file in the folder refers to it. Each file is complete before it appears under its name.
func WriteFile(path string, g *ir.Graph) error {
	var text bytes.Buffer
	base := filepath.Base(path)
	name := strings.TrimSuffix(base, filepath.Ext(base)) + ".weights"
	write := func(data io.Writer) error {
		text.Reset()
		return Print(&text, g, Options{Data: data, DataName: name})
	}
	d, err := atomicfile.NewData(name, sha1.New(), write)
	if err != nil {
		return err
	}
	name = d.Name
	if err := write(io.Discard); err != nil {
		return err
	}
	return atomicfile.WritePair(path, d, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}

// ReadFile parses the file at path. Large constants may be in files beside it or in folders below, unless o.Open finds
// them elsewhere.
func ReadFile(path string, resolver ir.Resolver, o Options) (_ *ir.Graph, err error) {
	defer ends.Catch(path, &err)
	root, err := files.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := o.Budget.withDefaults().Bytes
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > int64(limit) {
		return nil, fmt.Errorf("%s: expected a text of at most %d bytes, found %d", path, limit, st.Size())
	}
	w := ends.Of(o.Context)
	src, err := w.ReadAll(io.LimitReader(f, int64(limit)+1), int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := lfs.Check(src); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Open == nil {
		o.Open = inFolder(w, root)
	}
	return Parse(src, path, resolver, o)
}
