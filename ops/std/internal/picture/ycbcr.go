package picture

import (
	"image"

	"github.com/essmc/essmc/ir"
)

// fromYCbCr converts luma and chroma to red, green and blue like common decoders: it interpolates chroma between the
// centers of its larger pixels, in integers. For JPEG it is the method that the standard describes under ImageDecoder.
// WebP rounds differently, and uses the narrow range of video.
func fromYCbCr(c *ir.EvalCtx, p Picture, y *image.YCbCr, webp bool) {
	cw, ch := (p.Width+1)/2, (p.Height+1)/2
	plane := func(v []byte) func(row, col int) int {
		at := func(row, col int) int { // of the stored plane, whose edges are repeated
			return int(v[min(max(row, 0), ch-1)*y.CStride+min(max(col, 0), cw-1)])
		}
		switch {
		case webp:
			return func(row, col int) int { return webpChroma(at, row, col, cw) }
		case y.SubsampleRatio == image.YCbCrSubsampleRatio420:
			return func(row, col int) int { return jpegChroma(at, row, col, cw) }
		case y.SubsampleRatio == image.YCbCrSubsampleRatio422:
			full := func(row, col int) int { return int(v[row*y.CStride+min(max(col, 0), cw-1)]) }
			return func(row, col int) int {
				near := full(row, col/2-1+col%2*2)
				return (3*full(row, col/2) + near + 1 + col%2) >> 2
			}
		}
		return func(row, col int) int { return int(v[y.COffset(y.Rect.Min.X+col, y.Rect.Min.Y+row)]) }
	}
	cb, cr := plane(y.Cb), plane(y.Cr)
	for row := range p.Height {
		c.Step(1)
		for col := range p.Width {
			c.Step(1)
			c.Step(16)
			out := p.RGB[3*(row*p.Width+col):]
			luma := int(y.Y[row*y.YStride+col])
			u, v := cb(row, col), cr(row, col)
			if webp {
				out[0] = webpClip(luma*19077>>8 + v*26149>>8 - 14234)
				out[1] = webpClip(luma*19077>>8 - u*6419>>8 - v*13320>>8 + 8708)
				out[2] = webpClip(luma*19077>>8 + u*33050>>8 - 17685)
				continue
			}
			u, v = u-128, v-128
			out[0] = clipByte(luma + (91881*v+1<<15)>>16)
			out[1] = clipByte(luma + (-22554*u-46802*v+1<<15)>>16)
			out[2] = clipByte(luma + (116130*u+1<<15)>>16)
		}
	}
}

func clipByte(v int) byte { return byte(min(max(v, 0), 255)) }

// webpClip drops six fractional bits.
func webpClip(v int) byte { return clipByte(v >> 6) }

// jpegChroma weights the nearest four chroma pixels 9:3:3:1, rounding up and down alternately.
func jpegChroma(at func(row, col int) int, row, col, width int) int {
	r, c := row/2, col/2
	near := r - 1 + row%2*2
	column := func(c int) int { return 3*at(r, c) + at(near, c) }
	if col == 0 {
		return (column(0)*4 + 8) >> 4
	}
	if col == 2*width-1 {
		return (column(c)*4 + 7) >> 4
	}
	return (3*column(c) + column(c-1+col%2*2) + 8 - col%2) >> 4
}

// webpChroma weights the nearest four chroma pixels 9:3:3:1 in two steps, each rounded as in libwebp.
func webpChroma(at func(row, col int) int, row, col, width int) int {
	r, c := row/2, col/2
	nearR, nearC := r-1+row%2*2, c-1+col%2*2
	own, side, up, far := at(r, c), at(r, nearC), at(nearR, c), at(nearR, nearC)
	if col == 0 || col == 2*width-1 { // there is no such neighbor, so only the rows are weighted
		return (3*own + up + 2) >> 2
	}
	sum := own + side + up + far + 8
	diagonal := (sum + 2*(side+up)) >> 3
	return (diagonal + own) >> 1
}
