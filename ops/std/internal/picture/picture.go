// Package picture decodes image files for the operator ImageDecoder: PNG, JPEG, the PNM family, and the formats whose
// decoders a program registers with package image. Common JPEG files give exactly the samples of libjpeg, with which
// the standard's answers are made.
//
// It imports ir, whose context bounds time and memory, and ops.
package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // registers its decoder
	_ "image/png"  // registers its decoder

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Picture has 3 bytes per pixel, row by row.
type Picture struct {
	Width, Height int
	RGB           []byte
}

// maxPixels bounds the image that a small file may describe.
const maxPixels = 1 << 28

func checkSize(width, height int) error {
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return fmt.Errorf("a picture of %d by %d", width, height)
	}
	return nil
}

func newPicture(c *ir.EvalCtx, width, height int) (Picture, error) {
	if err := checkSize(width, height); err != nil {
		return Picture{}, err
	}
	return Picture{width, height, ops.Make[byte](c, 3*width*height)}, nil
}

// pixelBytes bounds the bytes per pixel that a decoder allocates, with the coefficients of all samples.
func pixelBytes(m color.Model) int64 {
	switch m {
	case color.RGBAModel, color.NRGBAModel, color.GrayModel, color.Gray16Model:
		return 8
	}
	if _, ok := m.(color.Palette); ok {
		return 2
	}
	return 16
}

// parts reads a file in small parts, with a check of the context before each: image decoders have none, and a part
// may represent a thousand times its bytes.
type parts struct {
	c    *ir.EvalCtx
	file *bytes.Reader
	size int
}

func (p *parts) Read(b []byte) (int, error) {
	p.c.Step(ir.Pace)
	return p.file.Read(b[:min(len(b), p.size)])
}

// maxScans bounds the scans of a JPEG file. Each goes over the whole picture, and a progressive one may be a few bytes
// long; programs that write such files make some ten.
const maxScans = 256

// readerOf returns a reader for the decoder of the format. Two bytes of a progressive JPEG file may represent 32,767
// blocks of 64 samples.
func readerOf(ec *ir.EvalCtx, data []byte, format string) (*parts, error) {
	p := &parts{ec, bytes.NewReader(data), 32}
	if format != "jpeg" {
		return p, nil
	}
	// No other part of the file may have these bytes, but metadata and thumbnails.
	if n := bytes.Count(data, []byte{0xff, 0xda}); n > maxScans {
		return nil, fmt.Errorf("expected at most %d scans, found %d", maxScans, n)
	}
	if bytes.Contains(data, []byte{0xff, 0xc2}) { // the head of a progressive picture
		p.size = 2
	}
	return p, nil
}

// Decode decodes a file, whose format it finds by its first bytes.
func Decode(ec *ir.EvalCtx, data []byte) (Picture, error) {
	if len(data) > 2 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6' {
		return decodePNM(ec, data)
	}
	conf, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return Picture{}, err
	}
	if err := checkSize(conf.Width, conf.Height); err != nil {
		return Picture{}, err
	}
	ec.Charge(pixelBytes(conf.ColorModel) * int64(conf.Width) * int64(conf.Height))
	file, err := readerOf(ec, data, format)
	if err != nil {
		return Picture{}, err
	}
	img, _, err := image.Decode(file)
	if err != nil {
		return Picture{}, err
	}
	if b := img.Bounds(); b.Dx() != conf.Width || b.Dy() != conf.Height {
		return Picture{}, fmt.Errorf("an image of %v states a size of %d by %d", b, conf.Width, conf.Height)
	}
	p, err := newPicture(ec, conf.Width, conf.Height)
	if err != nil {
		return Picture{}, err
	}
	if format == "jpeg" {
		if exact, err := decodeJPEG(ec, data); err == nil {
			img = exact
		}
	}
	if y, ok := img.(*image.YCbCr); ok && (format == "jpeg" || format == "webp") {
		fromYCbCr(ec, p, y, format == "webp")
		return p, nil
	}
	b, i := img.Bounds(), 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			ec.Step(16)
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			p.RGB[i], p.RGB[i+1], p.RGB[i+2] = c.R, c.G, c.B
			i += 3
		}
	}
	return p, nil
}
