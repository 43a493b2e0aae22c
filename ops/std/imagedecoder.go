package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std/internal/picture"
)

// ImageDecoder reads image files.
//
// PNG, JPEG and the PNM family are built in. Other formats need a decoder that is registered with package image, as
// golang.org/x/image/bmp, …/tiff and …/webp do when a program imports them. There is no JPEG 2000.
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
		pic, err := picture.Decode(c, t.Bytes())
		if err != nil {
			pic = picture.Picture{}
		}
		format := getStr(c.Node, "pixel_format")
		channels := 3
		if format == "Grayscale" {
			channels = 1
		}
		out, err := alloc(c, tensor.Uint8, []int{pic.Height, pic.Width, channels})
		if err != nil {
			return nil, err
		}
		dst := tensor.Data[uint8](out)
		for i := range pic.Height * pic.Width {
			c.Step(1)
			r, g, b := pic.RGB[3*i], pic.RGB[3*i+1], pic.RGB[3*i+2]
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
