package runtime

import (
	"context"
	"errors"
	goruntime "runtime"

	"github.com/essmc/essmc/ir/tensor"
)

// Keeper is implemented by a Program that keeps the states of streams on its device, so that they are not copied for
// each step. The last inputs of its graph are the states before a step, and the last outputs the states after it, in
// the same order.
type Keeper interface {
	// Keep makes a place for the states of one stream, of so many bytes in all: one state after the other, each as its
	// tensor holds it. They are zero.
	Keep(bytes int64) (Kept, error)
}

// Kept is the place of a stream's states. One goroutine uses it at a time. It ends with its program.
type Kept interface {
	// Read copies all states to dst, and Write from src.
	Read(dst []byte) error
	Write(src []byte) error
	// Close gives the place back. A second Close does nothing.
	Close() error
}

// KeptRunner is implemented by the executables of a Keeper.
type KeptRunner interface {
	// RunKept is Run with the states of streams whose samples are consecutive along the first axis: the last inputs
	// and outputs. It reads and writes the kept states; the corresponding tensors in in and out have the right types
	// but are not used. A run that fails leaves the states unchanged.
	RunKept(ctx context.Context, in, out []tensor.Datum, states int, of []Kept) error
}

// past is the state of a stream: the states one after the other, each as its tensor holds it.
type past struct {
	bytes []byte
	kept  Kept // has them in place of bytes; nil: nothing does
	size  int64
}

// newPast makes the state of a stream that begins, with all states zero.
func (s *Stream) newPast(p Program, size int64) error {
	s.past = past{size: size}
	k, ok := p.(Keeper)
	if !ok || size == 0 {
		s.past.bytes = make([]byte, size)
		return nil
	}
	var err error
	if s.past.kept, err = k.Keep(size); err != nil {
		return err
	}
	// Streams need not be closed.
	goruntime.AddCleanup(s, func(k Kept) { _ = k.Close() }, s.past.kept)
	return nil
}

// read returns the states; the caller does not write to them.
func (p *past) read() ([]byte, error) {
	if p.kept == nil {
		return p.bytes, nil
	}
	b := make([]byte, p.size)
	return b, p.kept.Read(b)
}

// write replaces the states by those in b.
func (p *past) write(b []byte) error {
	if p.kept == nil {
		copy(p.bytes, b)
		return nil
	}
	return p.kept.Write(b)
}

// moveTo moves the states to the place of another program.
func (p *past) moveTo(to Program) error {
	b, err := p.read()
	if err != nil {
		return err
	}
	kept, err := to.(Keeper).Keep(p.size)
	if err != nil {
		return err
	}
	if err := kept.Write(b); err != nil {
		return errors.Join(err, kept.Close())
	}
	old := p.kept
	p.kept = kept
	return old.Close()
}

// close drops the states.
func (p *past) close() error {
	kept := p.kept
	*p = past{}
	if kept == nil {
		return nil
	}
	return kept.Close()
}
