package picture

import (
	"errors"
	"image"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// errNotExact is the error for a kind of JPEG file that only package image/jpeg decodes.
var errNotExact = errors.New("not a baseline JPEG of three components in one scan")

// decodeJPEG decodes common JPEG files (baseline, three components in one scan, chroma at full or half resolution)
// to exactly the samples of libjpeg, with which the standard's answers are made. The inverse DCT of image/jpeg
// rounds a few percent of them differently. image/jpeg has already accepted the file, so decodeJPEG checks only what
// is necessary for its safety.
func decodeJPEG(c *ir.EvalCtx, data []byte) (*image.YCbCr, error) {
	d := jpegDecoder{bytes: len(data)}
	for p := 2; p+4 <= len(data); {
		c.Step(1)
		if data[p] != 0xff || data[p+1] == 0xff {
			p++
			continue
		}
		marker := data[p+1]
		if marker == 0 || marker >= 0xd0 && marker <= 0xd9 {
			p += 2
			continue
		}
		size := int(be16(data[p+2:]))
		if size < 2 || p+2+size > len(data) {
			return nil, errNotExact
		}
		seg := data[p+4 : p+2+size]
		p += 2 + size
		ok := true
		switch {
		case marker == 0xdb:
			ok = d.quantTables(seg)
		case marker == 0xc4:
			ok = d.huffTables(seg)
		case marker == 0xc0 || marker == 0xc1:
			ok = d.frame(c, seg)
		case marker >= 0xc2 && marker <= 0xcf: // progressive, lossless, arithmetic
			ok = false
		case marker == 0xdd:
			if ok = len(seg) == 2; ok {
				d.restart = int(be16(seg))
			}
		case marker == 0xee && len(seg) >= 12 && string(seg[:5]) == "Adobe":
			ok = seg[11] == 1 // YCbCr
		case marker == 0xda:
			if !d.scan(c, seg, data[p:]) {
				return nil, errNotExact
			}
			return d.image()
		}
		if !ok {
			return nil, errNotExact
		}
	}
	return nil, errNotExact
}

type jpegDecoder struct {
	bytes         int // size of the file
	width, height int
	quant         [4][64]int32
	huff          [2][4]jpegHuff
	parts         []jpegPart
	restart       int
}

// jpegPart is one component: its sampling factors, tables, and plane of samples in whole blocks.
type jpegPart struct {
	id, h, v, quant, dc, ac int
	stride                  int
	plane                   []byte
	last                    int32 // the previous DC coefficient
}

func (d *jpegDecoder) quantTables(seg []byte) bool {
	for len(seg) > 0 {
		wide, t := int(seg[0]>>4), seg[0]&15
		if wide > 1 || t > 3 || len(seg) < 1+64*(1+wide) {
			return false
		}
		for i := range 64 {
			if wide == 1 {
				d.quant[t][i] = int32(be16(seg[1+2*i:]))
			} else {
				d.quant[t][i] = int32(seg[1+i])
			}
		}
		seg = seg[1+64*(1+wide):]
	}
	return true
}

// jpegHuff is a Huffman code: per length, the first code, the code after the last, and the index of the first symbol.
type jpegHuff struct {
	first, end, at [17]int
	symbols        []byte
}

func (d *jpegDecoder) huffTables(seg []byte) bool {
	for len(seg) > 0 {
		class, t := seg[0]>>4, seg[0]&15
		if class > 1 || t > 3 || len(seg) < 17 {
			return false
		}
		var h jpegHuff
		code, n := 0, 0
		for l := 1; l <= 16; l++ {
			count := int(seg[l])
			h.first[l], h.end[l], h.at[l] = code, code+count, n
			code, n = (code+count)<<1, n+count
		}
		if len(seg) < 17+n {
			return false
		}
		h.symbols = seg[17 : 17+n]
		d.huff[class][t], seg = h, seg[17+n:]
	}
	return true
}

func (d *jpegDecoder) frame(c *ir.EvalCtx, seg []byte) bool {
	if len(seg) != 6+3*3 || d.parts != nil || seg[0] != 8 || seg[5] != 3 {
		return false
	}
	d.height, d.width = int(be16(seg[1:])), int(be16(seg[3:]))
	if d.width == 0 || d.height == 0 || d.width > maxPixels/d.height {
		return false
	}
	for i := range 3 {
		s := seg[6+3*i:]
		p := jpegPart{id: int(s[0]), h: int(s[1] >> 4), v: int(s[1] & 15), quant: int(s[2])}
		if p.quant > 3 || i > 0 && (p.h != 1 || p.v != 1) {
			return false
		}
		d.parts = append(d.parts, p)
	}
	y := &d.parts[0]
	if !(y.h == 1 && y.v == 1 || y.h == 2 && y.v == 1 || y.h == 2 && y.v == 2) {
		return false
	}
	across, down := d.units()
	if across*down*(y.h*y.v+2) > 4*d.bytes { // a block takes at least two bits
		return false
	}
	for i := range d.parts {
		p := &d.parts[i]
		p.stride = across * p.h * 8
		p.plane = ops.Make[byte](c, p.stride*down*p.v*8)
	}
	return true
}

// units returns the numbers of groups of blocks that cover the image.
func (d *jpegDecoder) units() (across, down int) {
	w, h := 8*d.parts[0].h, 8*d.parts[0].v
	return (d.width + w - 1) / w, (d.height + h - 1) / h
}

func (d *jpegDecoder) scan(c *ir.EvalCtx, seg, data []byte) bool {
	if len(d.parts) != 3 || len(seg) != 10 || seg[0] != 3 {
		return false
	}
	for i := range d.parts {
		p := &d.parts[i]
		p.dc, p.ac = int(seg[2+2*i]>>4), int(seg[2+2*i]&15)
		if int(seg[1+2*i]) != p.id || p.dc > 3 || p.ac > 3 {
			return false
		}
	}
	bits := jpegBits{data: data}
	across, down := d.units()
	for u := range ops.Costly(c, across*down, 2000) {
		if d.restart > 0 && u > 0 && u%d.restart == 0 {
			if !bits.nextMarker() {
				return false
			}
			for i := range d.parts {
				d.parts[i].last = 0
			}
		}
		for i := range d.parts {
			p := &d.parts[i]
			for b := range p.h * p.v {
				var block [64]int32
				if !d.block(&bits, p, &block) {
					return false
				}
				x, y := (u%across*p.h+b%p.h)*8, (u/across*p.v+b/p.h)*8
				inverseDCT(&block, p.plane[y*p.stride+x:], p.stride)
			}
		}
	}
	return true
}

// zigzag is the order in which a block's coefficients are stored.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
	28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47,
	55, 62, 63,
}

