package files

import (
	"context"
	"fmt"
	"io"
)

// LimitError is the error for a file, or for several together, with more bytes than an option allows.
type LimitError struct {
	Size, Limit int64
}

// Error has both numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("too large: expected at most %d bytes, found %d", e.Limit, e.Size)
}

// Budget bounds the bytes of the files of a model, in total, and ends reading them. A nil *Budget does neither.
type Budget struct {
	// Limit is the number of bytes; 0: any.
	Limit int64
	// Context, if not nil, ends reading when it is done.
	Context context.Context

	used int64
}

// Regular returns a reader for a regular file within the budget, and the file's size. Errors begin with name.
func (b *Budget) Regular(f *File, name string) (io.ReaderAt, int64, error) {
	size, err := f.Regular(name)
	if err != nil || b == nil {
		return f, size, err
	}
	if b.used += size; b.Limit > 0 && b.used > b.Limit {
		return nil, 0, fmt.Errorf("%s: %w", name, &LimitError{Size: b.used, Limit: b.Limit})
	}
	return Until(b.Context, f), size, nil
}

// Until returns a reader that ends with the context's cause when the context is done. A nil context never is.
func Until(ctx context.Context, r io.ReaderAt) io.ReaderAt {
	if ctx == nil {
		return r
	}
	return until{ctx, r}
}

type until struct {
	ctx context.Context
	r   io.ReaderAt
}

func (u until) ReadAt(b []byte, off int64) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.ReadAt(b, off)
}

// UntilWriter returns a writer that ends with the context's cause when the context is done. A nil context never is.
func UntilWriter(ctx context.Context, w io.Writer) io.Writer {
	if ctx == nil {
		return w
	}
	return untilWriter{ctx, w}
}

type untilWriter struct {
	ctx context.Context
	w   io.Writer
}

func (u untilWriter) Write(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.w.Write(b)
}
