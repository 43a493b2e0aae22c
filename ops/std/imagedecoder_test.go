package std

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"testing"
	"time"

	_ "golang.org/x/image/bmp"  // formats that programs register
	_ "golang.org/x/image/tiff" // formats that programs register
	_ "golang.org/x/image/webp" // formats that programs register

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// decoded runs the operator on a file.
func decoded(t *testing.T, file []byte, format string) *tensor.Tensor {
	t.Helper()
	s := of(tensor.FromSlice(file, len(file))).With(ir.A("pixel_format", format))
	out, err := eval(plainNode(t, ImageDecoder, s), s.In, false)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].(*tensor.Tensor)
}

func TestImageDecoder(t *testing.T) {
	pic := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	pic.Set(0, 0, color.NRGBA{1, 2, 3, 255})
	pic.Set(1, 0, color.NRGBA{200, 100, 0, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, pic); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file, format string
		want               []byte
	}{
		{"png", file.String(), "RGB", []byte{1, 2, 3, 200, 100, 0}},
		{"png, blue first", file.String(), "BGR", []byte{3, 2, 1, 0, 100, 200}},
		{"png, gray", file.String(), "Grayscale", []byte{2, 118}},
		{"bitmap as text", "P1 # two\n2 1\n01", "Grayscale", []byte{255, 0}},
		{"graymap as text", "P2 2 1 15 15 3", "Grayscale", []byte{255, 51}},
		{"pixmap as text", "P3 1 1 255 1 2 3", "RGB", []byte{1, 2, 3}},
		{"bitmap", "P4 2 1\n\x40", "Grayscale", []byte{255, 0}},
		{"graymap of 16 bits", "P5 1 1 65535\n\x80\x80", "Grayscale", []byte{128}},
		{"pixmap", "P6 1 1 255\n\x01\x02\x03", "RGB", []byte{1, 2, 3}},
		{"cut short", "P6 1 1 255\n\x01\x02", "RGB", nil},
		{"huge", "P5 99999999 99999999 255\n", "RGB", nil},
		{"nothing", "", "RGB", nil},
		{"no picture", "hello", "RGB", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decoded(t, []byte(tt.file), tt.format); !bytes.Equal(tensor.Data[uint8](got), tt.want) {
				t.Errorf("found %s %v, expected %v", got, tensor.Data[uint8](got), tt.want)
			}
		})
	}
}

// photo returns a JPEG file of some size, in baseline with chroma at half resolution.
func photo(width, height int) []byte {
	pic := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range pic.Pix {
		pic.Pix[i] = byte(i*i/7 + 40*(i%4) + random.IntN(30))
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, pic, nil); err != nil {
		panic(err)
	}
	return file.Bytes()
}

// TestDecodeJPEG compares the exact decoder with image/jpeg, which may round differently.
func TestDecodeJPEG(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {16, 16}, {17, 9}, {40, 33}} {
		file := photo(size[0], size[1])
		got, err := decodeJPEG(nil, file)
		if err != nil {
			t.Fatal(err)
		}
		img, err := jpeg.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		want := img.(*image.YCbCr)
		if got.Rect != want.Rect || got.SubsampleRatio != want.SubsampleRatio {
			t.Fatalf("found %v %v, expected %v %v", got.Rect, got.SubsampleRatio, want.Rect, want.SubsampleRatio)
		}
		for y := range size[1] {
			for x := range size[0] {
				a, b := got.YCbCrAt(x, y), want.YCbCrAt(x, y)
				for i, d := range []int{int(a.Y) - int(b.Y), int(a.Cb) - int(b.Cb), int(a.Cr) - int(b.Cr)} {
					if max(d, -d) > 1 {
						t.Fatalf("%v: component %d at %d,%d: found %v, expected %v", size, i, x, y, a, b)
					}
				}
			}
		}
		for n := range file {
			_, _ = decodeJPEG(nil, file[:n]) // an error or not, but no panic
		}
	}
}