// block reads the coefficients of one block, multiplied by their quantization factors.
func (d *jpegDecoder) block(bits *jpegBits, p *jpegPart, block *[64]int32) bool {
	size, ok := bits.symbol(&d.huff[0][p.dc])
	if !ok || size > 11 {
		return false
	}
	p.last += bits.number(size)
	block[0] = p.last * d.quant[p.quant][0]
	for k := 1; k < 64; k++ {
		rs, ok := bits.symbol(&d.huff[1][p.ac])
		if !ok {
			return false
		}
		run, size := int(rs>>4), rs&15
		if size == 0 {
			if run != 15 {
				break
			}
			k += 15
			continue
		}
		if k += run; k > 63 || size > 10 {
			return false
		}
		block[zigzag[k]] = bits.number(size) * d.quant[p.quant][k]
	}
	return !bits.bad
}

// jpegBits reads bits, high ones first, up to the next marker.
type jpegBits struct {
	data []byte
	acc  uint32
	n    int
	bad  bool
}

func (b *jpegBits) bit() int {
	if b.n == 0 {
		if len(b.data) < 2 || b.data[0] == 0xff && b.data[1] != 0 {
			b.bad = true
			return 0
		}
		b.acc, b.n = uint32(b.data[0]), 8
		if b.data[0] == 0xff {
			b.data = b.data[1:]
		}
		b.data = b.data[1:]
	}
	b.n--
	return int(b.acc >> b.n & 1)
}

