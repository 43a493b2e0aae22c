package std

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // registers its decoder
	_ "image/png"  // registers its decoder

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ImageDecoder reads image files.
//
// PNG, JPEG and the PNM family are built in. Common JPEG files give exactly the samples of libjpeg. Other formats need
// a decoder that is registered with package image, as golang.org/x/image/bmp, …/tiff and …/webp do when a program
// imports them. There is no JPEG 2000.
var ImageDecoder = ops.Register(&ir.Op{
	Name: "ImageDecoder", Since: 20,
	Doc: "The image in a file's bytes, as height, width, channels. It is empty if the file cannot be read.",
	In:  ops.Sig("encoded_stream:uint8[_]"), Out: ops.Sig("image:uint8[_,_,_]"),
	Attrs: []ir.AttrSpec{{Name: "pixel_format", Kind: ir.AttrString, Default: "RGB",
		OneOf: []string{"RGB", "BGR", "Grayscale"}, Doc: "the channels"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		channels := int64(3)
		if getStr(n, "pixel_format") == "Grayscale" {
			channels = 1
		}
		return one(typed(tensor.Uint8, ir.Shape{ir.Unknown, ir.Unknown, ir.Const(channels)}))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "encoded_stream")
		if err != nil {
			return nil, err
		}
		if t.DType() != tensor.Uint8 {
			return nil, fmt.Errorf("encoded_stream: expected uint8, found %s", t)
		}
		pic, err := decodeImage(c, t.Bytes())
		if err != nil {
			pic = picture{}
		}
		format := getStr(c.Node, "pixel_format")
		channels := 3
		if format == "Grayscale" {
			channels = 1
		}
		out, err := alloc(c, tensor.Uint8, []int{pic.height, pic.width, channels})
		if err != nil {
			return nil, err
		}
		dst := tensor.Data[uint8](out)
		for i := range pic.height * pic.width {
			c.Step(1)
			r, g, b := pic.rgb[3*i], pic.rgb[3*i+1], pic.rgb[3*i+2]
			switch format {
			case "Grayscale": // luma of ITU-R 601, in 16 bits
				dst[i] = byte((int(r)*19595 + int(g)*38470 + int(b)*7471 + 1<<15) >> 16)
			case "BGR":
				dst[3*i], dst[3*i+1], dst[3*i+2] = b, g, r
			default:
				dst[3*i], dst[3*i+1], dst[3*i+2] = r, g, b
			}
		}
		return ops.One(out, nil)
	},
	Tol: ir.Exact,
})

// picture has 3 bytes per pixel, row by row.
type picture struct {
	width, height int
	rgb           []byte
}

// maxPixels bounds the image that a small file may describe.
const maxPixels = 1 << 28

func checkSize(width, height int) error {
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return fmt.Errorf("a picture of %d by %d", width, height)
	}
	return nil
}

func newPicture(c *ir.EvalCtx, width, height int) (picture, error) {
	if err := checkSize(width, height); err != nil {
		return picture{}, err
	}
	return picture{width, height, ops.Make[byte](c, 3*width*height)}, nil
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

func decodeImage(ec *ir.EvalCtx, data []byte) (picture, error) {
	if len(data) > 2 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6' {
		return decodePNM(ec, data)
	}
	conf, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return picture{}, err
	}
	if err := checkSize(conf.Width, conf.Height); err != nil {
		return picture{}, err
	}
	ec.Charge(pixelBytes(conf.ColorModel) * int64(conf.Width) * int64(conf.Height))
	file, err := readerOf(ec, data, format)
	if err != nil {
		return picture{}, err
	}
	img, _, err := image.Decode(file)
	if err != nil {
		return picture{}, err
	}
	if b := img.Bounds(); b.Dx() != conf.Width || b.Dy() != conf.Height {
		return picture{}, fmt.Errorf("an image of %v states a size of %d by %d", b, conf.Width, conf.Height)
	}
	p, err := newPicture(ec, conf.Width, conf.Height)
	if err != nil {
		return picture{}, err
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
			p.rgb[i], p.rgb[i+1], p.rgb[i+2] = c.R, c.G, c.B
			i += 3
		}
	}
	return p, nil
}
