package arrays

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// maxNpyHeader bounds the header of a .npy file; numpy itself writes about a hundred bytes.
const maxNpyHeader = 1 << 16

// maxRank is numpy's own limit.
const maxRank = 64

var npyMagic = []byte("\x93NUMPY")

// npyTypes are numpy's codes of element types, without the byte order.
var npyTypes = map[string]tensor.DType{
	"f2": tensor.Float16, "f4": tensor.Float32, "f8": tensor.Float64, "c8": tensor.Complex64, "c16": tensor.Complex128,
	"b1": tensor.Bool,
	"i1": tensor.Int8, "i2": tensor.Int16, "i4": tensor.Int32, "i8": tensor.Int64,
	"u1": tensor.Uint8, "u2": tensor.Uint16, "u4": tensor.Uint32, "u8": tensor.Uint64,
}

// npyHeader is the header of a .npy file.
type npyHeader struct {
	dtype     tensor.DType
	width     int // bytes of an element
	bigEndian bool
	wide      bool // text has four bytes for a character, instead of one
	fortran   bool
	shape     []int
}

// ReadNpy reads a .npy file of size bytes, versions 1 to 3. Big-endian elements and Fortran order are converted. Texts
// of a fixed length ('<U5', '|S5') are strings without the zeros at their ends.
func ReadNpy(r io.Reader, size int64) (*tensor.Tensor, error) {
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, err
	}
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:8]); err != nil || !bytes.Equal(pre[:6], npyMagic) {
		return nil, errors.New("is not a .npy file: expected one that numpy.save wrote, found other content")
	}
	width := 2
	switch major, minor := pre[6], pre[7]; {
	case major < 1 || major > 3 || minor != 0:
		return nil, fmt.Errorf(".npy version %d.%d, expected 1.0, 2.0 or 3.0", major, minor)
	case major > 1:
		width = 4
	}
	if _, err := io.ReadFull(r, pre[8:8+width]); err != nil {
		return nil, errors.New("file ends within the header")
	}
	n := binary.LittleEndian.Uint32(pre[8:12]) // in version 1 the upper half is zero
	if n > maxNpyHeader {
		return nil, fmt.Errorf("header of %d bytes, at most %d are read", n, maxNpyHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, errors.New("file ends within the header")
	}
	h, err := parseNpyHeader(string(text))
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	count, err := tensor.Size(h.shape)
	if err != nil {
		return nil, err
	}
	have := size - 8 - int64(width) - int64(n)
	elem := h.width
	if int64(count) > have || int64(count)*int64(elem) != have {
		return nil, fmt.Errorf("%v%s needs %d elements of %d bytes, found %d bytes", h.dtype,
			tensor.ShapeString(h.shape), count, elem, have)
	}
	if h.dtype == tensor.String {
		return h.readText(r, count)
	}
	t := tensor.New(h.dtype, h.shape...)
	if _, err := io.ReadFull(r, t.Bytes()); err != nil {
		return nil, fmt.Errorf("reading %d bytes of data: %w", have, err)
	}
	if h.bigEndian {
		swap(t.Bytes(), h.dtype)
	}
	if h.dtype == tensor.Bool {
		if i := slices.IndexFunc(t.Bytes(), func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, fmt.Errorf("element %d is byte %d, a bool is 0 or 1", i, t.Bytes()[i])
		}
	}
	if h.fortran && len(h.shape) > 1 {
		t = fromFortran(t)
	}
	return t, nil
}

// swap reverses the bytes of each number. A complex element is two numbers.
func swap(b []byte, d tensor.DType) {
	width := d.Bits() / 8
	if d.IsComplex() {
		width /= 2
	}
	for ; len(b) > 0; b = b[width:] {
		slices.Reverse(b[:width])
	}
}

// fromFortran returns the elements of t, which are in column-major order, in row-major order.
func fromFortran(t *tensor.Tensor) *tensor.Tensor {
	shape, width := t.Shape(), t.DType().Bits()/8
	out := tensor.New(t.DType(), shape...)
	stride := make([]int, len(shape)) // of t
	step := width
	for i, d := range shape {
		stride[i] = step
		step *= d
	}
	index := make([]int, len(shape))
	src, dst := t.Bytes(), out.Bytes()
	for at := 0; len(dst) > 0; dst = dst[width:] {
		copy(dst[:width], src[at:])
		for i := len(shape) - 1; i >= 0; i-- {
			index[i]++
			at += stride[i]
			if index[i] < shape[i] {
				break
			}
			at -= index[i] * stride[i]
			index[i] = 0
		}
	}
	return out
}

// parseNpyHeader reads the header's Python literal: a dict of exactly descr, fortran_order and shape.
func parseNpyHeader(s string) (npyHeader, error) {
	p := &literal{s: s}
	var h npyHeader
	seen := map[string]bool{}
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		key := p.string()
		p.expect(":")
		if p.err == nil && seen[key] {
			return h, fmt.Errorf("key %q appears twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			h.dtype, h.width, h.bigEndian, h.wide = p.descr()
		case "fortran_order":
			h.fortran = p.bool()
		case "shape":
			h.shape = p.shape()
		default:
			p.fail(fmt.Errorf("unknown key %q, expected descr, fortran_order and shape", key))
		}
		if !p.accept(",") && !p.peek("}") {
			p.expect("}")
		}
	}
	if p.space(); p.err == nil && p.s != "" {
		p.fail(fmt.Errorf("%d bytes follow the dict", len(p.s)))
	}
	if p.err == nil && len(seen) != 3 {
		p.fail(errors.New("expected descr, fortran_order and shape"))
	}
	return h, p.err
}

