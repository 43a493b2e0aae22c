package picture

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
)

// TestSizes decodes small files that describe large pictures, or none.
func TestSizes(t *testing.T) {
	var file bytes.Buffer
	if err := jpeg.Encode(&file, image.NewGray(image.Rect(0, 0, 3, 2)), nil); err != nil {
		t.Fatal(err)
	}
	huge := bytes.Clone(file.Bytes())
	i := bytes.Index(huge, []byte{0xff, 0xc0})
	copy(huge[i+5:], []byte{0xff, 0xff, 0xff, 0xff}) // height and width
	for name, data := range map[string][]byte{"huge": huge, "huge graymap": []byte("P5 99999999 99999999 255\n"),
		"no width": []byte("P5 0 1 255\n"), "nothing": nil, "no picture": []byte("hello")} {
		if p, err := Decode(nil, data); err == nil {
			t.Errorf("%s: found %d by %d, expected an error", name, p.Width, p.Height)
		}
	}
	if p, err := Decode(nil, file.Bytes()); err != nil || p.Width != 3 || p.Height != 2 || len(p.RGB) != 3*3*2 {
		t.Errorf("found %d by %d (%v), expected 3 by 2", p.Width, p.Height, err)
	}
}

// photo returns a JPEG file of some size, in baseline with chroma at half resolution.
func photo(width, height int) []byte {
	pic := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range pic.Pix {
		pic.Pix[i] = byte(i*i/7 + 40*(i%4) + rand.IntN(30))
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
	grey := bytes.Repeat([]byte{128}, 3*100*60)
	for _, scans := range []int{20, maxScans} {
		got, err := Decode(nil, progressive(100, 60, scans))
		if err != nil || got.Width != 100 || got.Height != 60 || !bytes.Equal(got.RGB, grey) {
			t.Errorf("%d scans: found %d by %d (%v), expected a grey picture of 100 by 60", scans, got.Width, got.Height, err)
		}
	}
	if _, err := Decode(nil, progressive(2048, 2048, maxScans+1)); err == nil {
		t.Errorf("%d scans are decoded, expected an error", maxScans+1)
	}
	file := progressive(2048, 2048, maxScans)
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

func FuzzDecode(f *testing.F) {
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
		if err == nil && (len(p.RGB) != 3*p.Width*p.Height || p.Width*p.Height > 8*len(data)) {
			t.Errorf("%d by %d with %d bytes from %d", p.Width, p.Height, len(p.RGB), len(data))
		}
	})
}