// progressive returns a progressive JPEG file of a grey picture, of scans that say for whole runs of blocks that these have
// nothing: a few bytes a scan.
func progressive(width, height, scans int) []byte {
	file := []byte{0xff, 0xd8}
	segment := func(marker byte, data ...byte) {
		file = append(file, 0xff, marker, byte((len(data)+2)>>8), byte(len(data)+2))
		file = append(file, data...)
	}
	quant := bytes.Repeat([]byte{1}, 65)
	quant[0] = 0
	segment(0xdb, quant...)
	segment(0xc2, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 1, 1, 0x11, 0)
	code := make([]byte, 18)
	code[0], code[1], code[17] = 0x10, 1, 0xe0 // one code, of one bit: a run, whose length follows in 14 bits
	segment(0xc4, code...)
	var bits []byte
	for left := ((width + 7) / 8) * ((height + 7) / 8); left > 0; left -= 1<<15 - 1 {
		bits = append(append(bits, 0), bytes.Repeat([]byte{1}, 14)...)
	}
	for len(bits)%8 != 0 {
		bits = append(bits, 1)
	}
	for range scans {
		segment(0xda, 1, 1, 0, 1, 63, 0)
		for i := 0; i < len(bits); i += 8 {
			b := byte(0)
			for _, bit := range bits[i : i+8] {
				b = b<<1 | bit
			}
			if file = append(file, b); b == 0xff {
				file = append(file, 0)
			}
		}
	}
	return append(file, 0xff, 0xd9)
}

// TestProgressiveJPEG decodes pictures whose scans take few bytes and much time: a number of scans that no program writes is
// refused, and the context ends the others.
func TestProgressiveJPEG(t *testing.T) {
	if got := decoded(t, progressive(100, 60, 20), "RGB"); !slices.Equal(got.Shape(), []int{60, 100, 3}) ||
		slices.ContainsFunc(tensor.Data[uint8](got), func(b uint8) bool { return b != 128 }) {
		t.Errorf("%s, expected a grey picture", got)
	}
	if got := decoded(t, progressive(100, 60, maxScans), "RGB"); got.Len() != 3*100*60 {
		t.Errorf("%s of %d scans", got, maxScans)
	}
	file := progressive(2048, 2048, maxScans+1)
	if got := decoded(t, file, "RGB"); got.Len() != 0 {
		t.Errorf("%s of %d scans", got, maxScans+1)
	}
	file = progressive(2048, 2048, maxScans)
	var checks []time.Duration
	least := time.Hour
	for range 3 {
		watch := &watched{Context: t.Context()}
		r, err := readerOf(&ir.EvalCtx{Ctx: watch}, file, "jpeg")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jpeg.Decode(r); err != nil {
			t.Fatal(err)
		}
		least = min(least, watch.worst)
		checks = watch.at
	}
	if whole := checks[len(checks)-1] - checks[0]; len(checks) < len(file)/2 || least > whole/20 {
		t.Errorf("%d checks of the context for %d bytes, at most %v apart, in %v", len(checks), len(file), least, whole)
	}
}

// watched notes the processor time at which its error is asked for.
type watched struct {
	context.Context
	at    []time.Duration
	worst time.Duration // between two of these
}

func (w *watched) Err() error {
	now := worktime.Now()
	if n := len(w.at); n > 0 {
		w.worst = max(w.worst, now-w.at[n-1])
	}
	w.at = append(w.at, now)
	return w.Context.Err()
}

func FuzzImageDecoder(f *testing.F) {
	f.Add(photo(9, 7))
	for _, s := range []string{"P1 2 1\n01", "P4 9 1\n\x40\x00", "P5 1 1 65535\n\x80\x80", "P6 1 1 255\n\x01\x02\x03",
		"P3 1 1 7 1 2 3", "P2 99999999 1 255"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1<<12 {
			if pic, err := decodeJPEG(nil, data); err == nil && pic.Rect.Dx()*pic.Rect.Dy() < 1<<12 {
				p, err := newPicture(nil, pic.Rect.Dx(), pic.Rect.Dy())
				if err != nil {
					t.Fatal(err)
				}
				fromYCbCr(nil, p, pic, false)
			}
		}
		if len(data) < 2 || data[0] != 'P' || data[1] < '1' || data[1] > '6' {
			return // the decoders of other formats are tested elsewhere
		}
		p, err := decodePNM(nil, data)
		if err == nil && (len(p.rgb) != 3*p.width*p.height || p.width*p.height > 8*len(data)) {
			t.Errorf("%d by %d with %d bytes from %d", p.width, p.height, len(p.rgb), len(data))
		}
	})
}
