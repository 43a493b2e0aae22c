package kernel

// DepthBytes is a convolution of channels of bytes with one filter each whose pads are among them. The weights of a
// filter are taken in taps of four that follow each other in a row of the filter.
type DepthBytes struct {
	Rows, N int // of the outputs of a channel
	// Off has, for each tap, the offset of its first input from the input of the output row's first position.
	Off []int32
	// Stride is the distance between the inputs of neighbouring outputs in a row, and Dilation between those of a
	// tap's weights.
	Stride, Dilation int
	// Ldx is the distance between the inputs of neighbouring output rows, PlaneX between channels' inputs. The
	// outputs of channels are contiguous.
	Ldx, PlaneX int
}

// DepthSlack is the number of bytes after a channel that may be read.
const DepthSlack = 64

// Fits reports whether this machine has a kernel for d.
func (d *DepthBytes) Fits() bool {
	return machine.depthBytes && 15*d.Stride+3*d.Dilation < 64 && len(d.Off) > 0
}

// Run computes bytes of channels: w has a word for each tap of a channel, of four signed bytes, the first in its lowest bits.
// x is taken as unsigned bytes.
func (d *DepthBytes) Run(y, x Bytes, w []int32, s *ByteScale, channels int) {
	if channels == 0 || d.Fits() && d.wide(y, x, w, s, channels) {
		return
	}
	flip, _ := x.flip()
	r := y.rangeOf(s.Zero)
	for c := range channels {
		for i := range d.Rows {
			for j := range d.N {
				sum := s.Add[c]
				for t, off := range d.Off {
					at := c*d.PlaneX + i*d.Ldx + j*d.Stride + int(off)
					for h := range 4 {
						if v := int8(w[c*len(d.Off)+t] >> (8 * h)); v != 0 {
							sum += int32(v) * int32(x.Data[at+h*d.Dilation]^flip)
						}
					}
				}
				y.Data[(c*d.Rows+i)*d.N+j] = r.of(float32(sum) * s.Scale[c])
			}
		}
	}
}

// CopyBytePlanes sets n bytes of each of rows of each of planes of y to those of x. Rows and planes of y have
// strides ldy and planeY, those of x ldx and planeX, in bytes.
func CopyBytePlanes(y []byte, planeY, ldy int, x []byte, planeX, ldx, planes, rows, n int) {
	if planes == 0 || rows == 0 || n == 0 || copyPlanesWide(y, planeY, ldy, x, planeX, ldx, planes, rows, n) {
		return
	}
	for p := range planes {
		for i := range rows {
			copy(y[p*planeY+i*ldy:][:n], x[p*planeX+i*ldx:])
		}
	}
}