// literal reads the forms of Python literals that numpy writes. After an error it returns zero values.
type literal struct {
	s   string
	err error
}

func (p *literal) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *literal) space() { p.s = strings.TrimLeft(p.s, " \t\r\n") }

func (p *literal) peek(token string) bool {
	p.space()
	return p.err == nil && strings.HasPrefix(p.s, token)
}

func (p *literal) accept(token string) bool {
	if !p.peek(token) {
		return false
	}
	p.s = p.s[len(token):]
	return true
}

func (p *literal) expect(token string) {
	if !p.accept(token) {
		p.fail(fmt.Errorf("expected %q, found %.20q", token, p.s))
	}
}

func (p *literal) string() string {
	for _, quote := range []string{"'", `"`} {
		if p.accept(quote) {
			s, rest, ok := strings.Cut(p.s, quote)
			if !ok || strings.Contains(s, `\`) {
				break
			}
			p.s = rest
			return s
		}
	}
	p.fail(fmt.Errorf("expected a string, found %.20q", p.s))
	return ""
}

func (p *literal) bool() bool {
	if p.accept("True") {
		return true
	}
	p.expect("False")
	return false
}

func (p *literal) descr() (d tensor.DType, width int, bigEndian, wide bool) {
	if p.peek("[") {
		p.fail(errors.New("arrays of records are not read, expected an element type of numbers or text"))
		return
	}
	s := p.string()
	if p.err != nil {
		return
	}
	code := strings.TrimLeft(s, "<>=|")
	bigEndian = s != "" && s[0] == '>'
	d, ok := npyTypes[code]
	switch {
	case strings.HasPrefix(code, "O"):
		p.fail(errors.New("arrays of Python objects are not read: they would have to be unpickled; save numbers or " +
			"texts, as in numpy.save(FILE, x.astype(numpy.float32))"))
	case len(s)-len(code) > 1:
		p.fail(fmt.Errorf("element type %.20q is neither numeric nor text", s))
	case ok:
		return d, d.Bits() / 8, bigEndian, false
	case strings.HasPrefix(code, "U") || strings.HasPrefix(code, "S"):
		n, err := strconv.ParseUint(code[1:], 10, 28)
		if err != nil || n == 0 {
			p.fail(fmt.Errorf("element type %.20q: expected a length of 1 or more", s))
			return
		}
		if wide = code[0] == 'U'; wide {
			n *= 4
		}
		return tensor.String, int(n), bigEndian, wide
	default:
		p.fail(fmt.Errorf("element type %.20q is neither numeric nor text", s))
	}
	return
}

func (p *literal) shape() []int {
	shape := []int{}
	p.expect("(")
	for p.err == nil && !p.accept(")") {
		p.space()
		n := 0
		for n < len(p.s) && p.s[n] >= '0' && p.s[n] <= '9' {
			n++
		}
		d, err := strconv.ParseInt(p.s[:n], 10, 64)
		if err != nil {
			p.fail(fmt.Errorf("shape: expected a dimension, found %.20q", p.s))
			break
		}
		p.s = strings.TrimPrefix(p.s[n:], "L") // Python 2 writes long integers with this suffix
		if len(shape) == maxRank {
			p.fail(fmt.Errorf("shape: more than %d dimensions", maxRank))
			break
		}
		shape = append(shape, int(d))
		if !p.accept(",") && !p.peek(")") {
			p.expect(")")
		}
	}
	return shape
}

// WriteNpy writes t as numpy does: version 1.0, little-endian, row-major, with the data at a multiple of 64 bytes. It
// refuses bfloat16, 8-bit floats and packed types, which numpy does not have.
func WriteNpy(w io.Writer, t *tensor.Tensor) error {
	if err := tensor.CheckByteOrder(); err != nil {
		return err
	}
	if t.DType() == tensor.String {
		return writeNpyText(w, t)
	}
	code := ""
	for c, d := range npyTypes {
		if d == t.DType() {
			code = c
		}
	}
	if code == "" {
		return fmt.Errorf(".npy cannot store %v", t.DType())
	}
	order := "<"
	if t.DType().Bits() == 8 {
		order = "|"
	}
	if err := writeNpyHeader(w, order+code, t); err != nil {
		return err
	}
	_, err := w.Write(t.Bytes())
	return err
}

// writeNpyHeader writes all before the elements of t.
func writeNpyHeader(w io.Writer, descr string, t *tensor.Tensor) error {
	dims := ""
	for i, d := range t.Shape() {
		if i > 0 {
			dims += ", "
		}
		dims += strconv.Itoa(d)
	}
	if t.Rank() == 1 {
		dims += ","
	}
	h := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims)
	h += strings.Repeat(" ", 63-(10+len(h))%64) + "\n"
	if len(h) > maxNpyHeader-1 {
		return fmt.Errorf("%s has too many dimensions for .npy", t)
	}
	b := append(slices.Clone(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h)))
	_, err := w.Write(append(b, h...))
	return err
}