// nextMarker skips the rest of a byte, and a restart marker.
func (b *jpegBits) nextMarker() bool {
	b.n = 0
	if len(b.data) < 2 || b.data[0] != 0xff || b.data[1]&0xf8 != 0xd0 {
		return false
	}
	b.data = b.data[2:]
	return true
}

func (b *jpegBits) symbol(h *jpegHuff) (byte, bool) {
	code := 0
	for l := 1; l <= 16; l++ {
		code = code<<1 | b.bit()
		if code >= h.first[l] && code < h.end[l] {
			return h.symbols[h.at[l]+code-h.first[l]], !b.bad
		}
	}
	return 0, false
}

// number reads a signed number of size bits.
func (b *jpegBits) number(size byte) int32 {
	v := int32(0)
	for range size {
		v = v<<1 | int32(b.bit())
	}
	if size > 0 && v < 1<<(size-1) {
		v -= 1<<size - 1
	}
	return v
}

// inverseDCT is the transform of Loeffler, Ligtenberg and Moschytz with 13 fractional bits in its constants, rounded
// after columns to 2 fractional bits and after rows to samples, as in libjpeg's accurate integer method.
func inverseDCT(in *[64]int32, out []byte, stride int) {
	var mid [64]int32
	for i := range 8 {
		v := lineDCT([8]int32{in[i], in[8+i], in[16+i], in[24+i], in[32+i], in[40+i], in[48+i], in[56+i]})
		for j, x := range v {
			mid[8*j+i] = (x + 1<<10) >> 11
		}
	}
	for i := range 8 {
		for j, x := range lineDCT([8]int32(mid[8*i:])) {
			out[i*stride+j] = clipByte(int((x+1<<17)>>18) + 128)
		}
	}
}

func lineDCT(x [8]int32) [8]int32 {
	z := (x[2] + x[6]) * 4433
	even2, even3 := z-x[6]*15137, z+x[2]*6270
	even0, even1 := (x[0]+x[4])<<13, (x[0]-x[4])<<13
	a0, a3, a1, a2 := even0+even3, even0-even3, even1+even2, even1-even2
	z1, z2, z3, z4 := x[7]+x[1], x[5]+x[3], x[7]+x[3], x[5]+x[1]
	z5 := (z3 + z4) * 9633
	z1, z2, z3, z4 = z1*-7373, z2*-20995, z5-z3*16069, z5-z4*3196
	b0, b1, b2, b3 := x[7]*2446+z1+z3, x[5]*16819+z2+z4, x[3]*25172+z2+z3, x[1]*12299+z1+z4
	return [8]int32{a0 + b3, a1 + b2, a2 + b1, a3 + b0, a3 - b0, a2 - b1, a1 - b2, a0 - b3}
}

func (d *jpegDecoder) image() (*image.YCbCr, error) {
	y, u, v := &d.parts[0], &d.parts[1], &d.parts[2]
	ratio := image.YCbCrSubsampleRatio444
	switch {
	case y.v == 2:
		ratio = image.YCbCrSubsampleRatio420
	case y.h == 2:
		ratio = image.YCbCrSubsampleRatio422
	}
	return &image.YCbCr{Y: y.plane, Cb: u.plane, Cr: v.plane, YStride: y.stride, CStride: u.stride,
		SubsampleRatio: ratio, Rect: image.Rect(0, 0, d.width, d.height)}, nil
}

// be16 reads a big-endian number.
func be16(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }
