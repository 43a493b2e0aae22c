package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/plan"
)

// Load opens the plan file at path and compiles it for o.Backend. On platforms that support it the file is mapped into
// memory, until Close, or until neither the model nor its graph is reachable, unless o.Copy is set. So replace a plan
// by renaming a new file over it, as plan.WriteFile does, and never write into it: a process that reads a mapped file
// beyond its end is ended by the system (SIGBUS). Where others may write to the file, set o.Copy. Load opens no file
// after it returns.
func Load(path string, o Options) (*Model, error) {
	if _, err := o.config(); err != nil {
		return nil, err
	}
	f, err := plan.Open(path, o.Backend.Resolver(), plan.Options{Limits: o.Limits, Context: o.Context, Copy: o.Copy})
	if err != nil {
		return nil, plansOnly(path, err)
	}
	m, err := loaded(f.Graph(), path, o, f)
	if err != nil {
		_ = f.Close() // err is the first error
		return nil, err
	}
	return m, nil
}

// plansOnly adds advice to the error for a file that is not a plan, or for a directory.
func plansOnly(path string, err error) error {
	if st, e := files.Stat(path); errors.Is(err, plan.ErrNotPlan) || e == nil && st.IsDir() {
		return fmt.Errorf("%w; package runtime loads only plans, which essmc compile writes: open ONNX files, model "+
			"directories and IR text by open.Load of github.com/essmc/essmc/frontend/open", err)
	}
	return err
}

// LoadReader reads a plan of size bytes into memory and compiles it for o.Backend. name is its name in messages. r is
// not used after LoadReader returns.
func LoadReader(r io.ReaderAt, size int64, name string, o Options) (*Model, error) {
	if _, err := o.config(); err != nil {
		return nil, err
	}
	ctx := o.Context
	if ctx == nil {
		ctx = context.Background()
	}
	g, err := plan.ReadContext(ctx, r, size, name, o.Backend.Resolver(), o.Limits)
	if err != nil {
		return nil, plansOnly("", err)
	}
	return loaded(g, name, o, nil)
}

// LoadFS reads the named plan of fsys into memory and compiles it for o.Backend. With an embed.FS, a program is one
// file. fsys is not used after LoadFS returns.
func LoadFS(fsys fs.FS, name string, o Options) (*Model, error) {
	if _, err := o.config(); err != nil {
		return nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file", name)
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		b, err := io.ReadAll(io.LimitReader(f, st.Size()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r = bytes.NewReader(b)
	}
	return LoadReader(r, st.Size(), name, o)
}

func loaded(g *ir.Graph, name string, o Options, source io.Closer) (*Model, error) {
	m, err := newModel(g, o, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
