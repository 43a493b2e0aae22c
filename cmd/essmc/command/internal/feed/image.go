package feed

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
)

// imageFiles are the extensions of images. The content decides about the format.
var imageFiles = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(file string) bool {
	return slices.Contains(imageFiles, strings.ToLower(filepath.Ext(file)))
}

// HaveImage reports whether one of the inputs in specs is an image.
func HaveImage(specs []string) bool { return slices.ContainsFunc(specs, isImage) }

// maxImage bounds the bytes of an image's file.
const maxImage = 1 << 28

// picture is an image: height x width x channels bytes.
type picture struct {
	height, width, channels int
	pix                     []byte
}

// readImage returns the tensor of an image for a port: resized, scaled, and in the port's layout. The notes say what
// was done without being asked for.
func readImage(ctx context.Context, file string, p runtime.Port, o *Image) (t *tensor.Tensor, notes []string,
	err error) {
	data, err := readAll(file, maxImage)
	if err != nil {
		return nil, nil, err
	}
	want, isTensor := ir.AsTensor(p.Type)
	if isTensor && want.Elem == tensor.Uint8 && !want.NoRank && len(want.Shape) == 1 { // the model decodes the file
		return tensor.FromSlice(data, len(data)), nil, nil
	}
	at, err := layoutOf(p)
	if err != nil {
		return nil, nil, err
	}
	pic, err := decodeImage(ctx, data)
	if err != nil {
		return nil, nil, err
	}
	if at.channels == 1 {
		pic = pic.gray()
	}
	was := fmt.Sprintf("%dx%d", pic.height, pic.width)
	if pic, err = o.Resize.apply(pic, at.height, at.width); err != nil {
		return nil, nil, err
	}
	if now := fmt.Sprintf("%dx%d", pic.height, pic.width); now != was && !o.Resize.given() {
		notes = append(notes, fmt.Sprintf("stretched from %s to %s (height x width); --resize crop keeps the "+
			"proportions",
			was, now))
	}
	values, note, err := o.Normalize.apply(pic, want.Elem)
	if err != nil {
		return nil, nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	return at.tensor(pic, values), notes, nil
}

// readAll returns the content of a file of at most limit bytes.
func readAll(file string, limit int64) ([]byte, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(file)
	if err != nil {
		return nil, err
	}
	if err := lfs.CheckFile(f, size); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if size > limit {
		return nil, fmt.Errorf("%s: expected at most %d bytes, found %d", file, limit, size)
	}
	data, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

// decodeImage decodes a file as the operator ImageDecoder does: JPEG files give the samples of libjpeg, and
// transparency is ignored. The decoders may use half of the machine's memory.
func decodeImage(ctx context.Context, data []byte) (picture, error) {
	node := &ir.Node{Op: std.ImageDecoder, Inputs: []*ir.Value{{}}, Outputs: []*ir.Value{{}}}
	budget := ir.NewBudget(max(ram.Total()/2, 1<<30), -1)
	out, err := eval.Options{}.Node(ctx, node, []tensor.Datum{tensor.FromSlice(data, len(data))}, budget)
	if err != nil {
		return picture{}, err
	}
	t, ok := out[0].(*tensor.Tensor)
	if !ok || t.Len() == 0 {
		_, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return picture{}, fmt.Errorf("expected a PNG, JPEG, GIF, BMP, TIFF or WebP image, found other content")
		}
		return picture{}, fmt.Errorf("damaged %s image: it is probably truncated; fetch it again",
			strings.ToUpper(format))
	}
	return picture{t.Dim(0), t.Dim(1), t.Dim(2), tensor.Data[uint8](t)}, nil
}

// gray returns the luma of ITU-R 601, rounded as Pillow does.
func (p picture) gray() picture {
	out := picture{p.height, p.width, 1, make([]byte, p.height*p.width)}
	for i := range out.pix {
		r, g, b := int(p.pix[3*i]), int(p.pix[3*i+1]), int(p.pix[3*i+2])
		out.pix[i] = byte((r*19595 + g*38470 + b*7471 + 1<<15) >> 16)
	}
	return out
}

// layout says where an input has the rows, columns and channels of an image.
type layout struct {
	rank          int
	c, h, w       int // axes; c is -1 if there is none
	channels      int // 1 or 3
	height, width int // of the input; 0: any
}

// layoutOf returns the layout of a port. Channels are the axis of 1 or 3, or one with such a name; they come first if
// nothing decides.
func layoutOf(p runtime.Port) (layout, error) {
	fail := func(why string) (layout, error) {
		return layout{}, fmt.Errorf("an image needs an input such as float[1,3,H,W], float[1,H,W,3] or float[28,28], "+
			"found %v%s", p.Type, why)
	}
	t, ok := ir.AsTensor(p.Type)
	if !ok || t.NoRank || t.Elem == tensor.String || t.Elem.IsComplex() || t.Elem == tensor.Bool {
		return fail("")
	}
	rank := len(t.Shape)
	if rank == 4 {
		if n, known := t.Shape[0].Known(); known && n != 1 {
			return fail(fmt.Sprintf(", which takes %d images at once", n))
		}
	}
	at := layout{rank: rank, c: -1}
	switch rank {
	case 2:
		rows, _ := t.Shape[0].Known()
		columns, _ := t.Shape[1].Known()
		if rows < 2 || columns < 2 { // vectors
			return fail("")
		}
		at.h, at.w = 0, 1
	case 3, 4:
		first, last := channelScore(t.Shape[rank-3]), channelScore(t.Shape[rank-1])
		_, rows := t.Shape[rank-2].Known()
		_, columns := t.Shape[rank-1].Known()
		switch {
		case rank == 3 && first == 1 && rows && columns && last == 0: // [N,28,28]
			at.h, at.w = 1, 2
		case first == 0 && last == 0:
			return fail("")
		case first >= last:
			at.c, at.h, at.w = rank-3, rank-2, rank-1
		default:
			at.h, at.w, at.c = rank-3, rank-2, rank-1
		}
	default:
		return fail("")
	}
	known := func(axis int) int {
		n, _ := t.Shape[axis].Known()
		return int(n)
	}
	at.channels, at.height, at.width = 1, known(at.h), known(at.w)
	if at.c >= 0 {
		if at.channels = known(at.c); at.channels == 0 {
			at.channels = 3
		}
	}
	return at, nil
}

// channelScore rates a dimension as that of channels: 0 for a wrong number, 1 for an unknown one, 2 for 1, 3, or a
// name.
func channelScore(d ir.Dim) int {
	if n, known := d.Known(); known {
		if n == 1 || n == 3 {
			return 2
		}
		return 0
	}
	if s, ok := d.Symbol(); ok && (strings.Contains(strings.ToLower(s), "channel") || strings.EqualFold(s, "c")) {
		return 2
	}
	return 1
}

// tensor arranges the values of a picture, which are rows of columns of channels.
func (l layout) tensor(p picture, values *tensor.Tensor) *tensor.Tensor {
	shape := slices.Repeat([]int{1}, l.rank)
	shape[l.h], shape[l.w] = p.height, p.width
	if l.c >= 0 {
		shape[l.c] = p.channels
	}
	if p.channels > 1 && l.c < l.h {
		values = planar(values, p.height*p.width, p.channels)
	}
	out, err := values.Reshape(shape...)
	if err != nil {
		panic(err) // the number of values is that of the picture
	}
	return out
}

// planar moves channels from the last axis to the first.
func planar(t *tensor.Tensor, pixels, channels int) *tensor.Tensor {
	out := tensor.New(t.DType(), t.Len())
	size := len(t.Bytes()) / t.Len()
	from, to := t.Bytes(), out.Bytes()
	for i := range pixels {
		for c := range channels {
			copy(to[(c*pixels+i)*size:][:size], from[(i*channels+c)*size:])
		}
	}
	return out
}
