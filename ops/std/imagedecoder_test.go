package std

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	_ "golang.org/x/image/bmp"  // formats that programs register
	_ "golang.org/x/image/tiff" // formats that programs register
	_ "golang.org/x/image/webp" // formats that programs register

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
