package picture

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
)

var errPNM = errors.New("the PNM file is cut short")

// decodePNM reads portable bitmaps, graymaps and pixmaps (P1 to P6), as text or in binary.
func decodePNM(c *ir.EvalCtx, data []byte) (Picture, error) {
	kind := data[1] - '0'
	r := pnmReader{c, data[2:]}
	width, err := r.number()
	if err != nil {
		return Picture{}, err
	}
	height, err := r.number()
	if err != nil {
		return Picture{}, err
	}
	top := 1
	if kind != 1 && kind != 4 {
		if top, err = r.number(); err != nil {
			return Picture{}, err
		}
	}
	if top < 1 || top > 1<<16-1 {
		return Picture{}, fmt.Errorf("PNM: expected a largest value from 1 to 65535, found %d", top)
	}
	if kind > 3 && len(r.rest) > 0 { // one space ends the header
		r.rest = r.rest[1:]
	}
	// Every pixel takes at least a bit of the file, so a small file cannot demand a large image.
	if width <= 0 || height <= 0 || width > 8*len(data)/height {
		return Picture{}, fmt.Errorf("PNM: an image of %d by %d in %d bytes", width, height, len(data))
	}
	p, err := newPicture(c, width, height)
	if err != nil {
		return Picture{}, err
	}
	channels := 1
	if kind == 3 || kind == 6 {
		channels = 3
	}
	for row := range height {
		c.Step(1)
		var bits pnmBits
		for col := range width {
			c.Step(1)
			for ch := range channels {
				c.Step(1)
				var v int
				switch kind {
				case 1:
					v, err = r.digit()
				case 4:
					v, err = bits.next(&r)
				case 2, 3:
					v, err = r.number()
				default:
					v, err = r.binary(top)
				}
				if err != nil {
					return Picture{}, err
				}
				if kind == 1 || kind == 4 {
					v = 1 - v // ink
				}
				b := byte((min(v, top)*255 + top/2) / top)
				out := p.RGB[3*(row*width+col):]
				if channels == 3 {
					out[ch] = b
				} else {
					out[0], out[1], out[2] = b, b, b
				}
			}
		}
	}
	return p, nil
}

type pnmReader struct {
	c    *ir.EvalCtx
	rest []byte
}

// skip skips white space and comments.
func (r *pnmReader) skip() {
	for len(r.rest) > 0 {
		r.c.Step(1)
		switch c := r.rest[0]; {
		case c == '#':
			i := bytes.IndexByte(r.rest, '\n')
			if i < 0 {
				i = len(r.rest) - 1
			}
			r.rest = r.rest[i+1:]
		case c == ' ' || c >= '\t' && c <= '\r':
			r.rest = r.rest[1:]
		default:
			return
		}
	}
}

func (r *pnmReader) digit() (int, error) {
	r.skip()
	if len(r.rest) == 0 {
		return 0, errPNM
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	if c != '0' && c != '1' {
		return 0, fmt.Errorf("PNM: expected 0 or 1, found %q", c)
	}
	return int(c - '0'), nil
}

func (r *pnmReader) number() (int, error) {
	r.skip()
	n, i := 0, 0
	for i < len(r.rest) && r.rest[i] >= '0' && r.rest[i] <= '9' && n < 1<<28 {
		n, i = 10*n+int(r.rest[i]-'0'), i+1
	}
	if i == 0 {
		return 0, errPNM
	}
	r.rest = r.rest[i:]
	return n, nil
}

func (r *pnmReader) binary(top int) (int, error) {
	size := 1
	if top > 255 {
		size = 2
	}
	if len(r.rest) < size {
		return 0, errPNM
	}
	v := int(r.rest[0])
	if size == 2 {
		v = v<<8 | int(r.rest[1])
	}
	r.rest = r.rest[size:]
	return v, nil
}

// pnmBits reads the bits of one row, high ones first. A row begins with a new byte.
type pnmBits struct {
	left int
	b    byte
}

func (p *pnmBits) next(r *pnmReader) (int, error) {
	if p.left == 0 {
		if len(r.rest) == 0 {
			return 0, errPNM
		}
		p.b, p.left, r.rest = r.rest[0], 8, r.rest[1:]
	}
	p.left--
	return int(p.b >> p.left & 1), nil
}
