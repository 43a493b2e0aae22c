package plan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	goruntime "runtime"
	"sync"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Limits limits the size of a plan. Zero fields mean the defaults.
type Limits struct {
	FileBytes     int64 // the file; default 64 GiB
	MetadataBytes int64 // the section with everything but weights; default 256 MiB
	Nodes         int   // nodes of all graphs; default 4 million
	Depth         int   // nesting of graphs, and of types; default and maximum 64
	Ports         int   // inputs of a node, and outputs of a node; default 65,536
}

func (l Limits) withDefaults() Limits {
	l.FileBytes = min(cmp.Or(l.FileBytes, 64<<30), math.MaxInt/2)
	l.MetadataBytes = cmp.Or(l.MetadataBytes, 256<<20)
	l.Nodes = cmp.Or(l.Nodes, 4<<20)
	l.Ports = cmp.Or(l.Ports, 1<<16)
	l.Depth = min(cmp.Or(l.Depth, maxDepth), maxDepth)
	return l
}

// Read reads a plan of size bytes into memory. Operators come from res. name is the name of the file in errors.
func Read(r io.ReaderAt, size int64, name string, res ir.Resolver, lim Limits) (*ir.Graph, error) {
	return ReadContext(context.Background(), r, size, name, res, lim)
}

// ReadContext is Read, which ends with the cause when ctx is done.
func ReadContext(ctx context.Context, r io.ReaderAt, size int64, name string, res ir.Resolver, lim Limits) (*ir.Graph,
	error) {
	w := ends.Of(ctx)
	r = w.ReaderAt(r)
	return read(w, r, size, name, res, lim, func(s section) ([]byte, error) {
		b := tensor.AlignedUncleared(int(s.length))
		return b, readAt(r, b, s.offset)
	})
}

// read reads a plan, except for its weights, which fetch returns.
func read(watch *ends.Watch, r io.ReaderAt, size int64, name string, res ir.Resolver, lim Limits,
	fetch func(section) ([]byte, error)) (_ *ir.Graph, err error) {
	defer ends.Catch(name, &err)
	if res == nil {
		return nil, fmt.Errorf("%s: no resolver for the plan's operators", name)
	}
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lim = lim.withDefaults()
	metadata, weights, minor, err := readHeader(r, size, name, lim)
	if err != nil {
		return nil, err
	}
	// The header's lengths agree with size. Check size itself before allocating memory.
	if err := readAt(r, make([]byte, 1), size-1); err != nil {
		return nil, classify(name, err)
	}
	if err := checkGaps(r, metadata, weights); err != nil {
		return nil, classify(name, err)
	}
	// The metadata is copied even if the file is mapped: it must not change between verification and decoding.
	m := tensor.AlignedUncleared(int(metadata.length))
	if err := readAt(r, m, metadata.offset); err != nil {
		return nil, classify(name, fmt.Errorf("%v: %w", metadata, err))
	}
	if err := metadata.check(watch, m); err != nil {
		return nil, classify(name, err)
	}
	if err := verifyBuffer(watch, m); err != nil {
		return nil, classify(name, fmt.Errorf("%v: %w", metadata, err))
	}
	w, err := fetch(weights)
	if err != nil {
		return nil, classify(name, fmt.Errorf("%v: %w", weights, err))
	}
	if err := weights.check(watch, w); err != nil {
		return nil, classify(name, err)
	}
	g, err := decode(watch, m, w, minor, res, lim)
	return g, classify(name, err)
}

// ReadFile reads the plan at path into memory.
func ReadFile(path string, res ir.Resolver, lim Limits) (*ir.Graph, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, size, path, res, lim)
}

// openRegular opens a regular file.
func openRegular(path string) (*files.File, int64, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Regular(path)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// Options are settings for Open.
type Options struct {
	Limits Limits
	// Context, if not nil, ends Open with its cause when it is done.
	Context context.Context
	// Copy makes Open read the weights into memory even if the file could be mapped.
	Copy bool
}

// File is an open plan.
type File struct {
	graph   *ir.Graph
	mapping *mapping // nil if the weights are a copy
}

// mapping is a mapped file. It does not refer to the graph, so it can be unmapped when the graph is unreachable.
type mapping struct {
	bytes []byte
	once  sync.Once
	err   error
}

func (m *mapping) close() error {
	m.once.Do(func() { m.err = unmap(m.bytes) })
	return m.err
}

// Open reads the plan at path. On platforms that support it the file is mapped into memory and the graph's weights are
// views of the mapping: read-only, shared between processes, loaded page by page. A mapped file must not be truncated
// or written to: the system kills programs that read beyond its end, and the checksums were verified before the change.
// To replace a plan, rename a new one over it, as WriteFile does; where others may write to it, set Options.Copy. The
// mapping ends with Close, or when the graph is unreachable, so whoever keeps a tensor must keep the graph too.
func Open(path string, res ir.Resolver, opts Options) (*File, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mapped []byte
	w := ends.Of(opts.Context)
	r := w.ReaderAt(f)
	fetch := func(s section) ([]byte, error) {
		if s.length > 0 && !opts.Copy {
			mapped = mapFile(f, size)
		}
		if mapped == nil {
			b := tensor.AlignedUncleared(int(s.length))
			return b, readAt(r, b, s.offset)
		}
		return mapped[s.offset : s.offset+s.length], nil
	}
	g, err := read(w, r, size, path, res, opts.Limits, fetch)
	if err != nil {
		if mapped != nil {
			unmap(mapped) // err is the first error
		}
		return nil, err
	}
	file := &File{graph: g}
	if mapped != nil {
		file.mapping = &mapping{bytes: mapped}
		goruntime.AddCleanup(g, func(m *mapping) { _ = m.close() }, file.mapping) // nobody can receive the error
	}
	return file, nil
}

// Graph returns the plan's graph; nil after Close.
func (f *File) Graph() *ir.Graph { return f.graph }

// Mapped reports whether the graph's weights are views of the file, which end with Close.
func (f *File) Mapped() bool { return f.mapping != nil }

// Close unmaps the file. The graph's weights must not be used afterwards. A second Close does nothing.
func (f *File) Close() error {
	m := f.mapping
	f.graph, f.mapping = nil, nil
	if m == nil {
		return nil
	}
	return m.close()
}
