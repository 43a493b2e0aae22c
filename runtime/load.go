package runtime

import (
	"fmt"
	"io"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/plan"
)

// Load opens the plan file at path and compiles it for o.Backend. Where the platform allows the weights stay in the file,
// which is mapped into memory until Close: a plan is replaced by renaming a new file over it, never by writing into it.
func Load(path string, o Options) (*Model, error) {
	if _, err := o.config(); err != nil {
		return nil, err
	}
	f, err := plan.Open(path, o.Backend.Resolver(), plan.Options{})
	if err != nil {
		return nil, err
	}
	m, err := loaded(f.Graph(), path, o, f)
	if err != nil {
		_ = f.Close() // the error that came first is the one to tell
		return nil, err
	}
	return m, nil
}

// LoadReader reads a plan of size bytes into memory and compiles it for o.Backend; name stands for it in messages. r is not
// used afterwards.
func LoadReader(r io.ReaderAt, size int64, name string, o Options) (*Model, error) {
	if _, err := o.config(); err != nil {
		return nil, err
	}
	g, err := plan.Read(r, size, name, o.Backend.Resolver(), plan.Limits{})
	if err != nil {
		return nil, err
	}
	return loaded(g, name, o, nil)
}

func loaded(g *ir.Graph, name string, o Options, source io.Closer) (*Model, error) {
	m, err := newModel(g, o, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}
