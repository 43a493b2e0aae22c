package onnx

import (
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protobuf message under construction, in pieces, so that the bytes of tensors are not copied.
type message struct {
	pieces [][]byte
	size   int64
	open   bool // the last piece belongs to the message and may grow
}

func (m *message) append(fill func(b []byte) []byte) {
	if !m.open {
		m.pieces = append(m.pieces, nil)
		m.open = true
	}
	last := &m.pieces[len(m.pieces)-1]
	before := len(*last)
	*last = fill(*last)
	m.size += int64(len(*last) - before)
}

func (m *message) int(f protowire.Number, v int64) {
	m.append(func(b []byte) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, f, protowire.VarintType), uint64(v))
	})
}

func (m *message) float(f protowire.Number, v float64) {
	m.append(func(b []byte) []byte {
		return protowire.AppendFixed32(protowire.AppendTag(b, f, protowire.Fixed32Type), math.Float32bits(float32(v)))
	})
}

func (m *message) text(f protowire.Number, s string) {
	m.append(func(b []byte) []byte {
		return protowire.AppendString(protowire.AppendTag(b, f, protowire.BytesType), s)
	})
}

func (m *message) header(f protowire.Number, size int64) {
	m.append(func(b []byte) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, f, protowire.BytesType), uint64(size))
	})
}

// data appends bytes without copying them.
func (m *message) data(f protowire.Number, b []byte) {
	m.header(f, int64(len(b)))
	if len(b) > 0 {
		m.pieces = append(m.pieces, b)
		m.size += int64(len(b))
		m.open = false
	}
}

// message appends a finished message.
func (m *message) message(f protowire.Number, sub *message) {
	m.header(f, sub.size)
	if len(sub.pieces) == 1 && sub.open && sub.size < 4096 {
		m.append(func(b []byte) []byte { return append(b, sub.pieces[0]...) })
		return
	}
	m.pieces = append(m.pieces, sub.pieces...)
	m.size += sub.size
	m.open = false
}

func (m *message) writeTo(w io.Writer) error {
	for _, p := range m.pieces {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}
